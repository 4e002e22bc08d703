package sandbox

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/sandbox/internal/wasmtest"
)

// tracer speaks the protocol with a real worker and writes down what is said.
type tracer struct {
	t     *testing.T
	p     *process
	lines []string
}

func (tr *tracer) send(typ frameType, id uint32, payload []byte, note string) {
	tr.t.Helper()
	require.NoError(tr.t, writeFrame(tr.p.in, typ, id, payload))
	tr.lines = append(tr.lines, fmt.Sprintf("parent %s %d %s", frameName(typ), id, note))
}

// hear reads frames until one of a type.
func (tr *tracer) hear(until frameType) frame {
	tr.t.Helper()
	for {
		f, err := readFrame(tr.p.reader, mib)
		require.NoError(tr.t, err)
		said := firstLine(string(f.payload))
		if f.typ == frameHardened {
			// Which layers are missing is the machine's affair.
			var layers []Layer
			require.NoError(tr.t, json.Unmarshal(f.payload, &layers))
			said = ""
			for _, layer := range layers {
				if layer.Name == LayerUser { // that of an operator that is root
					continue
				}
				said += layer.Name + " "
			}
		}
		tr.lines = append(tr.lines, fmt.Sprintf("worker %s %d %q", frameName(f.typ), f.call, said))
		if f.typ == until {
			return f
		}
	}
}

func frameName(typ frameType) string {
	return map[frameType]string{frameHello: "hello", frameSetup: "setup", frameHardened: "hardened", frameModule: "module", frameReady: "ready", frameRejected: "rejected",
		frameCall: "call", frameHostCall: "hostcall", frameHostResult: "hostresult", frameLog: "log", frameResult: "result", frameFault: "fault"}[typ]
}

// traceModule asks the parent, logs, answers, and traps on the second call of a worker
// if anything of the first one were left.
func traceModule() []byte {
	b := wasmtest.New()
	i32, i64 := []byte{wasmtest.I32}, []byte{wasmtest.I64}
	input := b.Import(abi.ImportEnv, "input_offset", nil, i64)
	length := b.Import(abi.ImportEnv, "length", i64, i64)
	set := b.Import(abi.ImportEnv, "output_set", []byte{wasmtest.I64, wasmtest.I64}, nil)
	log := b.Import(abi.ImportEnv, "log_info", i64, nil)
	ask := b.Import(abi.ImportUser, "event", i64, i64)
	g := b.Global(0)
	b.Export("fail", b.Func(nil, i32, 0, wasmtest.Unreachable()))
	return b.Provisioner(
		wasmtest.GetGlobal(g), []byte{0x04, 0x40, 0x00, 0x0b}, wasmtest.I32Const(1), wasmtest.SetGlobal(g),
		wasmtest.Call(input), wasmtest.Call(ask), wasmtest.Set(0),
		wasmtest.Get(0), wasmtest.Get(0), wasmtest.Call(length), wasmtest.Call(set),
		wasmtest.Call(input), wasmtest.Call(log), wasmtest.I32Const(1))
}

// TestProtocolTrace is the protocol, frame by frame, as a worker of this version
// speaks it. A change here is a change of [WorkerArgument].
func TestProtocolTrace(t *testing.T) {
	// The program that is shipped: an instrumented test binary is too large for its limits.
	worker := filepath.Join(t.TempDir(), "worker")
	build := exec.Command("go", "build", "-o", worker, "../../cmd/caisson-worker")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	text, err := build.CombinedOutput()
	require.NoError(t, err, string(text))
	spawner := newSpawner([]string{worker}, time.Minute)
	defer spawner.close()
	r, err := source{traceModule(), false}.rewrite()
	require.NoError(t, err)
	whole, err := source{traceModule(), false}.rewriteWhole(inWorker)
	require.NoError(t, err)
	s := setup{
		CacheDir: t.TempDir(), MemoryBytes: mib, NativeBytes: 256 * mib, ArenaBytes: mib, OutputBytes: kib, HostCallBytes: kib, LogLines: 2, LogBytes: kib, LogLevel: levelDebug,
		FileBytes: 64 * mib, CPUSeconds: 60,
	}
	tr := &tracer{t: t}
	begin := func(wasm []byte, note string) {
		tr.p, err = startProcess(spawner.start, []string{worker}, mib)
		require.NoError(t, err)
		tr.hear(frameHello)
		limits, err := json.Marshal(s)
		require.NoError(t, err)
		tr.send(frameSetup, 0, limits, "limits")
		tr.hear(frameHardened)
		tr.send(frameModule, 0, wasm, note)
		tr.hear(frameReady)
	}
	end := func() {
		require.NoError(t, tr.p.in.Close())
		select {
		case <-tr.p.exited:
		case <-time.After(10 * time.Second):
			tr.p.kill()
			require.Fail(t, "the worker outlived its pipe")
		}
		tr.lines = append(tr.lines, "worker "+tr.p.exit.String())
	}
	begin(whole, "wasm")
	end()
	s.FileBytes, s.Globals = 0, r.globals
	begin(r.skeleton, "skeleton")
	for id := uint32(1); id <= 2; id++ {
		tr.send(frameCall, id, append(packNamed(abi.ExportProvision), "hello"...), "provision hello")
		tr.hear(frameHostCall)
		tr.send(frameHostResult, id, []byte("answer"), "answer")
		tr.hear(frameResult)
	}
	tr.send(frameCall, 3, packNamed("fail"), "fail")
	tr.hear(frameFault)
	end()

	golden, err := os.ReadFile(filepath.Join("testdata", "protocol.trace"))
	require.NoError(t, err)
	require.Equal(t, string(golden), strings.Join(tr.lines, "\n")+"\n")
}

// TestServed: a worker rests after its first call, and in pauses where that gives much back.
func TestServed(t *testing.T) {
	rests := make(chan struct{}, 10)
	w := newWorker(nil, nil, func() { rests <- struct{}{} })
	w.served(1)
	require.Len(t, rests, 1)
	w.served(2)
	require.Len(t, rests, 1)
	require.False(t, w.pause.Stop(), "there is no pause to wait for")
	w.restsInPauses = true
	w.served(3)
	require.Len(t, rests, 1, "it may be called again at once")
	<-rests
	<-rests
}
