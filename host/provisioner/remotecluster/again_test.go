package remotecluster_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/provisionertest"
	"github.com/caisson-dev/caisson/host/provisioner/remotecluster"
	"github.com/caisson-dev/caisson/host/provisioner/serial"
	"github.com/caisson-dev/caisson/host/scope"
)

func TestSilenceSaysWhenToAskAgain(t *testing.T) {
	for name, test := range map[string]struct {
		reason string
		again  time.Duration
		want   time.Duration
	}{
		"Rests":   {"a pass before that would hear the same", 8 * time.Second, 8 * time.Second},
		"IsDue":   {"the answer ran out while the pass went on", 0, time.Second},
		"NearDue": {"passes do not follow each other at once", time.Millisecond, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(ready())
			w.clients.unreachable["workload.example"] = errors.New("no route")
			w.clients.again["workload.example"] = test.again
			bracket := remotecluster.New(w.options(remotecluster.Owned))
			tree := remotecluster.Around(serial.New("s", bracket.On("a", w.leaf("cni")), bracket.On("b", w.leaf("app"))), bracket)
			err := tree.Provision(home(t))
			requireFinding(t, yields(abi.ReasonRemoteUnreachable), err)
			require.Equal(t, test.want, provisioner.OutcomeOf(err).RetryAfter, test.reason)
			require.Empty(t, w.trace.Calls())
		})
	}
}

func TestOnlySilenceSaysWhenToAskAgain(t *testing.T) {
	w := newWorld(ready())
	w.clients.again["workload.example"] = 8 * time.Second
	w.clients.unreachable["workload.example"] = scope.ErrUnauthorized
	bracket := remotecluster.New(w.options(remotecluster.Owned))
	err := remotecluster.Around(bracket.On("a", w.leaf("cni")), bracket).Provision(home(t))
	requireFinding(t, retries(abi.ReasonForbidden), err)
	require.Zero(t, provisioner.OutcomeOf(err).RetryAfter, "what fails is repeated ever more rarely")
}

func TestSilenceInADeletionSaysWhenToAskAgain(t *testing.T) {
	for name, test := range map[string]struct {
		reason string
		answer answer
		want   time.Duration
	}{
		"Both":   {"the first way that may be tried again counts", ready(), 4 * time.Second},
		"Stored": {"the other one waits for an event", pending(), 12 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(test.answer)
			w.stored("https://stored.example")
			for host, again := range map[string]time.Duration{"workload.example": 4 * time.Second, "stored.example": 12 * time.Second} {
				w.clients.unreachable[host] = errors.New("no route")
				w.clients.again[host] = again
			}
			options := w.options(remotecluster.Owned)
			options.Deletion = deletion(0, time.Hour)
			bracket := remotecluster.New(options)
			leaf := provisionertest.New("cni", nil).Down(provisioner.Yield(abi.ReasonApplicationDeleting, ""))
			err := remotecluster.Around(bracket.On("a", leaf), bracket).Deprovision(home(t))
			requireFinding(t, yields(abi.ReasonRemoteUnreachable), err)
			require.Equal(t, test.want, provisioner.OutcomeOf(err).RetryAfter, test.reason)
			require.Equal(t, waitingSentence, provisioner.OutcomeOf(err).Headline.Sentence)
		})
	}
}

// TestRecoveryIsSeenAtTheHint follows the hints with the real cache: every pass asks the
// cluster anew, and the one after the recovery finds it.
func TestRecoveryIsSeenAtTheHint(t *testing.T) {
	config, down := flaky(t)
	clock := &moment{}
	clock.to(0)
	w := newWorld(answer{config: config})
	options := w.options(remotecluster.Owned)
	options.Clients = scope.NewClientCache(scope.ClientCacheOptions{Now: clock.Now})
	bracket := remotecluster.New(options)
	tree := remotecluster.Around(bracket.On("a", provisionertest.New("cni", nil)), bracket)
	var at time.Duration
	var hints []time.Duration
	down.Store(true)
	for range 5 {
		err := tree.Provision(home(t))
		requireFinding(t, yields(abi.ReasonRemoteUnreachable), err)
		hint := provisioner.OutcomeOf(err).RetryAfter
		hints = append(hints, hint)
		at += hint
		clock.to(at)
	}
	require.Equal(t, []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 12 * time.Second, 12 * time.Second}, hints)
	down.Store(false)
	require.NoError(t, tree.Provision(home(t)))
}
