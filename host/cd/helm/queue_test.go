package helm

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/host/scope"
)

func ownedJob(owner, name string, run func(context.Context) error) *job {
	j := testJob(name, run)
	j.key.namespace, j.owner = owner, scope.Owner{UID: owner}
	return j
}

func TestQueueOrder(t *testing.T) {
	cases := map[string]struct {
		reason  string
		workers int
		waiting []string
		want    []string
	}{
		"Nothing":        {reason: "nobody waits", workers: 4},
		"OneWorker":      {reason: "an only worker is for everybody", workers: 1, waiting: []string{"a", "a", "b"}, want: []string{"a"}},
		"OneOwner":       {reason: "one worker is kept for others", workers: 4, waiting: []string{"a", "a", "a", "a"}, want: []string{"a", "a", "a"}},
		"OneOwnerOfTwo":  {reason: "also of two", workers: 2, waiting: []string{"a", "a"}, want: []string{"a"}},
		"LatecomerFirst": {reason: "who has fewest comes first", workers: 4, waiting: []string{"a", "a", "a", "b"}, want: []string{"a", "b", "a", "a"}},
		"InTurns":        {reason: "equals come in the order in which they came", workers: 4, waiting: []string{"a", "a", "b", "b", "c"}, want: []string{"a", "b", "c", "a"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			q := newQueue(tc.workers)
			for _, owner := range tc.waiting {
				q.add(ownedJob(owner, "r", nil))
			}
			var got []string
			var taken []*job
			for j := q.take(); j != nil; j = q.take() {
				got, taken = append(got, j.owner.UID), append(taken, j)
			}
			require.Equal(t, tc.want, got, tc.reason)
			require.Len(t, q.clear(), len(tc.waiting)-len(tc.want))
			for _, j := range taken {
				q.done(j)
			}
			require.Empty(t, q.busy, "owners are not collected")
			require.Zero(t, q.total)
			require.Nil(t, q.take())
		})
	}
}

// TestSlowOwnerHammer has one owner start more actions that never end than there are
// workers, while others start many from many goroutines: all of theirs end.
func TestSlowOwnerHammer(t *testing.T) {
	const workers, slow, owners, releases = 4, 12, 6, 10
	var ended sync.WaitGroup
	var peak, running atomic.Int64
	r := newTestRunner(t, workers, func(j *job, _ error) {
		if j.owner.UID != "slow" {
			ended.Done()
		}
	})
	hold := make(chan struct{})
	var group sync.WaitGroup
	for n := range slow {
		group.Go(func() {
			r.begin(ownedJob("slow", fmt.Sprint(n), func(context.Context) error {
				now := running.Add(1)
				defer running.Add(-1)
				for old := peak.Load(); now > old && !peak.CompareAndSwap(old, now); old = peak.Load() {
				}
				<-hold
				return nil
			}))
		})
	}
	ended.Add(owners * releases)
	for owner := range owners {
		group.Go(func() {
			for n := range releases {
				if !r.begin(ownedJob(fmt.Sprint(owner), fmt.Sprint(n), func(context.Context) error { return nil })) {
					panic("refused")
				}
			}
		})
	}
	group.Wait()
	ended.Wait() // It hangs if the slow owner holds every worker.
	require.LessOrEqual(t, peak.Load(), int64(workers-1))
	close(hold)
	r.work.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Empty(t, r.queue.busy)
	require.Empty(t, r.queue.waiting)
}

func TestClosingDropsWhatWaits(t *testing.T) {
	r := newRunner(1, time.Now, time.Minute, func(*job, error) {})
	hold, began := make(chan struct{}), make(chan struct{})
	require.True(t, r.begin(ownedJob("a", "runs", func(context.Context) error { close(began); <-hold; return nil })))
	<-began
	var ran atomic.Bool
	waits := ownedJob("a", "waits", func(context.Context) error { ran.Store(true); return nil })
	require.True(t, r.begin(waits))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, r.close(ctx), context.Canceled)
	_, busy := r.running(waits.key)
	require.False(t, busy)
	close(hold)
	require.NoError(t, r.close(t.Context()))
	require.False(t, ran.Load(), "what had not begun never does")
}

func TestStartRefusesAnOldView(t *testing.T) {
	ended := make(chan error, 1)
	r := newTestRunner(t, 1, func(_ *job, err error) { ended <- err })
	run := func(context.Context) error { return nil }
	j := testJob("a", run)
	seen := r.ended(j.key)
	require.True(t, r.start(j, seen))
	<-ended
	require.False(t, r.start(testJob("a", run), seen), "what it was decided by is no more")
	require.True(t, r.start(testJob("a", run), r.ended(j.key)))
	<-ended
	require.True(t, r.start(testJob("b", run), 0), "other releases do not matter")
	<-ended
}
