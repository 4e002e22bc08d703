package sandbox

import (
	"sync"
	"time"
)

const (
	// yieldEvery is how often a call is looked at. One that is over within it, as almost all
	// are, is never looked at.
	yieldEvery = 100 * time.Millisecond
	// yieldShare is the part of that for which a worker that is made to give way has computed.
	yieldShare = 2
	// starvedShare is the part of that which a worker that gives way must get.
	starvedShare = 10
)

// importance is how urgent the scheduler takes a worker to be.
type importance int

const (
	// asImportant is as urgent as this program.
	asImportant importance = iota
	// givesWay runs only where nothing else of the same group wants the processor. In a
	// container that is the operator, and its other workers.
	givesWay
)

// yielding makes a worker give way while a call of it computes. On a machine of few cores
// everything else would wait for the end of its time slice, once for each time that it
// has to be woken up. A worker that then gets next to nothing is as important as anything
// else for a while: its deadline goes on.
type yielding struct {
	read func() (time.Duration, error)
	set  func(importance) error

	mu      sync.Mutex
	timer   *time.Timer
	is      importance
	used    time.Duration
	stopped bool
}

// yieldWhile looks at a call until stop, which returns when its worker is as important as
// it was. read is the processor time that the worker has used.
func yieldWhile(read func() (time.Duration, error), set func(importance) error) (stop func()) {
	used, err := read()
	if err != nil {
		return func() {}
	}
	y := &yielding{read: read, set: set, used: used}
	y.mu.Lock()
	defer y.mu.Unlock()
	y.timer = time.AfterFunc(yieldEvery, y.look)
	return y.stop
}

func (y *yielding) look() {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.stopped {
		return
	}
	now, err := y.read()
	if err != nil { // the worker is gone, which its pipe tells
		return
	}
	got := now - y.used
	y.used = now
	next := y.is
	switch {
	case y.is == asImportant && got >= yieldEvery/yieldShare:
		next = givesWay
	case y.is == givesWay && got < yieldEvery/starvedShare:
		next = asImportant
	}
	if next != y.is {
		y.is = next
		if y.set(next) != nil {
			return // it is gone, or half of it has changed, which stop puts right
		}
	}
	y.timer.Reset(yieldEvery)
}

func (y *yielding) stop() {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.stopped = true
	y.timer.Stop()
	if y.is == asImportant {
		return
	}
	y.is = asImportant
	_ = y.set(asImportant) // a worker that is gone is not important
}
