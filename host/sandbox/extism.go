package sandbox

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/caisson-dev/caisson/abi"
)

// maxVariableBytes bounds the Extism variables of one call, keys included; it is
// Extism's own default.
const maxVariableBytes = 1 * mib

// errVariablesFull is the trap of a guest that fills its variables, in the words of
// Extism's own runtime.
var errVariablesFull = errors.New("variable store is full")

// call is the state of the call that a worker is running: what Extism's interface
// reads and writes.
type call struct {
	id           uint32
	arena        *arena
	inputOffset  uint64
	inputLength  uint64
	outputOffset uint64
	outputLength uint64
	errorOffset  uint64
	variables    map[string][]byte
	variableSize int
	logs         *logSink
}

// setInput puts the input where the guest finds it. It reports false when the arena is
// smaller than the input.
func (c *call) setInput(input []byte) bool {
	c.inputOffset = c.arena.put(input)
	if c.arena.full {
		return false
	}
	c.inputLength = uint64(len(input))
	c.arena.publishInput(c.inputOffset, c.inputLength)
	return true
}

// free gives a block up; freeing the input empties it, as in Extism's own runtime.
func (c *call) free(offset uint64) {
	if offset == c.inputOffset {
		c.inputLength = 0
		c.arena.publishInput(0, 0)
	}
	c.arena.free(offset)
}

// setOutput remembers where the output is; what counts is what is there at the end of
// the call. An empty range means an empty output, one that is not there is ignored.
func (c *call) setOutput(offset, length uint64) {
	if _, ok := c.arena.slice(offset, length); ok || length == 0 {
		c.outputOffset, c.outputLength = offset, length
	}
}

// output returns the output, not copied.
func (c *call) output() []byte {
	b, _ := c.arena.slice(c.outputOffset, c.outputLength)
	return b
}

// guestError returns the text that the guest gave to error_set.
func (c *call) guestError() string {
	return clean(string(c.arena.block(c.errorOffset)), maxDetailBytes)
}

// variable answers var_get.
func (c *call) variable(key uint64) uint64 {
	value, exists := c.variables[string(c.arena.block(key))]
	c.free(key)
	if !exists {
		return 0
	}
	return c.arena.put(value)
}

// setVariable answers var_set; an empty value deletes.
func (c *call) setVariable(key, value uint64) {
	name := string(c.arena.block(key))
	content := bytes.Clone(c.arena.block(value))
	c.free(key)
	c.free(value)
	if old, exists := c.variables[name]; exists {
		c.variableSize -= len(name) + len(old)
		delete(c.variables, name)
	}
	if len(content) == 0 {
		return
	}
	if c.variableSize+len(name)+len(content) > maxVariableBytes {
		panic(errVariablesFull)
	}
	if c.variables == nil {
		c.variables = map[string][]byte{}
	}
	c.variables[name] = content
	c.variableSize += len(name) + len(content)
}

// log answers the log functions, which own the block that they are given.
func (c *call) log(level logLevel, offset uint64) {
	c.logs.send(streamLog, level, c.arena.block(offset))
	c.free(offset)
}

// envFunctions returns the functions of [abi.ImportEnv] that are not the kernel's, each
// on a stack whose first slots are its parameters and then its result. current is the
// running call.
func envFunctions(current func() *call, level logLevel) map[string]func(stack []uint64) {
	log := func(level logLevel) func([]uint64) {
		return func(s []uint64) { current().log(level, s[0]) }
	}
	return map[string]func([]uint64){
		"alloc":         func(s []uint64) { s[0] = current().arena.alloc(s[0]) },
		"free":          func(s []uint64) { current().free(s[0]) },
		"length":        func(s []uint64) { s[0] = current().arena.length(s[0]) },
		"length_unsafe": func(s []uint64) { s[0] = current().arena.length(s[0]) },
		"input_length":  func(s []uint64) { s[0] = current().inputLength },
		"input_offset":  func(s []uint64) { s[0] = current().inputOffset },
		"output_set":    func(s []uint64) { current().setOutput(s[0], s[1]) },
		"error_set":     func(s []uint64) { current().errorOffset = s[0] },
		// A module is configured by its input and by nothing else.
		"config_get": func(s []uint64) { current().free(s[0]); s[0] = 0 },
		"var_get":    func(s []uint64) { s[0] = current().variable(s[0]) },
		"var_set":    func(s []uint64) { current().setVariable(s[0], s[1]) },
		// There is no network. A status of 0 and no body is what a PDK makes an error of.
		"http_request": func(s []uint64) {
			current().logs.send(streamHost, levelWarn, []byte("the guest asked for HTTP, which is not available"))
			s[0] = 0
		},
		"http_status_code": func(s []uint64) { s[0] = 0 },
		"http_headers":     func(s []uint64) { s[0] = 0 },
		"log_trace":        log(levelTrace),
		"log_debug":        log(levelDebug),
		"log_info":         log(levelInfo),
		"log_warn":         log(levelWarn),
		"log_error":        log(levelError),
		"get_log_level":    func(s []uint64) { s[0] = uint64(uint32(level)) },
	}
}

// link defines functions under a module name in the runtime, in a fixed order.
func link(ctx context.Context, r wazero.Runtime, module string, typeOf func(string) (signature, bool), functions map[string]func([]uint64)) error {
	builder := r.NewHostModuleBuilder(module)
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		typ, known := typeOf(name)
		if !known {
			return errors.New(module + " has no function " + name)
		}
		function := functions[name]
		params, results := typ.valueTypes()
		builder.NewFunctionBuilder().
			WithGoFunction(api.GoFunc(func(_ context.Context, stack []uint64) { function(stack) }), params, results).
			Export(name)
	}
	_, err := builder.Instantiate(ctx)
	return err
}

// userFunctions returns the functions of [abi.ImportUser]; ask carries a request to
// the parent and returns its response.
func userFunctions(current func() *call, ask func(name string, request []byte) []byte) map[string]func([]uint64) {
	functions := map[string]func([]uint64){}
	for _, f := range abi.Functions() {
		name := string(f)
		functions[name] = func(s []uint64) {
			c := current()
			s[0] = c.arena.put(ask(name, c.arena.block(s[0])))
		}
	}
	return functions
}
