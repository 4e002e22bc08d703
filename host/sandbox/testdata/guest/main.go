//go:build wasip1

// Command guest is the std Go module of the sandbox's tests and benchmarks: it binds
// Extism's interface by hand, so that it depends on nothing.
package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"
)

//go:wasmimport extism:host/env alloc
func alloc(size uint64) uint64

//go:wasmimport extism:host/env length
func length(offset uint64) uint64

//go:wasmimport extism:host/env load_u8
func loadByte(offset uint64) uint32

//go:wasmimport extism:host/env load_u64
func loadWord(offset uint64) uint64

//go:wasmimport extism:host/env store_u8
func storeByte(offset uint64, value uint32)

//go:wasmimport extism:host/env store_u64
func storeWord(offset, value uint64)

//go:wasmimport extism:host/env input_offset
func inputOffset() uint64

//go:wasmimport extism:host/env output_set
func outputSet(offset, length uint64)

//go:wasmimport extism:host/env error_set
func errorSet(offset uint64)

//go:wasmimport extism:host/user kube_get
func kubeGet(request uint64) uint64

func read(offset uint64) []byte {
	b := make([]byte, length(offset))
	i := 0
	for ; i+8 <= len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], loadWord(offset+uint64(i)))
	}
	for ; i < len(b); i++ {
		b[i] = byte(loadByte(offset + uint64(i)))
	}
	return b
}

func write(b []byte) uint64 {
	offset := alloc(uint64(len(b)))
	i := 0
	for ; i+8 <= len(b); i += 8 {
		storeWord(offset+uint64(i), binary.LittleEndian.Uint64(b[i:]))
	}
	for ; i < len(b); i++ {
		storeByte(offset+uint64(i), uint32(b[i]))
	}
	return offset
}

func answer(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	outputSet(write(b), uint64(len(b)))
}

type input struct {
	Do    string         `json:"do"`
	Calls int            `json:"calls"`
	Extra map[string]any `json:"extra"`
}

type output struct {
	Calls   int      `json:"calls"`
	Keys    int      `json:"keys"`
	Answers []string `json:"answers"`
	Env     []string `json:"env"`
	Args    int      `json:"args"`
	Year    int      `json:"year"`
	File    string   `json:"file"`
	// Goroutines and Kept are what an earlier call may have left.
	Goroutines int  `json:"goroutines"`
	Kept       int  `json:"kept"`
	Locked     bool `json:"locked"`
}

// What would be seen by a call that is not the first of its instance.
var (
	mu   sync.Mutex
	kept [][]byte
)

// calls would count across calls if an instance served more than one.
var calls int

//go:wasmexport describe
func describe() int32 {
	outputSet(write([]byte(`{"abi":1,"name":"guest","version":"0.0.1"}`)), 42)
	return 0
}

//go:wasmexport provision
func provision() int32 {
	calls++
	var in input
	if err := json.Unmarshal(read(inputOffset()), &in); err != nil {
		errorSet(write([]byte("input: " + err.Error())))
		return 2
	}
	switch in.Do {
	case "panic":
		errorSet(write([]byte("about to panic")))
		panic(fmt.Sprintf("at %d", time.Now().UnixNano()))
	case "allocate":
		var all [][]byte
		for {
			all = append(all, make([]byte, 1<<20))
		}
	case "exit":
		os.Exit(3)
	case "deadlock":
		select {}
	case "spin":
		for {
			calls++
		}
	case "leak":
		started := make(chan struct{})
		go func() { mu.Lock(); close(started); select {} }()
		<-started
	case "keep":
		for range 20 {
			kept = append(kept, make([]byte, 1<<20))
		}
	case "sleep":
		time.Sleep(time.Hour)
	}
	out := output{Calls: calls, Keys: len(in.Extra), Env: os.Environ(), Args: len(os.Args), Year: time.Now().Year(),
		Goroutines: runtime.NumGoroutine(), Kept: len(kept), Locked: !mu.TryLock()}
	if !out.Locked {
		mu.Unlock()
	}
	for i := range in.Calls {
		request, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": fmt.Sprint("n", i)})
		if err != nil {
			panic(err)
		}
		var response struct {
			Result struct {
				Object struct{ Data map[string]string }
			}
		}
		if err := json.Unmarshal(read(kubeGet(write(request))), &response); err != nil {
			panic(err)
		}
		out.Answers = append(out.Answers, response.Result.Object.Data["name"])
	}
	if _, err := os.ReadFile("/etc/passwd"); err != nil {
		out.File = err.Error()
	}
	answer(out)
	return 0
}

// deprovision answers with its input, without looking at it.
//
//go:wasmexport deprovision
func deprovision() int32 {
	b := read(inputOffset())
	outputSet(write(b), uint64(len(b)))
	return 0
}

func main() {}
