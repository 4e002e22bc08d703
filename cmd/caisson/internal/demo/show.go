package demo

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/caisson-dev/caisson/cmd/caisson/internal/devenv"
)

// step is one thing that is shown.
type step struct {
	name string
	do   func(ctx context.Context) error
	// chapter names a step that can be left out; empty for one that others build on.
	chapter string
	// counted steps run while the operator does, so its counters mean something.
	counted bool
	// notIfKept steps take long and show nothing to who wants to look around.
	notIfKept bool
	// lastIfKept ends a run whose environment is kept.
	lastIfKept bool
}

// counters are the operator's own.
type counters struct {
	calls, yields, requests, passes float64
}

func (c counters) minus(o counters) counters {
	return counters{calls: c.calls - o.calls, yields: c.yields - o.yields, requests: c.requests - o.requests, passes: c.passes - o.passes}
}

// row is a line of the closing table.
type row struct {
	step
	took time.Duration
	did  counters
}

// show prints what happens, with the time since the start. It is safe for concurrent
// use.
type show struct {
	out   io.Writer
	start time.Time
	mu    sync.Mutex
	rows  []row
}

// run runs a step and keeps its figures.
func (s *show) run(ctx context.Context, st step, count func(context.Context) (counters, error)) error {
	s.sayf("== %s", st.name)
	began := time.Now()
	var before, after counters
	var err error
	if st.counted {
		if before, err = count(ctx); err != nil {
			return err
		}
	}
	if err := st.do(ctx); err != nil {
		return err
	}
	if st.counted {
		if after, err = count(ctx); err != nil {
			return err
		}
	}
	s.rows = append(s.rows, row{step: st, took: time.Since(began), did: after.minus(before)})
	return nil
}

// sayf prints a line with the time since the start.
func (s *show) sayf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = fmt.Fprintf(s.out, "%7.1fs  %s\n", time.Since(s.start).Seconds(), fmt.Sprintf(format, args...))
}

// line prints a line as it is.
func (s *show) line(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = fmt.Fprintln(s.out, text)
}

// timed says that something begins, does it, and says how long it took.
func (s *show) timed(what string, do func() error) error {
	began := time.Now()
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	s.sayf("%-58s %6.1fs", what, time.Since(began).Seconds())
	return nil
}

// table prints what was done, step by step.
func (s *show) table() {
	s.line("")
	s.line(fmt.Sprintf("%-42s %9s %13s %7s", "STEP", "SECONDS", "MODULE CALLS", "YIELDS"))
	var total time.Duration
	for _, r := range s.rows {
		total += r.took
		calls, yields := "-", "-"
		if r.counted {
			calls, yields = fmt.Sprintf("%.0f", r.did.calls), fmt.Sprintf("%.0f", r.did.yields)
		}
		s.line(fmt.Sprintf("%-42s %9.1f %13s %7s", r.name, r.took.Seconds(), calls, yields))
	}
	s.line(fmt.Sprintf("%-42s %9.1f", "in all", total.Seconds()))
}

// logs prints the end of every log.
func (s *show) logs(state *devenv.State) {
	const most = 12
	for _, p := range state.Processes {
		raw, err := os.ReadFile(p.Log)
		if err != nil {
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
		if len(lines) > most {
			lines = lines[len(lines)-most:]
		}
		s.line("---- " + p.Name)
		for _, l := range lines {
			s.line("     " + l)
		}
	}
}
