package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/capability"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/module"
)

// never is a patience that no test outlives.
const never = time.Hour

func TestGateSendsAwayWhenNothingMoves(t *testing.T) {
	g := newGate(2, 20*time.Millisecond)
	require.True(t, g.enter(t.Context()))
	require.True(t, g.enter(t.Context()))
	require.False(t, g.enter(t.Context()), "both slots are taken, and stay so")
	began := time.Now()
	require.False(t, g.enter(t.Context()))
	require.Less(t, time.Since(began), never, "who comes later does not wait again")
	g.leave()
	require.True(t, g.enter(t.Context()), "a slot that is free is taken at once")
}

func TestGateWaitsForWhatMoves(t *testing.T) {
	g := newGate(1, never)
	require.True(t, g.enter(t.Context()))
	entered := make(chan bool)
	go func() { entered <- g.enter(t.Context()) }()
	select {
	case <-entered:
		t.Fatal("there is one slot")
	case <-time.After(10 * time.Millisecond):
	}
	g.leave()
	require.True(t, <-entered)
}

func TestGateEndsWithTheContext(t *testing.T) {
	g := newGate(1, never)
	require.True(t, g.enter(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.False(t, g.enter(ctx))
}

// TestGateHammer: never more than its width are inside, and everybody who waits for calls
// that end gets in.
func TestGateHammer(t *testing.T) {
	g := newGate(3, never)
	var inside, most, entered atomic.Int64
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 200 {
				if !g.enter(t.Context()) {
					continue
				}
				now := inside.Add(1)
				for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
				}
				entered.Add(1)
				inside.Add(-1)
				g.leave()
			}
		})
	}
	all.Wait()
	require.LessOrEqual(t, most.Load(), int64(3))
	require.Equal(t, int64(16*200), entered.Load())
}

// hangingFault is what the sandbox says of a call that was killed at its deadline.
type hangingFault struct{}

func (hangingFault) Error() string  { return "it was not over in time" }
func (hangingFault) Reason() string { return abi.ReasonTimeout }

// stuck is a module whose calls last until they are let go, and then have hung.
type stuck struct {
	*fakeModule
	under   atomic.Int64
	release chan struct{}
}

func (s *stuck) Call(ctx context.Context, _, _ string, _ []byte, _ func(context.Context, string, []byte) []byte) (int32, []byte, error) {
	s.under.Add(1)
	defer s.under.Add(-1)
	select {
	case <-s.release:
	case <-ctx.Done():
	}
	return 0, nil, hangingFault{}
}

// computingFault is what it says of one that was killed for its processor time.
type computingFault struct{ hangingFault }

func (computingFault) Reason() string { return abi.ReasonCPUExceeded }

func newStuck() *stuck {
	return &stuck{fakeModule: loadedAs(newManifest("1.0.0")), release: make(chan struct{})}
}

func granted(t *testing.T, m *Modules, name string) *module.Instance {
	t.Helper()
	instance, err := m.Granted(name, capability.Grant{Capabilities: []abi.Function{abi.AppEnsure, abi.AppRemove}})
	require.NoError(t, err)
	return instance
}

// TestHangingModuleLeavesTheOthersTheirWorkers: a module gets half of the workers, further
// calls of it yield, and one that is well is called meanwhile.
func TestHangingModuleLeavesTheOthersTheirWorkers(t *testing.T) {
	m := newModules(t, time.Now)
	hangs, well := newStuck(), loadedAs(newManifest("1.0.0"))
	for name, runtime := range map[string]LoadedModule{"hangs": hangs, "hangs-too": hangs, "well": well} {
		m.Put(name, Loaded{Digest: "sha256:" + name, Manifest: newManifest("1.0.0"), Runtime: runtime})
	}
	call := func(name string) error {
		_, _, err := granted(t, m, name).Runtime.Call(t.Context(), "team", abi.ExportProvision, nil, nil)
		return err
	}
	requireBusy := func(err error, why string) {
		t.Helper()
		o := provisioner.OutcomeOf(err)
		require.Equal(t, abi.Yield, o.Class, why)
		require.Equal(t, abi.ReasonModuleBusy, o.Headline.Reason, why)
		require.Positive(t, o.RetryAfter, "nobody tells when it is free again")
	}
	var held sync.WaitGroup
	for range 2 {
		held.Go(func() { require.ErrorIs(t, call("hangs"), hangingFault{}) })
	}
	require.Eventually(t, func() bool { return hangs.under.Load() == 2 }, time.Minute, time.Millisecond)
	requireBusy(call("hangs"), "half of the four workers are taken")
	require.NoError(t, call("well"), "one that is well does not notice")
	close(hangs.release)
	held.Wait()

	// Both have hung now, and share what one would have.
	hangs.release = make(chan struct{})
	require.ErrorIs(t, callAndRelease(t, m, hangs, "hangs-too"), hangingFault{})
	hangs.release = make(chan struct{})
	for _, name := range []string{"hangs", "hangs-too"} {
		held.Go(func() { require.ErrorIs(t, call(name), hangingFault{}) })
	}
	require.Eventually(t, func() bool { return hangs.under.Load() == 2 }, time.Minute, time.Millisecond)
	requireBusy(call("hangs"), "the other one has the other slot")
	requireBusy(call("hangs-too"), "the other one has the other slot")
	require.NoError(t, call("well"))
	close(hangs.release)
	held.Wait()
}

// TestHangingOwnersLeaveRoom: owners for which a module hung before share half of what it
// may hold up, so that it can be called for the others, and in the other export.
func TestHangingOwnersLeaveRoom(t *testing.T) {
	m := newModules(t, time.Now)
	hangs := newStuck()
	m.Put("hangs", Loaded{Digest: "sha256:hangs", Manifest: newManifest("1.0.0"), Runtime: hangs})
	call := func(owner types.UID, export string) error {
		_, _, err := granted(t, m, "hangs").Runtime.Call(calledBy(t.Context(), owner), "team", export, nil, nil)
		return err
	}
	close(hangs.release)
	for _, owner := range []types.UID{"a", "b", "c"} {
		require.ErrorIs(t, call(owner, abi.ExportProvision), hangingFault{})
	}
	hangs.release = make(chan struct{})
	var held sync.WaitGroup
	held.Go(func() { require.ErrorIs(t, call("a", abi.ExportProvision), hangingFault{}) })
	require.Eventually(t, func() bool { return hangs.under.Load() == 1 }, time.Minute, time.Millisecond)
	o := provisioner.OutcomeOf(call("b", abi.ExportProvision))
	require.Equal(t, abi.ReasonModuleBusy, o.Headline.Reason, "the half is taken")

	held.Go(func() { require.ErrorIs(t, call("c", abi.ExportDeprovision), hangingFault{}) })
	require.Eventually(t, func() bool { return hangs.under.Load() == 2 }, time.Minute, time.Millisecond, "another export is another matter")
	close(hangs.release)
	held.Wait()

	quick := m.entry("hangs")
	quick.hangs.note(calledBy(t.Context(), "a"), abi.ExportProvision, nil)
	require.False(t, quick.hangs.of(calledBy(t.Context(), "a"), abi.ExportProvision), "a call that ends is forgiven")
	require.True(t, quick.hangs.of(calledBy(t.Context(), "b"), abi.ExportProvision))
	require.False(t, quick.hangs.of(t.Context(), abi.ExportProvision), "nobody in particular")
}

// TestConcurrencyOfAModule: an admin narrows or widens what a module may have under way,
// up to all workers there are.
func TestConcurrencyOfAModule(t *testing.T) {
	for name, c := range map[string]struct {
		reason      string
		concurrency int
		want        int
	}{
		"Unset": {reason: "half of the four workers", want: 2},
		"One":   {reason: "a module that shall be called once at a time", concurrency: 1, want: 1},
		"All":   {reason: "a module that is worth it", concurrency: 4, want: 4},
		"More":  {reason: "there are no more workers", concurrency: 100, want: 4},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModules(t, time.Now)
			s := newStuck()
			s.limits.Concurrency = c.concurrency
			m.Put("wide", Loaded{Digest: "sha256:1", Manifest: newManifest("1.0.0"), Runtime: s})
			call := func() error {
				_, _, err := granted(t, m, "wide").Runtime.Call(t.Context(), "team", abi.ExportProvision, nil, nil)
				return err
			}
			var held sync.WaitGroup
			for range c.want {
				held.Go(func() { require.ErrorIs(t, call(), hangingFault{}) })
			}
			require.Eventually(t, func() bool { return s.under.Load() == int64(c.want) }, time.Minute, time.Millisecond, c.reason)
			err := call()
			o := provisioner.OutcomeOf(err)
			require.Equal(t, abi.ReasonModuleBusy, o.Headline.Reason, c.reason)
			require.Contains(t, o.Headline.Why, fmt.Sprintf("module wide has all of the %d calls under way that it may have", c.want))
			close(s.release)
			held.Wait()
		})
	}
}

// TestModuleThatWaitsIsNotStuck: a module whose calls wait for workers that others have is
// not said to hang.
func TestModuleThatWaitsIsNotStuck(t *testing.T) {
	m := newModules(t, time.Now) // with four workers, of which a module gets two
	// The runtime knows nothing of workers: those of the first two modules hang in theirs,
	// and those of the third wait for one.
	all := newStuck()
	for _, name := range []string{"one", "two", "waits"} {
		m.Put(name, Loaded{Digest: "sha256:" + name, Manifest: newManifest("1.0.0"), Runtime: all})
	}
	var held sync.WaitGroup
	call := func(name string) error {
		_, _, err := granted(t, m, name).Runtime.Call(t.Context(), "team", abi.ExportProvision, nil, nil)
		return err
	}
	hold := func(name string, under int64) {
		for range 2 {
			held.Go(func() { require.ErrorIs(t, call(name), hangingFault{}) })
		}
		require.Eventually(t, func() bool { return all.under.Load() == under }, time.Minute, time.Millisecond)
	}
	hold("one", 2)
	hold("two", 4)
	require.Equal(t, abi.ReasonModuleBusy, provisioner.OutcomeOf(call("one")).Headline.Reason, "near miss: nobody waits for a worker")
	hold("waits", 6)
	o := provisioner.OutcomeOf(call("waits"))
	require.Equal(t, abi.Yield, o.Class)
	require.Equal(t, abi.ReasonWorkerBusy, o.Headline.Reason)
	require.Contains(t, o.Headline.Why, "6 calls of all modules share 4 workers")
	close(all.release)
	held.Wait()
}

// callAndRelease makes one call that hangs and comes to its end.
func callAndRelease(t *testing.T, m *Modules, s *stuck, name string) error {
	t.Helper()
	close(s.release)
	_, _, err := granted(t, m, name).Runtime.Call(t.Context(), "team", abi.ExportProvision, nil, nil)
	return err
}

func TestTimedOut(t *testing.T) {
	require.True(t, timedOut(hangingFault{}))
	require.True(t, timedOut(computingFault{}), "it holds its worker for as long as it may")
	require.False(t, timedOut(nil))
	require.False(t, timedOut(errors.New("something else")))
}
