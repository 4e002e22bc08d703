package helm

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
)

func newTestRunner(t *testing.T, workers int, finished func(*job, error)) *runner {
	t.Helper()
	r := newRunner(workers, time.Now, time.Minute, finished)
	t.Cleanup(func() { require.NoError(t, r.close(context.WithoutCancel(t.Context()))) })
	return r
}

func testJob(name string, run func(context.Context) error) *job {
	return &job{
		key: releaseKey{scope: "home", namespace: "ns", name: name}, step: stepInstall, digest: "d", run: run,
		judge: func(err error) (verdict, string) { return passing(abi.ReasonApplicationFailed), err.Error() },
	}
}

// begin starts a job as somebody who has just looked.
func (r *runner) begin(j *job) bool { return r.start(j, r.ended(j.key)) }

// TestRunnerHammer starts many actions on few releases from many goroutines: no release
// ever has two at a time, no more run than there are workers, and each that was accepted
// runs once and is announced once.
func TestRunnerHammer(t *testing.T) {
	const workers, releases, callers, rounds = 3, 5, 16, 40
	var accepted, ran, announced, active, peak atomic.Int64
	var busy [releases]atomic.Int64
	var violations atomic.Int64
	r := newTestRunner(t, workers, func(*job, error) { announced.Add(1) })
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() {
			for round := range rounds {
				n := (caller + round) % releases
				j := testJob(fmt.Sprint(n), func(context.Context) error {
					if busy[n].Add(1) > 1 {
						violations.Add(1)
					}
					if now := active.Add(1); now > peak.Load() {
						peak.Store(now)
					}
					ran.Add(1)
					active.Add(-1)
					busy[n].Add(-1)
					if round%3 == 0 {
						return errors.New("some fail")
					}
					return nil
				})
				if r.begin(j) {
					accepted.Add(1)
				}
				r.running(j.key)
				r.failure(j.key)
				r.read(j.key)
				r.forget(j.key)
			}
		})
	}
	group.Wait()
	r.work.Wait()
	require.Zero(t, violations.Load(), "two actions on one release")
	require.LessOrEqual(t, peak.Load(), int64(workers))
	require.Positive(t, accepted.Load())
	require.Equal(t, accepted.Load(), ran.Load())
	require.Equal(t, accepted.Load(), announced.Load())
}

func TestRunnerKeepsTheResult(t *testing.T) {
	ended := make(chan error, 1)
	r := newTestRunner(t, 1, func(_ *job, err error) { ended <- err })
	hold := make(chan struct{})
	j := testJob("a", func(context.Context) error { <-hold; return errors.New("it broke") })
	require.True(t, r.begin(j))
	running, busy := r.running(j.key)
	require.True(t, busy)
	require.Equal(t, stepInstall, running)
	running, busy = r.runningFor(j.key, j.owner.UID)
	require.True(t, busy)
	require.Equal(t, stepInstall, running)
	_, busy = r.runningFor(j.key, "another")
	require.False(t, busy, "nobody learns what another owner is doing")
	require.False(t, r.begin(testJob("a", func(context.Context) error { return nil })), "one at a time")
	require.Nil(t, r.failure(j.key))
	close(hold)
	require.ErrorContains(t, <-ended, "it broke")
	_, busy = r.running(j.key)
	require.False(t, busy)
	f := r.failure(j.key)
	require.True(t, f.unread)
	require.Equal(t, "it broke", f.why)
	r.read(j.key)
	require.False(t, r.failure(j.key).unread)

	require.True(t, r.begin(testJob("a", func(context.Context) error { return nil })))
	require.NoError(t, <-ended)
	require.Nil(t, r.failure(j.key), "a success ends the row")
	r.forget(j.key)
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Empty(t, r.releases)
}

func TestRunnerForgetsWhatWasGivenUp(t *testing.T) {
	ended := make(chan error, 1)
	clock := &shiftedClock{}
	r := newRunner(1, clock.now, time.Minute, func(_ *job, err error) { ended <- err })
	fail := func(context.Context) error { return errors.New("no") }
	require.True(t, r.begin(testJob("a", fail)))
	<-ended
	clock.advance(remembered + time.Second)
	require.True(t, r.begin(testJob("b", fail)))
	<-ended
	require.Nil(t, r.failure(releaseKey{scope: "home", namespace: "ns", name: "a"}))
	require.NotNil(t, r.failure(releaseKey{scope: "home", namespace: "ns", name: "b"}))
	require.NoError(t, r.close(t.Context()))
}

func TestRunnerSurvivesPanics(t *testing.T) {
	ended := make(chan error, 1)
	r := newTestRunner(t, 1, func(_ *job, err error) { ended <- err })
	require.True(t, r.begin(testJob("a", func(context.Context) error { panic("a secret value") })))
	err := <-ended
	require.ErrorIs(t, err, errPanic)
	require.NotContains(t, err.Error(), "a secret value")
	require.True(t, r.begin(testJob("a", func(context.Context) error { return nil })), "the worker is free again")
	require.NoError(t, <-ended)
}

func TestRunnerClose(t *testing.T) {
	r := newRunner(1, time.Now, time.Minute, func(*job, error) {})
	hold := make(chan struct{})
	cut := make(chan struct{})
	require.True(t, r.begin(testJob("a", func(ctx context.Context) error {
		<-ctx.Done()
		close(cut)
		<-hold
		return nil
	})))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, r.close(ctx), context.Canceled, "the wait is bounded")
	<-cut
	close(hold)
	require.NoError(t, r.close(t.Context()))
	require.False(t, r.begin(testJob("b", func(context.Context) error { return nil })), "a closed driver starts nothing")
}

func TestKeyedMutexHammer(t *testing.T) {
	const workers, rounds = 8, 200
	var k keyedMutex
	counts := map[string]*int{"a": new(int), "b": new(int)}
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for range rounds {
				for key, count := range counts {
					unlock := k.lock(key)
					*count++ // Racy unless the lock holds.
					unlock()
				}
			}
		})
	}
	group.Wait()
	require.Equal(t, workers*rounds, *counts["a"])
	require.Equal(t, workers*rounds, *counts["b"])
	require.Empty(t, k.locks)
}
