package differential_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/sandbox"
	"github.com/caisson-dev/caisson/host/sandbox/bench/internal/oracle"
)

// limitPages is what both hosts let a guest's memory grow to.
const limitPages = 512

// observation is what can be seen of a call, in words that both hosts can be described
// in. Each field is compared by itself.
type observation map[string]string

// fields are those of an observation.
func fields() []string {
	return []string{"ended", "code", "output", "error", "logs", "stdout", "stderr", "asked"}
}

// answerAll is the host's side of a host function, the same for both.
func answerAll(f abi.Function, request []byte) []byte {
	return fmt.Appendf(nil, `{"result":{"of":%q,"bytes":%d}}`, f, len(request))
}

// recorder notes what a call asks for.
type recorder struct{ asked []string }

func (r *recorder) answer(f abi.Function, request []byte) []byte {
	r.asked = append(r.asked, fmt.Sprintf("%s %s", f, request))
	return answerAll(f, request)
}

// show renders an output.
func (s subject) show(output []byte) string {
	if !s.numbers || len(output)%8 != 0 || len(output) == 0 {
		if len(output) > 200 {
			return fmt.Sprintf("%q… (%d bytes)", output[:40], len(output))
		}
		return fmt.Sprintf("%q", output)
	}
	var numbers []string
	for ; len(output) > 0; output = output[8:] {
		numbers = append(numbers, fmt.Sprint(int64(binary.LittleEndian.Uint64(output))))
	}
	return strings.Join(numbers, " ")
}

func (s subject) exportName() string {
	if s.export == "" {
		return abi.ExportProvision
	}
	return s.export
}

// hosts are one module, loaded in both; an error of either says that it was refused.
type hosts struct {
	theirs         *oracle.Module
	ours           *sandbox.Module
	stdout, stderr *lockedBuffer
}

// load compiles a module for both hosts.
func load(t *testing.T, wasm []byte) *hosts {
	t.Helper()
	h := &hosts{stdout: &lockedBuffer{}, stderr: &lockedBuffer{}}
	var err error
	h.theirs, err = oracle.Compile(t.Context(), wasm, oracle.Options{Timeout: time.Minute, MaxPages: limitPages, Stdout: h.stdout, Stderr: h.stderr})
	require.NoError(t, err, "go-sdk refuses no module of these tests")
	t.Cleanup(func() { require.NoError(t, h.theirs.Close(context.Background())) })
	h.ours, err = shared(t).Load(t.Context(), wasm, sandbox.Limits{MemoryBytes: limitPages << 16, Timeout: time.Minute})
	if err != nil {
		var refused *sandbox.LoadError
		require.ErrorAs(t, err, &refused)
		return h
	}
	t.Cleanup(h.ours.Close)
	return h
}

// observeTheirs runs a subject in an instance of go-sdk and returns an observation for
// each call.
func (h *hosts) observeTheirs(t *testing.T, s subject) []observation {
	t.Helper()
	i, err := h.theirs.Instance(t.Context())
	if err != nil {
		return []observation{{"ended": "refused"}}
	}
	defer func() { require.NoError(t, i.Close(context.Background())) }()
	var seen []observation
	for range max(1, s.calls) {
		i.Lines()
		r := &recorder{}
		result := i.Call(t.Context(), s.exportName(), []byte(s.input), r.answer)
		o := observation{"ended": "returned", "code": fmt.Sprint(result.Code), "error": result.ErrorText, "asked": strings.Join(r.asked, "\n")}
		o["output"], o["stdout"], o["stderr"] = s.show(result.Output), printed(h.stdout.take()), printed(h.stderr.take())
		switch {
		case result.Exited:
			o["ended"] = fmt.Sprintf("exited %d", result.ExitCode)
		case strings.Contains(result.Trap, "unknown function"):
			o["ended"] = "no export"
		case result.Trap != "":
			o["ended"] = "trapped"
		}
		if o["ended"] != "returned" {
			o["code"], o["output"] = "", "" // the SDK makes a code up
		}
		var lines []string
		for _, line := range i.Lines() {
			// What the SDK says of itself at these levels is not the guest's.
			if !strings.HasPrefix(line, "DEBUG Calling ") && !strings.HasPrefix(line, "DEBUG Initializing ") {
				lines = append(lines, line)
			}
		}
		o["logs"] = strings.Join(lines, "\n")
		seen = append(seen, o)
	}
	return seen
}

// observeOurs runs a subject in the sandbox.
func (h *hosts) observeOurs(t *testing.T, s subject) []observation {
	t.Helper()
	if h.ours == nil {
		return []observation{{"ended": "refused"}}
	}
	var seen []observation
	for range max(1, s.calls) {
		sandboxLogs.take()
		r := &recorder{}
		code, output, err := h.ours.Call(t.Context(), "tenant", s.exportName(), []byte(s.input), func(_ context.Context, name string, request []byte) []byte {
			return r.answer(abi.Function(name), bytes.Clone(request))
		})
		o := observation{"ended": "returned", "code": fmt.Sprint(code), "asked": strings.Join(r.asked, "\n"), "error": "", "output": s.show(output)}
		var fault *sandbox.Fault
		if errors.As(err, &fault) {
			o["ended"], o["error"] = "trapped", fault.GuestError
			exit := 0
			if _, scan := fmt.Sscanf(fault.Detail, "the guest exited with code %d", &exit); scan == nil {
				o["ended"] = fmt.Sprintf("exited %d", exit)
			} else if strings.Contains(fault.Detail, "there is no export") {
				o["ended"] = "no export"
			}
		} else {
			require.NoError(t, err)
		}
		if o["ended"] != "returned" {
			o["code"], o["output"] = "", ""
		}
		o.readLog(t, sandboxLogs.take())
		o["stdout"], o["stderr"] = printed(o["stdout"]), printed(o["stderr"])
		seen = append(seen, o)
	}
	return seen
}

// clock is a time in nanoseconds, which a guest may print.
var clock = regexp.MustCompile(`[0-9]{16,}`)

// printed makes lines of what a guest has printed, since those are what the sandbox keeps.
func printed(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\n"); line != "" {
			lines = append(lines, clock.ReplaceAllString(line, "(time)"))
		}
	}
	return strings.Join(lines, "\n")
}

// readLog reads what the sandbox has logged of a guest.
func (o observation) readLog(t *testing.T, log string) {
	t.Helper()
	var lines []string
	for _, raw := range strings.Split(strings.TrimSpace(log), "\n") {
		if raw == "" {
			continue
		}
		var line struct{ Level, Stream, Text, Msg string }
		require.NoError(t, json.Unmarshal([]byte(raw), &line))
		switch {
		case line.Msg != "module log":
		case line.Stream == "stdout", line.Stream == "stderr":
			o[line.Stream] += line.Text + "\n"
		case line.Stream == "host":
			lines = append(lines, "HOST "+line.Text)
		case line.Level == "DEBUG-4":
			lines = append(lines, "TRACE "+line.Text)
		default:
			lines = append(lines, line.Level+" "+line.Text)
		}
	}
	o["logs"] = strings.Join(lines, "\n")
}

// lockedBuffer collects text from any goroutine.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) take() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := b.buf.String()
	b.buf.Reset()
	return text
}

func (b *lockedBuffer) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug - 4}))
}
