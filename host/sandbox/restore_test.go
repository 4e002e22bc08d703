package sandbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/host/sandbox"
	"github.com/caisson-dev/caisson/host/sandbox/internal/wasmtest"
)

// observe calls a module with one input and writes down everything that can be seen of
// it from outside.
func observe(t *testing.T, m *sandbox.Module, logs *logBuffer, input string) string {
	t.Helper()
	logs.reset()
	var seen strings.Builder
	code, output, err := m.Call(t.Context(), "tenant", "provision", []byte(input), func(_ context.Context, name string, request []byte) []byte {
		fmt.Fprintf(&seen, "asks %s %q\n", name, request)
		return answerConfigMap(t.Context(), name, []byte(`{"name":"n"}`))
	})
	fmt.Fprintf(&seen, "returns %d %q\n", code, output)
	var fault *sandbox.Fault
	if errors.As(err, &fault) {
		fmt.Fprintf(&seen, "fails %s %q %q %d %d\n", fault.Kind, fault.Trap(), fault.GuestError, fault.Limit, fault.Got)
	} else {
		require.NoError(t, err)
	}
	for line := range strings.Lines(logs.String()) {
		var fields map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &fields))
		fmt.Fprintf(&seen, "logs %v %v %q\n", fields["level"], fields["stream"], fields["text"])
	}
	return seen.String()
}

// TestRestoredIsFresh runs every guest in a sequence of calls, once with an instance for
// each call and once with an instance whose state is put back, and compares all that can
// be seen. No call may depend on those before it either.
func TestRestoredIsFresh(t *testing.T) {
	guests := wasmtest.Leavers()
	// These cannot be restored, and must fall back.
	never := []string{"table", "full memory", "refused memory", "exit", "closed stream", "block made early", "input read early", "asked early", "trap early"}
	var logs logBuffer
	s := open(t, sandbox.Options{Logger: logs.logger()})
	inputs := []string{"", "", "x", "", "", "xyz", "", "x", "xyz"}
	for _, name := range slices.Sorted(maps.Keys(guests)) {
		t.Run(name, func(t *testing.T) {
			limits := sandbox.Limits{MemoryBytes: 1 << 20}
			var restored, fresh uint64
			sequence := func(prepare func(*sandbox.Module)) []string {
				before := s.Stats()
				m := load(t, s, guests[name], limits)
				if prepare != nil {
					prepare(m)
				}
				var seen []string
				for _, input := range inputs {
					seen = append(seen, observe(t, m, &logs, input))
				}
				m.Close()
				restored, fresh = s.Stats().RestoredCalls-before.RestoredCalls, s.Stats().FreshCalls-before.FreshCalls
				return seen
			}
			if name == "trap early" {
				var refused *sandbox.LoadError
				for range 2 {
					_, err := s.Load(t.Context(), guests[name], limits)
					require.ErrorAs(t, err, &refused)
				}
				return
			}
			got := sequence(nil)
			// The call after describe, which leaves nothing, may always be a restored one.
			require.Equal(t, slices.Contains(never, name), restored <= 1, "%d restored calls, %d fresh ones", restored, fresh)
			want := sequence(sandbox.ServeFresh)
			require.Equal(t, want, got)
			first := map[string]string{}
			for i, input := range inputs {
				if known, again := first[input]; again {
					require.Equal(t, known, got[i], "call %d of %q", i, input)
				}
				first[input] = got[i]
			}
		})
	}
}

// TestRestoredGoGuest is the same for a Go guest, which has a runtime to break.
func TestRestoredGoGuest(t *testing.T) {
	s := open(t, sandbox.Options{})
	m := load(t, s, goGuest(t), sandbox.Limits{MemoryBytes: 48 << 20})
	ask := func(what string) (string, error) {
		_, out, err := m.Call(t.Context(), "tenant", "provision", []byte(what), answerConfigMap)
		return string(out), err
	}
	want, err := ask(`{"calls":1}`)
	require.NoError(t, err)
	require.Contains(t, want, `"calls":1,`)
	require.Contains(t, want, `"goroutines":1,`)
	before := s.Stats().RestoredCalls
	for _, what := range []string{"", "leak", "keep", "", "panic", "leak", "allocate", "exit", "deadlock", "keep"} {
		_, err := ask(fmt.Sprintf(`{"do":%q}`, what))
		fails := slices.Contains([]string{"panic", "allocate", "exit", "deadlock"}, what)
		require.Equal(t, fails, err != nil, "%s: %v", what, err)
		got, err := ask(`{"calls":1}`)
		require.NoError(t, err, what)
		require.Equal(t, want, got, "after %s", what)
	}
	require.GreaterOrEqual(t, s.Stats().RestoredCalls-before, uint64(10), "it was restored all the time")
}

// TestInstancesAreKept proves which modules keep an instance, and that the operator can
// learn why others do not.
func TestInstancesAreKept(t *testing.T) {
	s := open(t, sandbox.Options{})
	for name, c := range map[string]struct {
		reason string
		wasm   []byte
		why    string
	}{
		"Go":    {"a std Go guest changes memory and numbers only", goGuest(t), ""},
		"Small": {"so does this", wasmtest.Counts(), ""},
		"Table": {"tables are not in a snapshot", wasmtest.Leavers()["table"], "it uses table.set"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.why, load(t, s, c.wasm, sandbox.Limits{}).FreshReason(), c.reason)
		})
	}
}

// TestTenantsHaveWorkersOfTheirOwn proves that the tenant of a call reaches the pool.
func TestTenantsHaveWorkersOfTheirOwn(t *testing.T) {
	s := open(t, sandbox.Options{})
	m := load(t, s, wasmtest.Echo(), sandbox.Limits{})
	call := func(tenant string) []int {
		_, _, err := m.Call(t.Context(), tenant, "provision", bytes.Repeat([]byte("x"), 100), nil)
		require.NoError(t, err)
		return slices.Sorted(slices.Values(sandbox.PIDs(s)))
	}
	described := sandbox.PIDs(s)
	first := call("team-a/system:serviceaccount:team-a:platform")
	require.Equal(t, described, first, "a worker that has served nobody is taken")
	require.Equal(t, first, call("team-a/system:serviceaccount:team-a:platform"), "and kept for its tenant")
	require.Len(t, call("team-a/system:serviceaccount:team-a:other"), 2, "another account is another tenant")
	require.Len(t, call("team-b/system:serviceaccount:team-a:platform"), 3, "so is another namespace")
	require.Len(t, call(""), 4, "and so is nobody in particular")
}
