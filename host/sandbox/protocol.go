package sandbox

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
)

// WorkerArgument is the first argument of a program that is to be a worker. It names
// the version of the protocol, and nothing else decides: a worker's environment is
// empty.
const WorkerArgument = "caisson-worker-v4"

// helloText is the payload of a worker's first frame: how a parent knows that the
// program it started is a worker of its own version.
const helloText = WorkerArgument + "\n"

// frameType says what a frame means. Each travels in one direction.
type frameType byte

// The frames, in the order in which a worker's life has them.
const (
	frameHello      frameType = 1 + iota // worker: helloText
	frameSetup                           // parent: setup as JSON
	frameHardened                        // worker: its layers as JSON
	frameModule                          // parent: the rewritten module to compile, or the skeleton to serve
	frameReady                           // worker: the module is compiled
	frameRejected                        // worker: it cannot be, as text
	frameCall                            // parent: name of the export, input
	frameHostCall                        // worker: name of the function, request
	frameHostResult                      // parent: response
	frameLog                             // worker: logStream, logLevel, text
	frameResult                          // worker: i32 code, stateOrigin, output
	frameFault                           // worker: guestFault as JSON
)

const (
	// faultFrameBytes bounds a frameFault and a frameRejected: the last lines on standard
	// error are 20 KiB, and JSON may write a byte as six.
	faultFrameBytes = 256 * kib
	// frameSlackBytes is room for the names and numbers beside a payload that has a
	// limit of its own.
	frameSlackBytes = 4 * kib
)

// setup is what a worker must know before it sees a module.
type setup struct {
	// CacheDir holds the native code of this module.
	CacheDir string `json:"cacheDir"`
	// MemoryBytes, NativeBytes, TableElements, ArenaBytes, OutputBytes, HostCallBytes, LogLines and
	// LogBytes are those of [Limits].
	MemoryBytes   int64 `json:"memoryBytes"`
	NativeBytes   int64 `json:"nativeBytes"`
	TableElements int   `json:"tableElements"`
	ArenaBytes    int   `json:"arenaBytes"`
	OutputBytes   int   `json:"outputBytes"`
	HostCallBytes int   `json:"hostCallBytes"`
	LogLines      int   `json:"logLines"`
	LogBytes      int   `json:"logBytes"`
	// ImageBytes is how large a memory may be of which an image is kept.
	ImageBytes int64 `json:"imageBytes"`
	// FileBytes caps the files that it may write, which only the compiler does.
	FileBytes int64 `json:"fileBytes,omitempty"`
	// CPUSeconds is what it may compute in its life.
	CPUSeconds int64 `json:"cpuSeconds"`
	// NoNamespaces says why it has no namespaces of its own. Empty means that it has.
	NoNamespaces string `json:"noNamespaces,omitempty"`
	// LogLevel is what get_log_level answers.
	LogLevel logLevel `json:"logLevel"`
	// Globals and Start are those of the rewriting.
	Globals []string `json:"globals,omitempty"`
	Start   string   `json:"start,omitempty"`
	// GrowsTables says that the module was rewritten so that its tables have a limit.
	GrowsTables bool `json:"growsTables,omitempty"`
	// Interruptible says that the module is to be compiled so that the end of a context ends
	// it: it runs in the process of its parent.
	Interruptible bool `json:"interruptible,omitempty"`
	// Fresh says why every call gets an instance of its own. Empty means that the state of
	// one is put back after each call.
	Fresh string `json:"fresh,omitempty"`
}

// compiles says that it is the setup of a worker that compiles and does nothing else.
func (s setup) compiles() bool { return s.FileBytes > 0 }

// stateOrigin says where the state of a call came from.
type stateOrigin byte

// The origins. Guests cannot tell one from the other; operators pay for the first.
const (
	originFresh    stateOrigin = iota // an instance was made for the call
	originRestored                    // one was there, and its state had been put back
)

// logLevel is a level of Extism.
type logLevel int32

// The levels that get_log_level may answer.
const (
	levelTrace logLevel = iota
	levelDebug
	levelInfo
	levelWarn
	levelError
	levelOff logLevel = 1<<31 - 1
)

// logStream says where a line comes from.
type logStream byte

// The streams.
const (
	streamLog logStream = iota
	streamStdout
	streamStderr
	streamHost // the worker's own remarks, for instance on dropped lines
)

// guestFault is what a worker says of a call that did not return.
type guestFault struct {
	Kind FaultKind `json:"kind"`
	// Text is what went wrong, Trap identifies the fault among others.
	Text string `json:"text,omitempty"`
	Trap string `json:"trap,omitempty"`
	// GuestError is what the guest had given to error_set.
	GuestError string `json:"guestError,omitempty"`
	// Stderr is the last lines on standard error.
	Stderr []string `json:"stderr,omitempty"`
	Limit  int64    `json:"limit,omitempty"`
	Got    int64    `json:"got,omitempty"`
}

// errProtocol says that a peer broke the protocol.
var errProtocol = errors.New("protocol error")

// packNamed puts a short name before a body: u8 length, name. The body stays its own
// part so that it is not copied.
func packNamed(name string) []byte {
	return append([]byte{byte(len(name))}, name...)
}

// unpackNamed splits what packNamed began.
func unpackNamed(payload []byte) (string, []byte, error) {
	if len(payload) == 0 || int(payload[0]) > len(payload)-1 {
		return "", nil, fmt.Errorf("%w: a name is cut off", errProtocol)
	}
	end := 1 + int(payload[0])
	return string(payload[1:end]), payload[end:], nil
}

// packResult begins a frameResult: i32 code, u8 origin.
func packResult(code int32, origin stateOrigin) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, uint32(code)), byte(origin))
}

// unpackResult splits a frameResult.
func unpackResult(payload []byte) (int32, stateOrigin, []byte, error) {
	if len(payload) < 5 || payload[4] > byte(originRestored) {
		return 0, 0, nil, fmt.Errorf("%w: a result is cut off", errProtocol)
	}
	return int32(binary.LittleEndian.Uint32(payload)), stateOrigin(payload[4]), payload[5:], nil
}

// unpackLog splits a frameLog.
func unpackLog(payload []byte) (logStream, logLevel, string, error) {
	if len(payload) < 2 || payload[0] > byte(streamHost) || payload[1] > byte(levelError) {
		return 0, 0, "", fmt.Errorf("%w: a log line is malformed", errProtocol)
	}
	return logStream(payload[0]), logLevel(payload[1]), string(payload[2:]), nil
}

// unpackFault reads a frameFault. Only kinds that a guest can bring about are
// accepted: a worker cannot claim a timeout or its own death.
func unpackFault(payload []byte) (guestFault, error) {
	var f guestFault
	if len(payload) > faultFrameBytes {
		return f, fmt.Errorf("%w: a fault has %d bytes, the limit is %d", errProtocol, len(payload), faultFrameBytes)
	}
	if err := json.Unmarshal(payload, &f); err != nil {
		return f, fmt.Errorf("%w: a fault is not JSON", errProtocol)
	}
	switch f.Kind {
	case FaultTrap, FaultMemory, FaultTable, FaultOutput:
		return f, nil
	default:
		return f, fmt.Errorf("%w: a fault has an impossible kind", errProtocol)
	}
}
