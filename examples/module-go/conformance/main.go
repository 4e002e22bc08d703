//go:build wasip1

// Command conformance is the conformance module of abi/SPEC.md in Go, on Extism's own PDK
// for Go: what a module looks like from below, without Caisson's SDK.
package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/caisson-dev/caisson/abi"
	pdk "github.com/extism/go-pdk"
)

//go:embed manifest.json
var manifest []byte

// calls counts in memory: it must be 1 in every call.
var calls int

func main() {}

//go:wasmexport describe
func describe() int32 {
	pdk.Output(manifest)
	return 0
}

//go:wasmexport provision
func provision() int32 { return run() }

//go:wasmexport deprovision
func deprovision() int32 { return run() }

// config is what the checker passes.
type config struct {
	Do       string          `json:"do"`
	Code     int32           `json:"code"`
	Output   json.RawMessage `json:"output"`
	Function abi.Function    `json:"function"`
	Request  json.RawMessage `json:"request"`
	Text     string          `json:"text"`
	Bytes    int             `json:"bytes"`
}

func run() int32 {
	envelope := pdk.Input()
	var in struct {
		Config config
		State  struct{ Count int }
	}
	if err := json.Unmarshal(envelope, &in); err != nil {
		return fail(err.Error())
	}
	c := in.Config
	switch c.Do {
	case "echo":
		pdk.OutputString(`{"facts":{"envelope":` + string(envelope) + `}}`)
	case "answer":
		pdk.Output(c.Output)
		return c.Code
	case "ask":
		pdk.OutputString(`{"facts":{"response":` + ask(c.Function, c.Request) + `}}`)
	case "log":
		for _, level := range []pdk.LogLevel{pdk.LogDebug, pdk.LogInfo, pdk.LogWarn, pdk.LogError} {
			pdk.Log(level, c.Text)
		}
	case "fill":
		pdk.OutputString(`{"facts":{"fill":"` + strings.Repeat("x", c.Bytes) + `"}}`)
	case "count":
		calls++
		pdk.OutputString(fmt.Sprintf(`{"facts":{"memory":%d},"state":{"count":%d}}`, calls, in.State.Count+1))
	default: // and "fail"
		return fail(c.Text)
	}
	return 0
}

// fail gives the operator a text and traps.
func fail(text string) int32 {
	pdk.SetErrorString(text)
	panic(text)
}
