package controller

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

func TestWakesTake(t *testing.T) {
	w, names := NewWakes(), named("a", "b")
	require.Equal(t, Wake{}, w.Take(names[0]), "an event of the API has no reason of its own")
	w.Add(names[0], Wake{Driver: true})
	w.Add(names[0], Wake{})
	require.Equal(t, Wake{}, w.Take(names[1]), "reasons are of one Stack")
	require.Equal(t, Wake{Driver: true}, w.Take(names[0]), "reasons add up")
	require.Equal(t, Wake{}, w.Take(names[0]), "and are taken once")
}

func TestWakesResync(t *testing.T) {
	w, name, now := NewWakes(), theStack(), epoch()
	require.Equal(t, 10*time.Minute, w.UntilResync(name, now, 10*time.Minute), "after a restart nothing is due")
	require.Equal(t, 7*time.Minute, w.UntilResync(name, now.Add(3*time.Minute), 9*time.Minute), "and asking does not put it off")
	require.LessOrEqual(t, w.UntilResync(name, now.Add(10*time.Minute), time.Minute), time.Duration(0))
	w.Synced(name, now.Add(10*time.Minute), 5*time.Minute)
	require.Equal(t, 4*time.Minute, w.UntilResync(name, now.Add(11*time.Minute), time.Minute), "a pass puts it off")
}

func TestWakesFailures(t *testing.T) {
	w, names := NewWakes(), named("a", "b")
	require.Equal(t, 1, w.Failed(names[0]))
	require.Equal(t, 2, w.Failed(names[0]))
	require.Equal(t, 1, w.Failed(names[1]), "rows are of one Stack")
	w.Succeeded(names[0])
	require.Equal(t, 1, w.Failed(names[0]), "a success ends the row")
}

func TestWakesBehind(t *testing.T) {
	cases := map[string]struct {
		reason        string
		written, read string
		after         time.Duration
		want          bool
	}{
		"nothing written": {reason: "whatever was read is the newest we know of", read: "1"},
		"older":           {reason: "the cache has not seen our write", written: "100", read: "99", want: true},
		"the write":       {reason: "the cache has caught up", written: "100", read: "100"},
		"newer":           {reason: "somebody wrote after us", written: "99", read: "100"},
		"too long":        {reason: "a restored cluster may count from below; no Stack waits for ever", written: "100", read: "99", after: cacheLagLongest},
		"no number":       {reason: "what cannot be compared is not waited for", written: "100", read: "abc"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := NewWakes()
			if c.written != "" {
				w.Wrote(theStack(), c.written, epoch())
			}
			require.Equal(t, c.want, w.Behind(theStack(), c.read, epoch().Add(c.after)), c.reason)
			require.False(t, w.Behind(theStack(), "100", epoch()), "it ends")
			require.Empty(t, w.written, "and nothing is kept")
		})
	}
}

func TestWakesForget(t *testing.T) {
	w, name := NewWakes(), theStack()
	w.Add(name, Wake{Driver: true})
	w.Failed(name)
	w.Synced(name, epoch(), time.Hour)
	w.Wrote(name, "1", epoch())
	w.Forget(name)
	require.Equal(t, NewWakes().pending, w.pending)
	require.Empty(t, w.failed)
	require.Empty(t, w.due)
	require.Empty(t, w.written)
}

// TestWakesHammer: no reason is lost, whoever takes it.
func TestWakesHammer(t *testing.T) {
	const stacks, adds = 8, 500
	w := NewWakes()
	var taken [stacks]atomic.Int64
	var adders, takers sync.WaitGroup
	done := make(chan struct{})
	for s := range stacks {
		name := types.NamespacedName{Namespace: "team", Name: fmt.Sprint(s)}
		takers.Go(func() {
			for {
				if w.Take(name).Driver {
					taken[s].Add(1)
				}
				w.Failed(name)
				w.UntilResync(name, epoch(), time.Minute)
				w.Behind(name, "1", epoch())
				select {
				case <-done:
					return
				default:
				}
			}
		})
		adders.Go(func() {
			for range adds {
				w.Add(name, Wake{Driver: true})
				w.Succeeded(name)
				w.Synced(name, epoch(), time.Minute)
				w.Wrote(name, "1", epoch())
			}
		})
	}
	adders.Wait()
	close(done)
	takers.Wait()
	for s := range stacks {
		last := w.Take(types.NamespacedName{Namespace: "team", Name: fmt.Sprint(s)})
		require.True(t, taken[s].Load() > 0 || last.Driver, "the reasons of %d were lost", s)
		require.LessOrEqual(t, taken[s].Load(), int64(adds), "a reason is taken once")
	}
}
