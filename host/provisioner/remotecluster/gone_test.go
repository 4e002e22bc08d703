package remotecluster_test

import (
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/provisionertest"
	"github.com/caisson-dev/caisson/host/provisioner/remotecluster"
	"github.com/caisson-dev/caisson/host/scope"
)

const waitingSentence = "It does not answer."

// deletionStart is when the deletions of these tests begin.
func deletionStart() time.Time { return time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC) }

// deletion returns one that began so long ago.
func deletion(ago, grace time.Duration) *remotecluster.Deletion {
	return &remotecluster.Deletion{
		Since: deletionStart(), Now: func() time.Time { return deletionStart().Add(ago) }, Grace: grace, Waiting: waitingSentence,
	}
}

func declared() *remotecluster.Deletion {
	d := deletion(0, 0)
	d.Declared = true
	return d
}

// bracket returns a bracket for a deletion, with one leaf that waits unless it is on a
// cluster that is ready or gone.
func (w *world) deleting(ownership remotecluster.Ownership, d *remotecluster.Deletion) (*remotecluster.Bracket, provisioner.Provisioner) {
	options := w.options(ownership)
	options.Deletion = d
	bracket := remotecluster.New(options)
	return bracket, remotecluster.Around(bracket.On("a", w.leaf("cni")), bracket)
}

func TestCase070Declared(t *testing.T) {
	for name, answer := range map[string]answer{"Pending": pending(), "Answers": ready(), "Malformed": {config: kubeconfig("")}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(answer)
			w.stored("https://stored.example")
			bracket, tree := w.deleting(remotecluster.Owned, declared())
			require.NoError(t, tree.Deprovision(home(t)))
			require.Equal(t, []string{"D cni" + goneLine, "deregister workload"}, w.trace.Calls(), "the child runs, and knows")
			require.Zero(t, w.clients.probes, "a human's word is not questioned")
			require.Empty(t, w.resolver.scopes)
			require.Equal(t, remotecluster.EvidenceDeclared, bracket.Evidence())
			require.Empty(t, w.driver.registrations)
		})
	}
}

func TestCase070External(t *testing.T) {
	w := newWorld(gone())
	bracket, tree := w.deleting(remotecluster.External, deletion(0, 0))
	require.NoError(t, tree.Deprovision(home(t)))
	require.Equal(t, []string{"D cni" + goneLine}, w.trace.Calls(), "what was never registered is not deregistered")
	require.Equal(t, remotecluster.EvidenceResolved, bracket.Evidence(), "the resolver knows by itself")
}

func TestCase070OnlyTheLeftoversKeepItRegistered(t *testing.T) {
	w := newWorld(pending())
	w.driver.install("workload", "cni")
	_, tree := w.deleting(remotecluster.Owned, declared())
	requireFinding(t, yields(abi.ReasonRemoteInUse), tree.Deprovision(home(t)))
	w.driver.removeAll()
	require.NoError(t, tree.Deprovision(home(t)))
}

func TestCase071OuterDeclared(t *testing.T) {
	for name, test := range map[string]struct {
		reason   string
		inner    *remotecluster.Deletion
		reach    error
		calls    []string
		evidence remotecluster.Evidence
	}{
		"InnerLives": {
			"an inner cluster that answers is cleaned up", deletion(0, 0), nil,
			[]string{"D app on inner: ready, inner.example:443, Drain, config", "deregister inner", "deregister workload"}, remotecluster.EvidenceNone,
		},
		"InnerDied": {
			"one that does not went with the outer one", deletion(0, 0), errors.New("no route"),
			[]string{"D app on inner: gone, :0, Drain, no config", "deregister inner", "deregister workload"}, remotecluster.EvidenceEnclosing,
		},
		"InnerDeclaredToo": {
			"a human's word comes first, also for one that answers", declared(), nil,
			[]string{"D app on inner: gone, :0, Drain, no config", "deregister inner", "deregister workload"}, remotecluster.EvidenceDeclared,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(pending())
			w.clients.unreachable["inner.example"] = test.reach
			w.driver.registrations[identifier("inner").Hash()] = kubeconfig("https://inner.example")
			options := w.options(remotecluster.Owned)
			options.Nested = []scope.ResourceIdentifier{identifier("inner")}
			options.Deletion = declared()
			outer := remotecluster.New(options)
			options = w.options(remotecluster.Owned)
			options.Remote = &resolver{name: "inner", answers: []answer{pending()}}
			options.Deletion = test.inner
			inner := remotecluster.New(options)
			tree := remotecluster.Around(outer.On("o", inner.On("i", w.leaf("app"))), outer, inner)
			require.NoError(t, tree.Deprovision(home(t)))
			require.Equal(t, test.calls, w.trace.Calls(), test.reason)
			require.Equal(t, remotecluster.EvidenceDeclared, outer.Evidence())
			require.Equal(t, test.evidence, inner.Evidence(), test.reason)
			require.Empty(t, w.driver.registrations)
		})
	}
}

func TestCase072InADeletion(t *testing.T) {
	w := newWorld(pending())
	bracket, tree := w.deleting(remotecluster.Owned, deletion(time.Hour, time.Minute))
	require.NoError(t, tree.Deprovision(home(t)))
	require.Equal(t, []string{"deregister workload"}, w.trace.Calls(), "nothing was ever there")
	require.Equal(t, remotecluster.EvidenceNone, bracket.Evidence(), "so nothing was given up")
}

func TestCase073Grace(t *testing.T) {
	const grace = 15 * time.Minute
	down := errors.New("no route")
	unreachable, forbidden := map[string]error{"stored.example": down, "workload.example": down}, map[string]error{"stored.example": scope.ErrUnauthorized}
	waits, over := yields(abi.ReasonRemoteUnreachable), finding{}
	for name, test := range map[string]struct {
		reason string
		answer answer
		reach  map[string]error
		ago    time.Duration
		grace  time.Duration
		want   finding
	}{
		"Before":        {"it may come back", pending(), unreachable, grace - time.Second, grace, waits},
		"Over":          {"the grace is over", pending(), unreachable, grace, grace, over},
		"Moved":         {"neither the old nor the new address answers", ready(), unreachable, grace, grace, over},
		"Never":         {"without a grace it is waited for", pending(), unreachable, 1000 * time.Hour, 0, waits},
		"Negative":      {"likewise", pending(), unreachable, 1000 * time.Hour, -grace, waits},
		"Future":        {"a clock that is behind is no evidence", pending(), unreachable, -time.Hour, grace, waits},
		"Refused":       {"who refuses a credential is there", pending(), forbidden, time.Hour, grace, retries(abi.ReasonForbidden)},
		"Malformed":     {"a kubeconfig that cannot be read says nothing of the cluster", answer{config: kubeconfig("")}, unreachable, time.Hour, grace, retries(abi.ReasonInvalidKubeconfig)},
		"MayNotRead":    {"nor does a Secret that may not be read", answer{err: provisioner.UserActionRequired(abi.ReasonForbidden, "")}, unreachable, time.Hour, grace, retries(abi.ReasonForbidden)},
		"HomeIsFailing": {"nor does an API server at home that fails", answer{err: errors.New("etcd timeout")}, unreachable, time.Hour, grace, retries(abi.ReasonUnexpected)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(test.answer)
			w.stored("https://stored.example")
			w.clients.unreachable = test.reach
			options := w.options(remotecluster.Owned)
			options.Deletion = deletion(test.ago, test.grace)
			bracket := remotecluster.New(options)
			leaf := provisionertest.New("cni", nil).Down(provisioner.Yield(abi.ReasonApplicationDeleting, ""))
			if test.want == over {
				leaf = w.leaf("cni")
			}
			err := remotecluster.Around(bracket.On("a", leaf), bracket).Deprovision(home(t))
			requireFinding(t, test.want, err)
			if test.want == over {
				require.Equal(t, []string{"D cni" + goneLine, "deregister workload"}, w.trace.Calls(), test.reason)
				require.Equal(t, remotecluster.EvidenceSilent, bracket.Evidence(), test.reason)
				return
			}
			require.Equal(t, remotecluster.EvidenceNone, bracket.Evidence(), test.reason)
			require.NotNil(t, w.driver.registered("workload"), test.reason)
			if test.want == waits {
				require.Equal(t, waitingSentence, provisioner.OutcomeOf(err).Headline.Sentence, "a human reads what can be done")
			}
		})
	}
}

func TestCase073GraceWithoutCredentials(t *testing.T) {
	for name, test := range map[string]struct {
		reason string
		ago    time.Duration
		want   finding
		calls  []string
	}{
		"Before": {"the kubeconfig may come back", time.Minute, finding{}, []string{"D cni" + pendingLine}},
		"Over":   {"nobody knows a way any more", time.Hour, finding{}, []string{"D cni" + goneLine}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(pending())
			w.driver.install("workload", "cni")
			bracket, tree := w.deleting(remotecluster.External, deletion(test.ago, 15*time.Minute))
			requireFinding(t, test.want, tree.Deprovision(home(t)))
			require.Equal(t, test.calls, w.trace.Calls(), test.reason)
			require.Equal(t, name == "Over", bracket.Evidence() == remotecluster.EvidenceSilent, test.reason)
		})
	}
}

func TestCase073OnlyInADeletion(t *testing.T) {
	w := newWorld(pending())
	w.stored("https://stored.example")
	w.clients.unreachable["stored.example"] = errors.New("no route")
	bracket, tree := w.deleting(remotecluster.Owned, nil)
	require.NoError(t, tree.Deprovision(home(t)))
	require.Contains(t, w.trace.Calls(), "D cni"+pendingLine, "without a deletion nothing is given up, however long it is silent")
	require.Equal(t, remotecluster.EvidenceNone, bracket.Evidence())
}

func TestCase073SentenceByDefault(t *testing.T) {
	w := newWorld(pending())
	w.stored("https://stored.example")
	w.clients.unreachable["stored.example"] = errors.New("no route")
	options := w.options(remotecluster.Owned)
	options.Deletion = deletion(0, 0)
	options.Deletion.Waiting = ""
	bracket := remotecluster.New(options)
	err := bracket.On("a", provisionertest.New("cni", nil).Down(provisioner.Yield(abi.ReasonApplicationDeleting, ""))).Deprovision(home(t))
	want, _ := abi.HostSentence(abi.ReasonRemoteUnreachable)
	require.Equal(t, want, provisioner.OutcomeOf(err).Headline.Sentence)
}

func TestEvidenceBelongsToAPass(t *testing.T) {
	w := newWorld(gone(), ready())
	bracket, tree := w.deleting(remotecluster.Owned, deletion(0, 0))
	require.NoError(t, tree.Deprovision(home(t)))
	require.Equal(t, remotecluster.EvidenceResolved, bracket.Evidence(), "it can be read after the pass")
	require.NoError(t, tree.Deprovision(home(t)))
	require.Equal(t, remotecluster.EvidenceNone, bracket.Evidence(), "the next one finds out for itself")
}

// moment is a clock that stands still until it is moved.
type moment struct {
	mu  sync.Mutex
	now time.Time
}

func (m *moment) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

func (m *moment) to(sinceDeletion time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = deletionStart().Add(sinceDeletion)
}

// flaky is a real API server, as far as the probe is concerned, that can be switched off.
func flaky(t *testing.T) (server *clientcmdapi.Config, down *atomic.Bool) {
	t.Helper()
	down = &atomic.Bool{}
	api := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte(`{"gitVersion":"v1.37.2"}`))
	}))
	t.Cleanup(api.Close)
	config := kubeconfig(api.URL)
	config.Clusters["c"].CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw})
	return config, down
}

func TestCase073ABlipIsNoEvidence(t *testing.T) {
	const grace = 15 * time.Minute
	config, down := flaky(t)
	clock := &moment{}
	w := newWorld(answer{config: config})
	w.driver.install("workload", "cni") // so that it is in use
	state := func(cache *scope.ClientCache, at time.Duration) remotecluster.Evidence {
		t.Helper()
		clock.to(at)
		options := w.options(remotecluster.Owned)
		options.Clients = cache
		options.Deletion = &remotecluster.Deletion{Since: deletionStart(), Now: clock.Now, Grace: grace}
		bracket := remotecluster.New(options)
		waits := provisionertest.New("cni", nil).Down(provisioner.Yield(abi.ReasonApplicationDeleting, ""))
		require.Error(t, remotecluster.Around(bracket.On("a", waits), bracket).Deprovision(home(t)))
		return bracket.Evidence()
	}
	cache := scope.NewClientCache(scope.ClientCacheOptions{Now: clock.Now, IdleTimeout: time.Hour})
	require.Equal(t, remotecluster.EvidenceNone, state(cache, 0))
	require.Equal(t, remotecluster.EvidenceNone, state(cache, 20*time.Minute), "a drain that takes its time")
	down.Store(true)
	require.Equal(t, remotecluster.EvidenceNone, state(cache, 21*time.Minute), "the grace runs from the last answer")
	require.Equal(t, remotecluster.EvidenceNone, state(cache, 34*time.Minute))
	require.Equal(t, remotecluster.EvidenceSilent, state(cache, 35*time.Minute))

	restarted := scope.NewClientCache(scope.ClientCacheOptions{Now: clock.Now, IdleTimeout: time.Hour})
	require.Equal(t, remotecluster.EvidenceNone, state(restarted, 36*time.Minute), "a process that has just started has seen nothing yet")
	require.Equal(t, remotecluster.EvidenceNone, state(restarted, 36*time.Minute+50*time.Second))
	require.Equal(t, remotecluster.EvidenceSilent, state(restarted, 37*time.Minute), "but it does not begin anew")
}
