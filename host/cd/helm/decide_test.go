package helm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/release/common"

	"github.com/caisson-dev/caisson/abi"
)

func TestDecide(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	want := identity{owner: "o", chart: "c", values: "v"}
	older := identity{owner: "o", chart: "c", values: "before"}
	foreign := identity{owner: "somebody", chart: "c", values: "v"}
	at := func(status common.Status, id identity, age time.Duration) *revision {
		return &revision{number: 3, status: status, labels: id.labels(), updated: now.Add(-age)}
	}
	failed := func(v verdict, age time.Duration) *failure {
		return &failure{digest: want.digest(), verdict: v, count: 1, since: now.Add(-age), at: now.Add(-age), deadline: time.Hour}
	}
	unread := func(v verdict, age time.Duration) *failure {
		f := failed(v, age)
		f.unread = true
		return f
	}
	other := func(v verdict) *failure {
		f := failed(v, 0)
		f.digest = older.digest()
		return f
	}
	// action is an upgrade to the revision that at makes.
	action := func(age time.Duration) *begun { return newBegun(stepUpgrade, 3, now.Add(-age)) }
	cases := map[string]struct {
		reason  string
		last    *revision
		action  *begun
		failure *failure
		step    step
		class   abi.Disposition
		code    string
	}{
		"Absent":                  {reason: "nothing there is installed", step: stepInstall},
		"DeployedAsAsked":         {reason: "what is as asked is looked at", last: at(common.StatusDeployed, want, 0), step: stepHealth},
		"DeployedOtherwise":       {reason: "other labels are another question", last: at(common.StatusDeployed, older, 0), step: stepUpgrade},
		"DeployedWithoutLabels":   {reason: "a release of a person is not ours", last: at(common.StatusDeployed, identity{}, 0), step: stepAnswer, class: abi.UserActionRequired, code: abi.ReasonApplicationOwned},
		"Foreign":                 {reason: "another owner's release is not touched", last: at(common.StatusDeployed, foreign, 0), step: stepAnswer, class: abi.UserActionRequired, code: abi.ReasonApplicationOwned},
		"ForeignFailed":           {reason: "in no status", last: at(common.StatusFailed, foreign, 0), step: stepAnswer, class: abi.UserActionRequired, code: abi.ReasonApplicationOwned},
		"ForeignPending":          {reason: "not even to unlock it", last: at(common.StatusPendingInstall, foreign, time.Hour), step: stepAnswer, class: abi.UserActionRequired, code: abi.ReasonApplicationOwned},
		"ForeignUninstalled":      {reason: "nor its history", last: at(common.StatusUninstalled, foreign, 0), step: stepAnswer, class: abi.UserActionRequired, code: abi.ReasonApplicationOwned},
		"Failed":                  {reason: "a failed revision is upgraded, never installed (B60)", last: at(common.StatusFailed, want, 0), step: stepUpgrade},
		"FailedOtherwise":         {reason: "and so is one of another question", last: at(common.StatusFailed, older, 0), step: stepUpgrade},
		"Superseded":              {reason: "superseded only is upgraded", last: at(common.StatusSuperseded, want, 0), step: stepUpgrade},
		"PendingInstallYoung":     {reason: "somebody may be working on it", last: at(common.StatusPendingInstall, want, time.Minute), step: stepAnswer, class: abi.Yield, code: abi.ReasonApplicationLocked},
		"PendingUpgradeYoung":     {reason: "somebody may be working on it", last: at(common.StatusPendingUpgrade, want, 4*time.Minute), step: stepAnswer, class: abi.Yield, code: abi.ReasonApplicationLocked},
		"PendingInstallStale":     {reason: "nobody is", last: at(common.StatusPendingInstall, want, 5*time.Minute), step: stepUnlock},
		"PendingUpgradeStale":     {reason: "nobody is", last: at(common.StatusPendingUpgrade, older, time.Hour), step: stepUnlock},
		"PendingRollbackStale":    {reason: "B19", last: at(common.StatusPendingRollback, want, time.Hour), step: stepUnlock},
		"PendingStaleAfterFailed": {reason: "a lock comes off even when no attempt is due (B18)", last: at(common.StatusPendingUpgrade, want, time.Hour), failure: unread(blocked(abi.ReasonForbidden), 2*time.Hour), step: stepUnlock},

		"PendingInstallCutOff":    {reason: "what we began and do not run is dead at once", last: at(common.StatusPendingInstall, want, time.Second), action: action(time.Second), step: stepUnlock},
		"PendingUpgradeCutOff":    {reason: "what we began and do not run is dead at once", last: at(common.StatusPendingUpgrade, want, time.Second), action: action(time.Second), step: stepUnlock},
		"PendingCutOffOtherwise":  {reason: "also if something else is asked for by now", last: at(common.StatusPendingUpgrade, older, time.Second), action: action(time.Second), step: stepUnlock},
		"PendingCutOffThisMoment": {reason: "it need not be old", last: at(common.StatusPendingUpgrade, want, 0), action: action(0), step: stepUnlock},
		"PendingOfAPerson":        {reason: "another revision than ours may be a person's, whose helm carries our labels over", last: at(common.StatusPendingUpgrade, want, time.Second), action: newBegun(stepUpgrade, 2, now.Add(-time.Second)), step: stepAnswer, class: abi.Yield, code: abi.ReasonApplicationLocked},
		"PendingOfAPersonNext":    {reason: "we died before our revision was stored, and a person made one of the same number", last: at(common.StatusPendingUpgrade, want, time.Second), action: action(time.Minute), step: stepAnswer, class: abi.Yield, code: abi.ReasonApplicationLocked},
		"PendingRollbackOfPerson": {reason: "we never roll back", last: at(common.StatusPendingRollback, want, time.Second), action: action(time.Minute), step: stepAnswer, class: abi.Yield, code: abi.ReasonApplicationLocked},
		"PendingOfAPersonStale":   {reason: "a person has the time that a hook may take", last: at(common.StatusPendingUpgrade, want, 5*time.Minute), action: action(time.Hour), step: stepUnlock},
		"PendingCutOffForeign":    {reason: "ownership comes before everything", last: at(common.StatusPendingUpgrade, foreign, time.Second), action: action(time.Second), step: stepAnswer, class: abi.UserActionRequired, code: abi.ReasonApplicationOwned},
		"PendingUnlockFailed":     {reason: "what failed since the lock was put on is not repeated without a pause", last: at(common.StatusPendingUpgrade, want, time.Minute), action: action(time.Minute), failure: failed(passing(abi.ReasonRemoteUnreachable), time.Second), step: stepAnswer, class: abi.Yield, code: abi.ReasonRemoteUnreachable},
		"PendingUnlockDue":        {reason: "and is repeated after it", last: at(common.StatusPendingUpgrade, want, time.Minute), action: action(time.Minute), failure: failed(passing(abi.ReasonRemoteUnreachable), 2*time.Second), step: stepUnlock},
		"CutOffBeforeTheFirst":    {reason: "nothing was stored: it begins anew", action: newBegun(stepInstall, 1, now), step: stepInstall},
		"CutOffBeforeTheNext":     {reason: "nothing was stored: it begins anew", last: at(common.StatusDeployed, older, time.Hour), action: newBegun(stepUpgrade, 4, now), step: stepUpgrade},
		"CutOffAfterTheLast":      {reason: "only the record was not cleared, which a look at health mends", last: at(common.StatusDeployed, want, time.Second), action: action(time.Second), step: stepHealth},
		"CutOffWhileFailing":      {reason: "what Helm marked as failed is upgraded", last: at(common.StatusFailed, want, time.Second), action: action(time.Second), step: stepUpgrade},
		"UninstallCutOff":         {reason: "an uninstall is finished at once, whoever began it", last: at(common.StatusUninstalling, want, 0), action: action(0), step: stepFinishUninstall},
		"Uninstalling":            {reason: "is finished first (B15)", last: at(common.StatusUninstalling, want, 0), step: stepFinishUninstall},
		"Uninstalled":             {reason: "needs Replace", last: at(common.StatusUninstalled, want, 0), step: stepReplace},
		"Unknown":                 {reason: "needs a person", last: at(common.StatusUnknown, want, 0), step: stepAnswer, class: abi.UserActionRequired, code: abi.ReasonApplicationFailed},
		"Invented":                {reason: "so does a status of a later Helm", last: at("levitating", want, 0), step: stepAnswer, class: abi.UserActionRequired, code: abi.ReasonApplicationFailed},

		"JustFailed":          {reason: "a pause comes first", failure: failed(passing(abi.ReasonChartUnavailable), time.Second), step: stepAnswer, class: abi.Yield, code: abi.ReasonChartUnavailable},
		"PauseOver":           {reason: "then it is tried again (B21)", failure: failed(passing(abi.ReasonChartUnavailable), 2*time.Second), step: stepInstall},
		"PauseOverButUnread":  {reason: "the result is kept until somebody has read it", failure: unread(hopeless(abi.ReasonRenderFailed), time.Hour), step: stepAnswer, class: abi.Terminal, code: abi.ReasonRenderFailed},
		"TerminalHeld":        {reason: "Terminal is said", failure: failed(hopeless(abi.ReasonChartNotFound), time.Second), last: at(common.StatusDeployed, older, 0), step: stepAnswer, class: abi.Terminal, code: abi.ReasonChartNotFound},
		"TerminalFixed":       {reason: "a changed question is tried at once", failure: other(hopeless(abi.ReasonChartNotFound)), last: at(common.StatusFailed, older, 0), step: stepUpgrade},
		"BlockedHeld":         {reason: "so is what needs a person", failure: failed(blocked(abi.ReasonForbidden), time.Second), step: stepAnswer, class: abi.UserActionRequired, code: abi.ReasonForbidden},
		"FailureOfNoInterest": {reason: "what is as asked needs no attempt", failure: failed(hopeless(abi.ReasonChartNotFound), 0), last: at(common.StatusDeployed, want, 0), step: stepHealth},
		"HealthyForeignFails": {reason: "ownership comes before everything", failure: failed(hopeless(abi.ReasonChartNotFound), 0), last: at(common.StatusDeployed, foreign, 0), step: stepAnswer, class: abi.UserActionRequired, code: abi.ReasonApplicationOwned},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := decide(situation{last: tc.last, want: want, action: tc.action, failure: tc.failure, now: now, lock: 5 * time.Minute})
			require.Equal(t, tc.step, got.step, tc.reason)
			if tc.step != stepAnswer {
				require.Nil(t, got.err, tc.reason)
				return
			}
			require.Equal(t, tc.class, got.err.Disposition(), tc.reason)
			require.Equal(t, tc.code, got.err.Reason(), tc.reason)
			require.Equal(t, tc.class == abi.Yield, got.err.RetryAfter() > 0, "a yield says when to look again")
		})
	}
}

func TestBegunMadeOneRevision(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC)
	made := func(number int, at time.Time) *revision { return &revision{number: number, updated: at} }
	b := newBegun(stepInstall, 7, at.In(time.FixedZone("elsewhere", 3600)))
	require.True(t, b.made(made(7, at)), "in whatever zone it was recorded")
	require.False(t, b.made(made(8, at)))
	require.False(t, b.made(made(7, at.Add(time.Nanosecond))))
	require.False(t, b.made(nil))
	require.False(t, (*begun)(nil).made(made(7, at)))
	require.False(t, (*begun)(nil).made(nil))
}

func TestFailuresInARow(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const deadline = 10 * time.Minute
	var f *failure
	require.Nil(t, f.holds("d", start), "nothing failed")

	now := start
	var pauses []time.Duration
	for range 8 {
		f = f.next("d", passing(abi.ReasonRemoteUnreachable), "no answer", now, deadline)
		f.unread = false
		pauses = append(pauses, f.pause())
		require.Nil(t, f.holds("other", now), "another question is not held")
		require.NotNil(t, f.holds("d", now.Add(f.pause()-time.Millisecond)))
		require.Nil(t, f.holds("d", now.Add(f.pause())))
		now = now.Add(f.pause())
	}
	require.Equal(t, []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, time.Minute, time.Minute, time.Minute}, pauses)

	f = f.next("d", passing(abi.ReasonRemoteUnreachable), "no answer", start.Add(deadline), deadline)
	err := f.holds("d", start.Add(deadline))
	require.Equal(t, abi.UserActionRequired, err.Disposition(), "every yield has a deadline")
	require.Equal(t, abi.ReasonRemoteUnreachable, err.Reason())
	require.Equal(t, "no answer", err.Why(), "with the last message")
	require.Equal(t, blockedPause, f.pause(), "and is still tried, more rarely")

	fresh := f.next("e", passing(abi.ReasonRemoteUnreachable), "", now, deadline)
	require.Equal(t, 1, fresh.count, "another question starts a row of its own")

	kinds := (*failure)(nil).next("d", classify(errNoMatch(), stageApplying), "", start, deadline)
	require.Equal(t, abi.Yield, kinds.holds("d", start).Disposition())
	kinds = kinds.next("d", classify(errNoMatch(), stageApplying), "", start.Add(deadline), deadline)
	require.Equal(t, abi.Terminal, kinds.holds("d", start.Add(deadline)).Disposition(), "a kind that does not come is a fault of the chart")
}
