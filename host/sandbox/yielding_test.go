package sandbox

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestYielding looks at calls that compute for a part of each interval.
func TestYielding(t *testing.T) {
	cases := map[string]struct {
		reason string
		got    []time.Duration
		want   []importance
		end    []importance
	}{
		"Waits":     {reason: "one that waits for the host keeps nobody from anything", got: []time.Duration{0, 9 * time.Millisecond, 49 * time.Millisecond}},
		"Computes":  {reason: "once is enough", got: []time.Duration{50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond}, want: []importance{givesWay}, end: []importance{asImportant}},
		"Slows":     {reason: "one that gives way and gets something goes on so", got: []time.Duration{100 * time.Millisecond, 10 * time.Millisecond, 11 * time.Millisecond}, want: []importance{givesWay}, end: []importance{asImportant}},
		"Starves":   {reason: "everything else is busy, and its deadline goes on", got: []time.Duration{100 * time.Millisecond, 9 * time.Millisecond}, want: []importance{givesWay, asImportant}},
		"Alternate": {reason: "it has its turn, and then gives way again", got: []time.Duration{100 * time.Millisecond, 0, 60 * time.Millisecond}, want: []importance{givesWay, asImportant, givesWay}, end: []importance{asImportant}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var set []importance
			used := time.Hour // by earlier calls
			y := &yielding{used: used, timer: time.NewTimer(time.Hour)}
			y.read = func() (time.Duration, error) { return used, nil }
			y.set = func(i importance) error { set = append(set, i); return nil }
			for _, got := range tc.got {
				used += got
				y.look()
			}
			require.Equal(t, tc.want, set, tc.reason)
			y.stop()
			y.stop()
			y.look()
			require.Equal(t, append(tc.want, tc.end...), set, "it ends as it began, once")
		})
	}
}

// TestYieldingFails: what cannot be read or set is left alone.
func TestYieldingFails(t *testing.T) {
	used, err, sets := time.Duration(0), error(nil), 0
	y := &yielding{timer: time.NewTimer(0)}
	y.read = func() (time.Duration, error) { return used, err }
	y.set = func(importance) error { sets++; return os.ErrPermission }
	used = time.Second
	y.look()
	require.Equal(t, 1, sets)
	used, err = 2*time.Second, os.ErrProcessDone
	y.look()
	require.Equal(t, 1, sets)
	y.stop()
	require.Equal(t, 2, sets, "some threads may have changed")
	yieldWhile(func() (time.Duration, error) { return 0, errors.ErrUnsupported }, nil)()
}

// TestYieldingHammer ends calls while they are looked at.
func TestYieldingHammer(t *testing.T) {
	var all sync.WaitGroup
	for i := range 32 {
		all.Go(func() {
			var used, is atomic.Int64
			stop := yieldWhile(func() (time.Duration, error) { return time.Duration(used.Add(int64(yieldEvery))), nil }, func(i importance) error {
				is.Store(int64(i))
				return nil
			})
			time.Sleep(yieldEvery + time.Duration(i-16)*time.Millisecond)
			stop()
			if importance(is.Load()) != asImportant {
				t.Error("a worker that goes back to the others gives way still")
			}
		})
	}
	all.Wait()
}
