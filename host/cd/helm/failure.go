package helm

import (
	"time"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
)

// The pauses between attempts with the same desired state. The first is short because
// most failures of a cluster that is coming up last seconds; the longest keeps a
// release that cannot succeed from writing a revision more often than a person looks.
const (
	firstPause   = 2 * time.Second
	longestPause = time.Minute
	// blockedPause is the longest pause once somebody has been told.
	blockedPause = 5 * time.Minute
)

// failure is the end of an attempt that did not succeed. It is forgotten when another
// succeeds, and does not count for another desired state.
type failure struct {
	digest  string
	verdict verdict
	why     string
	// count is how often it failed in a row, since is when it first did, at when last.
	count int
	since time.Time
	at    time.Time
	// deadline is how long it is repeated before somebody is told.
	deadline time.Duration
	// unread says that nobody has been told yet how the attempt ended. Without it a
	// caller that asks more rarely than the pause lasts would never hear of it.
	unread bool
}

// next continues a row of failures, or starts one.
func (f *failure) next(digest string, v verdict, why string, now time.Time, deadline time.Duration) *failure {
	n := &failure{digest: digest, verdict: v, why: why, count: 1, since: now, at: now, deadline: deadline, unread: true}
	if f != nil && f.digest == digest {
		n.count, n.since = f.count+1, f.since
	}
	return n
}

// holds returns what to answer instead of another attempt, or nil if one is due.
func (f *failure) holds(digest string, now time.Time) *provisioner.Error {
	if f == nil || f.digest != digest {
		return nil
	}
	left := f.at.Add(f.pause()).Sub(now)
	if left <= 0 && !f.unread {
		return nil
	}
	if left < time.Second {
		left = time.Second
	}
	d := f.verdict.disposition
	if f.overdue() {
		d = f.verdict.final
	}
	err := provisioner.New(d, f.verdict.reason, f.why)
	if d == abi.Yield || d == abi.Retry {
		err = err.WithRetryAfter(left)
	}
	return err
}

// overdue reports whether the deadline had passed when it failed last.
func (f *failure) overdue() bool { return f.at.Sub(f.since) >= f.deadline }

func (f *failure) pause() time.Duration {
	longest := longestPause
	if f.overdue() || f.verdict.disposition == f.verdict.final {
		longest = blockedPause
	}
	pause := firstPause
	for i := 1; i < f.count && pause < longest; i++ {
		pause *= 2
	}
	return min(pause, longest)
}
