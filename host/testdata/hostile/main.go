//go:build wasip1

// Command hostile is a module that does what its config tells it to, which is mostly
// what a module must not do. It speaks the ABI by hand: an SDK would not let it.
package main

import (
	"bytes"
	"encoding/base64"
	"strconv"
	"strings"
	"time"
)

const manifest = `{
  "abi": 1,
  "name": "hostile",
  "version": "0.1.0",
  "capabilities": ["secret_read"],
  "reasons": [{"code": "told_to", "sentence": "The module was told to say so."}]
}`

//go:wasmimport extism:host/env alloc
func alloc(size uint64) uint64

//go:wasmimport extism:host/env length
func length(offset uint64) uint64

//go:wasmimport extism:host/env load_u8
func load(offset uint64) uint32

//go:wasmimport extism:host/env store_u8
func store(offset uint64, value uint32)

//go:wasmimport extism:host/env input_offset
func inputOffset() uint64

//go:wasmimport extism:host/env output_set
func outputSet(offset, size uint64)

//go:wasmimport extism:host/env error_set
func errorSet(offset uint64)

//go:wasmimport extism:host/user secret_read
func secretRead(request uint64) uint64

func read(offset uint64) []byte {
	text := make([]byte, length(offset))
	for i := range text {
		text[i] = byte(load(offset + uint64(i)))
	}
	return text
}

func write(text string) uint64 {
	offset := alloc(uint64(len(text)))
	for i := range len(text) {
		store(offset+uint64(i), uint32(text[i]))
	}
	return offset
}

func answer(code int32, text string) int32 {
	outputSet(write(text), uint64(len(text)))
	return code
}

//go:wasmexport describe
func describe() int32 { return answer(0, manifest) }

// lingers is how long a call takes that is to be caught in the middle: much longer than
// it takes a test on a busy machine to find the process, and less than the time limit.
const lingers = 5 * time.Second

// kept keeps what allocate allocates.
var kept [][]byte

//go:wasmexport provision
func provision() int32 {
	input := string(read(inputOffset()))
	told := func(behaviour string) bool { return strings.Contains(input, `"behaviour":"`+behaviour+`"`) }
	switch {
	case told("loop"):
		for i := 0; ; i++ {
			kept = kept[:0]
		}
	case told("allocate"):
		for {
			kept = append(kept, bytes.Repeat([]byte{1}, 1<<20))
		}
	case told("nag"):
		for {
			secretRead(write(`{"name":"token","key":"key"}`))
		}
	case told("linger"):
		for begin := time.Now(); time.Since(begin) < lingers; {
			kept = kept[:0]
		}
	case told("hurry"):
		return answer(1, `{"reason":"told_to","retryAfterSeconds":1}`)
	case told("trap"):
		panic("told to")
	case told("seven"):
		return answer(7, `{}`)
	case told("garbage"):
		return answer(0, `this is no JSON`)
	case told("facts"):
		return answer(0, `{"facts":{"net":{"n":9007199254740993,"id":null,"a":1},"none":null}}`)
	case told("patient"):
		return patient(input)
	case told("tells"):
		return tell()
	case told("undeclared"):
		return answer(3, `{"reason":"not_declared","why":"password=hunter2"}`)
	case told("secret"):
		if strings.Contains(string(read(secretRead(write(`{"name":"token","key":"key"}`)))), `"handle"`) {
			return answer(0, `{}`)
		}
		return answer(3, `{"reason":"secret_missing","why":"password=hunter2"}`)
	}
	return answer(0, `{}`)
}

// patient counts how often it was called, in both kinds of state that the host drops, and
// gives up for good after three calls without a retry that was asked for.
func patient(input string) int32 {
	generation, sticky := number(input, "generationState"), number(input, "stickyState")
	facts := func() string {
		return `"facts":{"generation":` + strconv.Itoa(generation) + `,"sticky":` + strconv.Itoa(sticky) + `}`
	}
	if sticky >= 3 {
		return answer(4, `{"reason":"told_to",`+facts()+`}`)
	}
	generation++
	sticky++
	return answer(3, `{"reason":"told_to",`+facts()+`,"generationState":`+strconv.Itoa(generation)+`,"stickyState":`+strconv.Itoa(sticky)+`}`)
}

// number reads a field of the envelope that is one digit; 0 if it is absent.
func number(input, field string) int {
	_, rest, found := strings.Cut(input, `"`+field+`":`)
	if !found {
		return 0
	}
	return int(rest[0] - '0')
}

// tell puts a secret that it may see wherever a module can put something.
func tell() int32 {
	response := string(read(secretRead(write(`{"scope":"home","name":"token","key":"key","raw":true}`))))
	_, rest, found := strings.Cut(response, `"value":"`)
	if !found {
		return answer(3, `{"reason":"secret_missing"}`)
	}
	encoded, _, _ := strings.Cut(rest, `"`)
	value, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return answer(3, `{"reason":"told_to"}`)
	}
	text := write("failed over " + string(value))
	errorSet(text)
	switch value[len(value)-1] {
	case '1':
		panic("failed over " + string(value))
	case '2':
		return answer(3, `{"reason":"`+string(value)+`","why":"failed over `+string(value)+` and `+encoded+`"}`)
	case '3':
		return answer(0, `{"facts":{"fact":{"`+string(value)+`":"`+string(value)+`"}}}`)
	}
	return answer(9, string(value))
}

//go:wasmexport deprovision
func deprovision() int32 { return answer(0, `{}`) }

func main() {}
