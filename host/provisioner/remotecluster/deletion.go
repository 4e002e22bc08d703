package remotecluster

import (
	"context"
	"time"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

// confirmSilence is how long a process must itself have seen a remote silent before it
// counts as gone: a process that has just started knows nothing of the answers before,
// and its first question may meet a blip.
const confirmSilence = time.Minute

// Evidence is why a remote counts as gone.
type Evidence string

// The kinds of evidence. None of them is that a look-up failed.
const (
	// EvidenceNone is that of a remote that does not count as gone.
	EvidenceNone Evidence = ""
	// EvidenceDeclared is a human's word; the remote is not asked any more.
	EvidenceDeclared Evidence = "Declared"
	// EvidenceResolved is the resolver's, which answered with an error that Is
	// provisioner.ErrNotFound.
	EvidenceResolved Evidence = "Resolved"
	// EvidenceEnclosing is that the cluster through which the remote is found is gone, and
	// that the remote does not answer.
	EvidenceEnclosing Evidence = "Enclosing"
	// EvidenceVanished is that the remote, which was registered, does not answer, and that
	// the object that stands for it does not exist any more (see [Witness]).
	EvidenceVanished Evidence = "Vanished"
	// EvidenceSilent is that the remote did not answer for longer than its grace.
	EvidenceSilent Evidence = "Silent"
)

// Deletion is what counts as evidence of a remote's end while its owner is being deleted.
type Deletion struct {
	// Since is when the deletion began.
	Since time.Time
	// Now is the clock. Required.
	Now func() time.Time
	// Declared says that a human declared the remote gone.
	Declared bool
	// Grace is how long the remote may be silent before it counts as gone; if it is not
	// positive, silence is never evidence. It runs from Since, or from the last answer that
	// this process knows of, so a removal that takes long does not end at a blip.
	Grace time.Duration
	// Waiting is the fixed sentence that users read while a remote is silent; the one of
	// remote_unreachable if empty.
	Waiting string
}

// declared reports whether a human declared the remote gone.
func (b *Bracket) declared() bool {
	return b.options.Deletion != nil && b.options.Deletion.Declared
}

// silentTooLong reports whether the remote counts as gone because it does not answer.
// Every way to it must have ended in a plain wait: one that failed otherwise, such as a
// kubeconfig that cannot be read or a credential that is refused, says nothing of the
// cluster.
func (b *Bracket) silentTooLong(attempts ...attempt) bool {
	d := b.options.Deletion
	if d == nil || d.Grace <= 0 {
		return false
	}
	if !b.confirmed(attempts...) {
		return false
	}
	now, since := d.Now(), d.Since
	for _, a := range attempts {
		if a.asked == nil {
			continue
		}
		if answer := a.asked.LastAnswer(); answer.After(since) {
			since = answer
		}
	}
	return now.Sub(since) >= d.Grace
}

// confirmed reports whether all that keeps the remote away is a silence, and one that this
// process has watched for long enough.
func (b *Bracket) confirmed(attempts ...attempt) bool {
	enough := confirmSilence
	if grace := b.options.Deletion.Grace; grace > 0 {
		enough = min(grace, enough)
	}
	for _, a := range attempts {
		if provisioner.OutcomeOf(a.err).Class != abi.Yield {
			return false
		}
		if a.asked == nil {
			continue
		}
		if silent := a.asked.SilentSince(); !silent.IsZero() && b.options.Deletion.Now().Sub(silent) < enough {
			return false
		}
	}
	return true
}

// waiting is what a removal waits for when no way to the remote worked. What somebody
// can mend comes first. A silence is, in a deletion, told by the node of the remote, with
// what a human can do, and otherwise left to what runs on it.
func (b *Bracket) waiting(attempts ...attempt) error {
	var again time.Duration
	for _, a := range attempts {
		outcome := provisioner.OutcomeOf(a.err)
		if outcome.Class != abi.Yield {
			return a.err
		}
		if hint := outcome.RetryAfter; hint > 0 && (again == 0 || hint < again) {
			again = hint
		}
	}
	d := b.options.Deletion
	if d == nil {
		return nil
	}
	wait := provisioner.Yield(abi.ReasonRemoteUnreachable, "").WithCause(attempts[0].err).WithRetryAfter(again)
	if d.Waiting == "" {
		return wait
	}
	return wait.WithSentence(d.Waiting)
}

// giveUp notes why the remote counts as gone in this pass.
func (b *Bracket) giveUp(why Evidence) remnant {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.evidence = why
	return remnant{state: abi.ScopeGone}
}

// Evidence is why the remote counted as gone in the current or last pass, as far as a
// removal came across it; [EvidenceNone] if it did not.
func (b *Bracket) Evidence() Evidence {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.evidence
}

// ID identifies the remote.
func (b *Bracket) ID() scope.ResourceIdentifier { return b.id }

// remains finds out what a removal has to work with.
func (b *Bracket) remains(ctx context.Context, found resolution, enclosing scope.Scope) remnant {
	if found.evidence != EvidenceNone {
		return b.giveUp(found.evidence)
	}
	if found.connection != nil {
		return remnant{state: abi.ScopeReady, connection: found.connection}
	}
	if err := provisioner.Interrupted(ctx); err != nil {
		return remnant{err: err}
	}
	stored, err := b.stored(ctx, b.id)
	if err != nil {
		return remnant{err: err}
	}
	attempts := []attempt{found.attempt}
	if stored != nil {
		second := b.connect(ctx, stored)
		if second.err == nil {
			return remnant{state: abi.ScopeReady, connection: second.asked}
		}
		if err := provisioner.Interrupted(ctx); err != nil {
			return remnant{err: err}
		}
		attempts = append(attempts, second)
	} else {
		used, err := b.used(ctx)
		if err != nil {
			return remnant{err: err}
		}
		if !used {
			return remnant{unused: true}
		}
	}
	if enclosing.State() == abi.ScopeGone {
		// Where the remote would be found is gone for good, and what was recorded of the
		// remote does not answer: nobody can ever reach it again.
		return b.giveUp(EvidenceEnclosing)
	}
	if b.vanished(ctx, stored, attempts...) {
		return b.giveUp(EvidenceVanished)
	}
	if b.silentTooLong(attempts...) {
		return b.giveUp(EvidenceSilent)
	}
	return remnant{state: abi.ScopePending, cause: b.waiting(attempts...)}
}
