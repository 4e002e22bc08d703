package guesttest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/caisson-dev/caisson/abi"
)

// UpdateGolden is the environment variable that makes [Harness.Golden] write its file
// instead of comparing it.
const UpdateGolden = "UPDATE_GOLDEN"

// trace is the record of a harness: text for people, exchanges for tests.
type trace struct {
	text      strings.Builder
	exchanges []Exchange
}

// notef records what the test did to the world.
func (t *trace) notef(format string, args ...any) {
	fmt.Fprintf(&t.text, "# "+format+"\n", args...)
}

func (t *trace) begin(operation string, in *abi.Input) {
	fmt.Fprintf(&t.text, "%s config=%s scope=%s teardown=%s\n", operation, in.Config, in.Scope.ID, in.Teardown)
}

func (t *trace) exchange(e Exchange) {
	t.exchanges = append(t.exchanges, e)
	fmt.Fprintf(&t.text, "  %s %s\n    %s\n", e.Function, e.Request, e.Response)
}

func (t *trace) end(r *Result) {
	fmt.Fprintf(&t.text, "= %s", r)
	if r.RetryAfter > 0 {
		fmt.Fprintf(&t.text, " after %s", r.RetryAfter)
	}
	if r.Why != "" {
		fmt.Fprintf(&t.text, " (%s)", r.Why)
	}
	t.text.WriteByte('\n')
	for _, name := range slices.Sorted(maps.Keys(r.Facts)) {
		fmt.Fprintf(&t.text, "  fact %s=%s\n", name, r.Facts[name])
	}
	for _, kept := range []struct {
		what string
		raw  []byte
	}{{"state", r.State}, {"generation state", r.GenerationState}, {"sticky state", r.StickyState}} {
		if kept.raw != nil {
			fmt.Fprintf(&t.text, "  %s %s\n", kept.what, kept.raw)
		}
	}
}

// Trace is everything that happened so far, one line for each thing: what the test did,
// each call of the module, the host functions that it called with their answers, and
// what came of it.
func (h *Harness) Trace() string { return h.trace.text.String() }

// Golden compares the trace with a file. With UPDATE_GOLDEN set in the environment it
// writes the file instead; read the difference before committing it.
func (h *Harness) Golden(path string) {
	h.t.Helper()
	if os.Getenv(UpdateGolden) != "" {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			h.t.Fatalf("guesttest: make the directory of the golden file: %v", err)
		}
		if err := os.WriteFile(path, []byte(h.Trace()), 0o644); err != nil {
			h.t.Fatalf("guesttest: write the golden file: %v", err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		h.t.Fatalf("guesttest: read the golden file (%s=1 go test writes it): %v", UpdateGolden, err)
	}
	if line, w, g, differ := firstDifference(string(want), h.Trace()); differ {
		h.t.Errorf("guesttest: the trace differs from %s at line %d (%s=1 go test rewrites it)\nwant: %s\ngot:  %s", path, line, UpdateGolden, w, g)
	}
}

func firstDifference(want, got string) (line int, w, g string, differ bool) {
	if want == got {
		return 0, "", "", false
	}
	wants, gots := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(wants), len(gots)) {
		w, g = "(nothing)", "(nothing)"
		if i < len(wants) {
			w = wants[i]
		}
		if i < len(gots) {
			g = gots[i]
		}
		if w != g {
			return i + 1, w, g, true
		}
	}
	return 0, "", "", false
}
