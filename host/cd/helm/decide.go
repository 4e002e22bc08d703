package helm

import (
	"fmt"
	"time"

	"helm.sh/helm/v4/pkg/release/common"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
)

// step is what a call does about a release.
type step string

const (
	// stepAnswer does nothing and returns the decision's error.
	stepAnswer step = "answer"
	// stepHealth reads the objects: the release is as desired.
	stepHealth step = "health"
	// stepInstall makes the first revision.
	stepInstall step = "install"
	// stepReplace installs over the history that an uninstall kept.
	stepReplace step = "replace"
	// stepUpgrade makes the next revision.
	stepUpgrade step = "upgrade"
	// stepUnlock marks a pending revision that nobody works on as failed, and upgrades.
	stepUnlock step = "unlock"
	// stepFinishUninstall runs an interrupted uninstall again.
	stepFinishUninstall step = "finish-uninstall"
)

// situation is everything that a decision depends on.
type situation struct {
	// last is the newest record of the release, or nil if there is none.
	last *revision
	// want is what is asked for.
	want identity
	// action is what the inventory has of an action that did not succeed, or nil.
	action *begun
	// failure is the last attempt of ours if it failed and none succeeded since.
	failure *failure
	now     time.Time
	// lock is the age from which a pending revision is nobody's.
	lock time.Duration
}

// decision is the step to take; err is set for stepAnswer only.
type decision struct {
	step step
	err  *provisioner.Error
}

// decide is the state table: observe, decide, act. It is pure. That an action of ours is
// running has been ruled out before.
func decide(s situation) decision {
	last := s.last
	if last != nil && !s.want.owns(last.labels) {
		return answer(provisioner.UserActionRequired(abi.ReasonApplicationOwned,
			fmt.Sprintf("revision %d carries owner %q", last.number, last.labels[labelOwner])))
	}
	if last != nil {
		switch last.status {
		case common.StatusPendingInstall, common.StatusPendingUpgrade, common.StatusPendingRollback:
			return decidePending(s)
		case common.StatusDeployed:
			if s.want.describes(last.labels) {
				return decision{step: stepHealth}
			}
		default:
		}
	}
	if err := s.failure.holds(s.want.digest(), s.now); err != nil {
		return answer(err)
	}
	if last == nil {
		return decision{step: stepInstall}
	}
	switch last.status {
	case common.StatusDeployed, common.StatusFailed, common.StatusSuperseded:
		return decision{step: stepUpgrade}
	case common.StatusUninstalling:
		return decision{step: stepFinishUninstall}
	case common.StatusUninstalled:
		return decision{step: stepReplace}
	default:
		return answer(provisioner.UserActionRequired(abi.ReasonApplicationFailed,
			fmt.Sprintf("revision %d has status %q", last.number, last.status)))
	}
}

// decidePending judges a lock. One that is nobody's is taken off even if no attempt is
// left (B18), unless an attempt failed after it was put on: then taking it off, or what
// followed, is what failed, and a pause is due as after any failure.
func decidePending(s situation) decision {
	if !abandoned(s.last, s.action, s.now, s.lock) {
		age := s.now.Sub(s.last.updated)
		return answer(provisioner.Yield(abi.ReasonApplicationLocked,
			fmt.Sprintf("revision %d is %s for %s", s.last.number, s.last.status, age.Round(time.Second))).WithRetryAfter(pollInterval))
	}
	if s.failure != nil && s.failure.at.After(s.last.updated) {
		if err := s.failure.holds(s.want.digest(), s.now); err != nil {
			return answer(err)
		}
	}
	return decision{step: stepUnlock}
}

// abandoned reports whether nobody works on a pending revision. One that a recorded
// action of ours made is dead at once: we are the only process that runs actions, and
// this one is running none. Any other may be a person's until it is old, whatever its
// labels say, because Helm carries labels over from revision to revision.
func abandoned(pending *revision, action *begun, now time.Time, lock time.Duration) bool {
	return action.made(pending) || now.Sub(pending.updated) >= lock
}

func answer(err *provisioner.Error) decision { return decision{step: stepAnswer, err: err} }
