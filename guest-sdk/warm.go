package guest

import (
	"runtime"

	"github.com/caisson-dev/caisson/abi"
)

// Every call begins in the state that the initialiser left, so what is made ready there is
// ready in each of them: that is half of the time of a short call.

// spareBytes is the room on the heap that a call finds. Go's heap grows by as much, and
// without it many calls would have to grow it, for a third of a millisecond.
const spareBytes = 512 << 10

// rehearsal is a small envelope that has something of everything.
const rehearsal = `{"abi":1,"operation":"provision","node":{"name":"a","path":"a"},"owner":{"apiVersion":"a","kind":"a","namespace":"a","name":"a","uid":"a","generation":1},` +
	`"config":{"a":"a","b":[{"c":1}]},"facts":{"a":"a"},"state":{"a":"a"},"scope":{"id":"a"},"teardown":"Drain","capabilities":["kube_get"],"now":"2026-01-02T03:04:05Z"}`

// warmUp makes the program ready for calls: the heap has room, each size of small objects
// has a page, and packages have made the tables that they make at their first use. None of
// the author's code runs but what encoding a config runs.
func warmUp(p Program) {
	runtime.KeepAlive(make([]byte, spareBytes)) // which is too much for a stack
	runtime.GC()
	p.warm()
	call, err := newCall(abi.ExportProvision, []byte(rehearsal), nil)
	if err != nil {
		return // only a change of the ABI could bring that about, and a test would tell
	}
	config := call.Config()
	_ = config.Get("a").String()
	_ = config.Get("b").Items()
	_ = call.Publish("a", Values{"a": 1})
	call.conclude(Retry(abi.ReasonUnexpected, "a"))
}
