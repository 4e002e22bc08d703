package concurrent_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/concurrent"
	"github.com/caisson-dev/caisson/host/provisioner/provisionertest"
)

var (
	errYield    = provisioner.Yield("application_installing", "rolling out")
	errRetry    = provisioner.Retry("chart_unavailable", "connection refused")
	errUser     = provisioner.UserActionRequired("secret_missing", "no token")
	errTerminal = provisioner.Terminal("invalid_config", "podCIDR")
)

// wants is what a call is to come to; the zero value is OK.
type wants struct {
	class    abi.Disposition
	headline abi.Disposition
	reason   string
	path     string
	after    time.Duration
}

func requireOutcome(t *testing.T, err error, want wants, reason string) {
	t.Helper()
	outcome := provisioner.OutcomeOf(err)
	require.False(t, outcome.Cancelled, reason)
	require.Equal(t, want, wants{
		class: outcome.Class, headline: outcome.Headline.Disposition, reason: outcome.Headline.Reason,
		path: outcome.Headline.Path, after: outcome.RetryAfter,
	}, reason)
}

func TestProvision(t *testing.T) {
	for name, test := range map[string]struct {
		reason  string
		results []error
		want    wants
	}{
		"Case024": {"all OK is OK", []error{nil, nil}, wants{}},
		"Case025": {
			"a yield beside an OK is a yield", []error{errYield, nil},
			wants{class: abi.Yield, headline: abi.Yield, reason: "application_installing", path: "0"},
		},
		"Case027": {
			"progress decides the schedule, severity the surface", []error{errYield, errTerminal},
			wants{class: abi.Yield, headline: abi.Terminal, reason: "invalid_config", path: "1"},
		},
		"Case028": {
			"terminal is more severe than a request to the user", []error{errTerminal, errUser},
			wants{class: abi.Terminal, headline: abi.Terminal, reason: "invalid_config", path: "0"},
		},
		"Case028Reversed": {
			"also when it comes later", []error{errUser, errTerminal},
			wants{class: abi.Terminal, headline: abi.Terminal, reason: "invalid_config", path: "1"},
		},
		"Case029": {
			"the lowest index wins a tie", []error{errUser, provisioner.UserActionRequired("forbidden", "")},
			wants{class: abi.UserActionRequired, headline: abi.UserActionRequired, reason: "secret_missing", path: "0"},
		},
		"Case030": {
			"an OK does not keep from parking", []error{nil, errUser},
			wants{class: abi.UserActionRequired, headline: abi.UserActionRequired, reason: "secret_missing", path: "1"},
		},
		"Case031": {
			"a retry keeps from parking", []error{errRetry, errTerminal},
			wants{class: abi.Retry, headline: abi.Terminal, reason: "invalid_config", path: "1"},
		},
		"Case032": {
			"the shortest hint wins, the first child is shown",
			[]error{errYield.WithRetryAfter(30 * time.Second), errYield.WithRetryAfter(5 * time.Second)},
			wants{class: abi.Yield, headline: abi.Yield, reason: "application_installing", path: "0", after: 5 * time.Second},
		},
	} {
		t.Run(name, func(t *testing.T) {
			trace := &provisionertest.Trace{}
			err := concurrent.New("c", concurrent.Options{}, scripted(trace, test.results, nil)...).Provision(t.Context())
			requireOutcome(t, err, test.want, test.reason)
			require.Len(t, trace.Calls(), len(test.results), "every child is called")
		})
	}
}

func TestDeprovision(t *testing.T) {
	for name, test := range map[string]struct {
		reason  string
		results []error
		want    wants
	}{
		"Case036": {
			"one still going is a yield", []error{nil, errYield},
			wants{class: abi.Yield, headline: abi.Yield, reason: "application_installing", path: "1"},
		},
		"Case037": {
			"a removal never parks", []error{errTerminal, nil},
			wants{class: abi.Retry, headline: abi.Retry, reason: "invalid_config", path: "0"},
		},
		"Case037User": {
			"nor for a request to the user beside a yield", []error{errYield, errUser},
			wants{class: abi.Retry, headline: abi.Retry, reason: "secret_missing", path: "1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			trace := &provisionertest.Trace{}
			c := concurrent.New("c", concurrent.Options{}, scripted(trace, nil, test.results)...)
			for range 2 {
				requireOutcome(t, c.Deprovision(t.Context()), test.want, test.reason)
				require.ElementsMatch(t, []string{"D 0", "D 1"}, trace.Calls(), "every pass calls every child")
			}
		})
	}
}

// scripted returns children called 0, 1, 2 … with a result each.
func scripted(trace *provisionertest.Trace, up, down []error) []provisioner.Provisioner {
	children := make([]provisioner.Provisioner, max(len(up), len(down)))
	for i := range children {
		child := provisionertest.New(strconv.Itoa(i), trace)
		if i < len(up) {
			child.Up(up[i])
		}
		if i < len(down) {
			child.Down(down[i])
		}
		children[i] = child
	}
	return children
}

func TestCase025SlowSiblingCompletes(t *testing.T) {
	fastDone, slowDone := make(chan struct{}), false
	fast := provisionertest.New("fast", nil).OnUp(func(context.Context) error {
		close(fastDone)
		return errYield
	})
	slow := provisionertest.New("slow", nil).OnUp(func(context.Context) error {
		<-fastDone
		slowDone = true
		return nil
	})
	err := concurrent.New("c", concurrent.Options{}, fast, slow).Provision(t.Context())
	requireOutcome(t, err, wants{class: abi.Yield, headline: abi.Yield, reason: "application_installing", path: "0"}, "")
	require.True(t, slowDone, "the result waits for every child")
}

func TestCase026FoldIsDeterministic(t *testing.T) {
	// The order of finishing is forced both ways round, and must not show.
	inOrder := func(first, second error, firstEnds string) error {
		gate := make(chan struct{})
		end := func(name string, result error) provisioner.Provisioner {
			return provisionertest.New(name, nil).OnUp(func(context.Context) error {
				if name == firstEnds {
					defer close(gate)
					return result
				}
				<-gate
				return result
			})
		}
		return concurrent.New("c", concurrent.Options{}, end("0", first), end("1", second)).Provision(t.Context())
	}
	for range 1000 {
		for _, firstEnds := range []string{"0", "1"} {
			requireOutcome(t, inOrder(errRetry, errYield, firstEnds),
				wants{class: abi.Retry, headline: abi.Retry, reason: "chart_unavailable", path: "0"}, firstEnds)
			requireOutcome(t, inOrder(errYield, errRetry, firstEnds),
				wants{class: abi.Retry, headline: abi.Retry, reason: "chart_unavailable", path: "1"}, firstEnds)
		}
	}
}

func TestCase033PanicStaysWithItsChild(t *testing.T) {
	for name, test := range map[string]struct {
		reason string
		hook   provisionertest.Hook
		why    string
	}{
		"Panic":    {"a panic is that child's Retry", func(context.Context) error { panic("index out of range") }, "panic: index out of range"},
		"NilPanic": {"also one with nil", func(context.Context) error { panic(nil) }, "panic called with nil argument"},
		"Runtime":  {"also one of the runtime", func(context.Context) error { var m map[string]int; m["a"] = 1; return nil }, "nil map"}, //nolint:staticcheck // The panic is what is tested.,
	} {
		t.Run(name, func(t *testing.T) {
			trace := &provisionertest.Trace{}
			faulty := provisionertest.New("faulty", trace).OnUp(test.hook).OnDown(test.hook)
			for _, down := range []concurrent.Order{concurrent.Concurrent, concurrent.Serial} {
				c := concurrent.New("c", concurrent.Options{Down: down}, provisionertest.New("sibling", trace), faulty)
				up, gone := c.Provision(t.Context()), c.Deprovision(t.Context())
				for _, err := range []error{up, gone} {
					requireOutcome(t, err, wants{class: abi.Retry, headline: abi.Retry, reason: abi.ReasonModuleTrap, path: "1"}, test.reason)
					why := provisioner.OutcomeOf(err).Headline.Why
					require.Contains(t, why, test.why)
					require.Contains(t, why, "concurrent_test.go", "the trace leads to the child")
					require.Less(t, len(why), 4096, "the trace is trimmed")
				}
			}
			require.Contains(t, trace.Calls(), "P sibling")
		})
	}
}

func TestGoexitOfAChildIsARetry(t *testing.T) {
	exiting := provisionertest.New("exiting", nil).OnUp(func(context.Context) error {
		exit()
		return nil
	})
	err := concurrent.New("c", concurrent.Options{Limit: 1}, exiting, provisionertest.New("sibling", nil)).Provision(t.Context())
	requireOutcome(t, err, wants{class: abi.Retry, headline: abi.Retry, reason: abi.ReasonModuleTrap, path: "0"},
		"a child that never returned must not read as OK, nor keep its slot")
}

func TestCase034NoSiblingIsCancelled(t *testing.T) {
	failed := make(chan struct{})
	failing := provisionertest.New("failing", nil).OnUp(func(context.Context) error {
		defer close(failed)
		return errTerminal
	})
	blocking := provisionertest.New("blocking", nil).OnUp(func(ctx context.Context) error {
		<-failed
		return ctx.Err()
	})
	err := concurrent.New("c", concurrent.Options{}, failing, blocking).Provision(t.Context())
	requireOutcome(t, err, wants{class: abi.Terminal, headline: abi.Terminal, reason: "invalid_config", path: "0"}, "the sibling is OK")
}

// gauge measures how many calls run at once.
type gauge struct {
	mu           sync.Mutex
	running, top int
}

func (g *gauge) enter() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running++
	g.top = max(g.top, g.running)
}

func (g *gauge) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
}

func TestCase035Limit(t *testing.T) {
	const children = 20
	for name, test := range map[string]struct {
		reason string
		limit  int
		want   int
	}{
		"Four":    {"a limit is kept and used", 4, 4},
		"One":     {"one is one at a time", 1, 1},
		"Default": {"zero is the default", 0, concurrent.DefaultLimit},
		"Above":   {"a limit above the number of children is none", 100, children},
	} {
		t.Run(name, func(t *testing.T) {
			var running gauge
			full := make(chan struct{}, children)
			nodes := make([]provisioner.Provisioner, children)
			for i := range nodes {
				nodes[i] = provisionertest.New("child", nil).OnUp(func(context.Context) error {
					running.enter()
					defer running.leave()
					full <- struct{}{}
					if i < test.want {
						// The first ones leave together, so that the limit is reached for certain.
						requireEventually(t, func() bool { return len(full) >= test.want })
					}
					return provisioner.Yield("facts_missing", strconv.Itoa(i))
				})
			}
			err := concurrent.New("c", concurrent.Options{Limit: test.limit}, nodes...).Provision(t.Context())
			require.Equal(t, test.want, running.top, test.reason)
			require.Len(t, full, children, "all run")
			outcome := provisioner.OutcomeOf(err)
			require.Equal(t, "0", outcome.Headline.Path, "the fold is in the order of the children")
		})
	}
}

func TestCase038ShutdownWaitsForChildren(t *testing.T) {
	ctx, shutdown := context.WithCancelCause(t.Context())
	bothRun, ended := make(chan struct{}, 2), make(chan struct{}, 2)
	child := func() provisioner.Provisioner {
		return provisionertest.New("child", nil).OnUp(func(ctx context.Context) error {
			bothRun <- struct{}{}
			<-ctx.Done()
			ended <- struct{}{}
			return fmt.Errorf("get deployment: %w", ctx.Err())
		})
	}
	go func() {
		<-bothRun
		<-bothRun
		shutdown(provisioner.ErrShutdown)
	}()
	unreached := &provisionertest.Trace{}
	err := concurrent.New("c", concurrent.Options{Limit: 2}, child(), child(), provisionertest.New("late", unreached)).Provision(ctx)
	require.True(t, provisioner.OutcomeOf(err).Cancelled)
	require.Len(t, ended, 2, "the result waits for those that run")
	require.Empty(t, unreached.Calls(), "those that wait for a slot are not started")
}

func TestBudgetIsNoShutdown(t *testing.T) {
	ctx, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	trace := &provisionertest.Trace{}
	err := concurrent.New("c", concurrent.Options{}, provisionertest.New("0", trace)).Provision(ctx)
	requireOutcome(t, err, wants{class: abi.Retry, headline: abi.Retry, reason: abi.ReasonDeadlineExceeded, path: "0"}, "it goes on in the next pass")
	require.Empty(t, trace.Calls())
}

func TestCase039ParksOnceNothingProgresses(t *testing.T) {
	c := concurrent.New("c", concurrent.Options{},
		provisionertest.New("0", nil).Up(errTerminal), provisionertest.New("1", nil).Up(errYield, nil))
	require.False(t, provisioner.IsTerminal(c.Provision(t.Context())))
	require.True(t, provisioner.IsTerminal(c.Provision(t.Context())))
}

func TestCase040Empty(t *testing.T) {
	for _, down := range []concurrent.Order{"", concurrent.Concurrent, concurrent.Serial} {
		c := concurrent.New("empty", concurrent.Options{Down: down})
		require.Equal(t, "empty", c.ProvisionerName())
		require.NoError(t, c.Provision(t.Context()))
		require.NoError(t, c.Deprovision(t.Context()))
	}
}

func TestCase057DownSerial(t *testing.T) {
	trace := &provisionertest.Trace{}
	meet := make(chan struct{})
	cluster := provisionertest.New("cluster", trace).OnUp(func(context.Context) error { meet <- struct{}{}; return nil })
	boot := provisionertest.New("boot", trace).OnUp(func(context.Context) error { <-meet; return nil }).Down(errYield, errTerminal, nil)
	c := concurrent.New("c", concurrent.Options{Down: concurrent.Serial}, cluster, boot)

	require.NoError(t, c.Provision(t.Context()), "each waits for the other, so they ran side by side")
	require.ElementsMatch(t, []string{"P cluster", "P boot"}, trace.Calls())

	requireOutcome(t, c.Deprovision(t.Context()), wants{class: abi.Yield, headline: abi.Yield, reason: "application_installing", path: "1"}, "")
	require.Equal(t, []string{"D boot"}, trace.Calls(), "the cluster stays while boot is going")
	requireOutcome(t, c.Deprovision(t.Context()), wants{class: abi.Retry, headline: abi.Retry, reason: "invalid_config", path: "1"}, "")
	require.Equal(t, []string{"D boot"}, trace.Calls())
	require.NoError(t, c.Deprovision(t.Context()))
	require.Equal(t, []string{"D boot", "D cluster"}, trace.Calls())
}

func TestDownSerialStopsAtShutdown(t *testing.T) {
	ctx, shutdown := context.WithCancelCause(t.Context())
	trace := &provisionertest.Trace{}
	last := provisionertest.New("1", trace).OnDown(func(context.Context) error {
		shutdown(provisioner.ErrShutdown)
		return nil
	})
	c := concurrent.New("c", concurrent.Options{Down: concurrent.Serial}, provisionertest.New("0", trace), last)
	require.True(t, provisioner.OutcomeOf(c.Deprovision(ctx)).Cancelled)
	require.Equal(t, []string{"D 1"}, trace.Calls())
}

func TestHammer(t *testing.T) {
	const passes, children = 16, 32
	results := []error{nil, errYield, errRetry, errUser, errTerminal, errors.New("untyped")}
	nodes := make([]provisioner.Provisioner, children)
	for i := range nodes {
		result := results[i%len(results)]
		hook := func(context.Context) error {
			if i%7 == 6 {
				panic(i)
			}
			return result
		}
		nodes[i] = provisionertest.New(strconv.Itoa(i), nil).OnUp(hook).OnDown(hook)
	}
	inner := concurrent.New("inner", concurrent.Options{Limit: 4}, nodes...)
	outer := concurrent.New("outer", concurrent.Options{Limit: 3}, inner, inner, inner)
	var wait sync.WaitGroup
	ups, downs := make([]provisioner.Outcome, passes), make([]provisioner.Outcome, passes)
	for i := range passes {
		wait.Go(func() { ups[i] = provisioner.OutcomeOf(outer.Provision(t.Context())) })
		wait.Go(func() { downs[i] = provisioner.OutcomeOf(outer.Deprovision(t.Context())) })
	}
	wait.Wait()
	for i := range passes {
		require.Equal(t, ups[0], ups[i], "equal worlds give equal outcomes")
		require.Equal(t, abi.Terminal, ups[i].Headline.Disposition)
		require.Equal(t, abi.Retry, ups[i].Class)
		require.Equal(t, "0/4", ups[i].Headline.Path)
		require.Equal(t, abi.Retry, downs[i].Headline.Disposition)
		require.Equal(t, "0/2", downs[i].Headline.Path)
	}
}
