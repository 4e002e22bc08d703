package host_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// parkedStacks is how many Stacks an operator finds parked when it is restarted.
const parkedStacks = 1000

// TestCase104RestartWithParkedStacks: an operator that is restarted knows from what is
// written that a thousand Stacks wait for somebody. It calls no module, writes nothing but
// its lease, and asks nothing that grows with the Stacks; and it still sees who acts.
func TestCase104RestartWithParkedStacks(t *testing.T) {
	site := newSite(t, needRig(t))
	crowd, one := site.tenant(t, "crowd"), site.tenant(t, "one")
	cacheDir := t.TempDir()
	first := site.embed(t, cacheDir)
	site.guestModule(t, "reads-secret", "")

	began := time.Now()
	keys := site.crowd(t, crowd, parkedStacks-1)
	keys = append(keys, site.crowd(t, one, 1)...)
	site.awaitParked(t, keys)
	first.awaitQuiet(t)
	calls := sum(t, first.collectors, "caisson_module_calls_total", "", "")
	require.GreaterOrEqual(t, calls, len(keys), "each of them has asked its module, and the counter sees it")
	t.Logf("%d Stacks parked after %s", len(keys), time.Since(began).Round(time.Millisecond))
	first.stop()
	before := site.versions(t)
	require.Len(t, before, len(keys))

	began = time.Now()
	second := site.embed(t, cacheDir)
	eventually(t, "a look at every Stack", func() (bool, string) {
		looked := second.log.count(`"because"="parked, and nothing changed"`)
		return looked >= len(keys), fmt.Sprint(looked)
	})
	second.awaitQuiet(t)
	t.Logf("the restarted operator has looked at all of them after %s", time.Since(began).Round(time.Millisecond))
	require.Zero(t, sum(t, second.collectors, "caisson_module_calls_total", "", ""), "no module is called")
	require.Zero(t, sum(t, second.collectors, "caisson_passes_total", "", ""), "no pass is run")
	require.Equal(t, before, site.versions(t), "nothing is written")
	asked := byWord(second.requests.since(0))
	for what, times := range asked {
		method, path, _ := strings.Cut(what, " ")
		lease := strings.HasPrefix(path, "/apis/coordination.k8s.io/")
		require.True(t, method == "GET" || lease || ownEvent(path), "a write: %s, %d times", what, times)
		require.NotContains(t, path, crowd, "a read of a Stack's own")
		require.True(t, lease || path == "discovery" || times <= 3, "%s was asked %d times", what, times)
	}
	t.Logf("requests but watches of the restarted operator: %v", asked)

	site.secret(t, one, "token", "key", []byte("ohnomysecret"))
	stack := site.awaitStack(t, keys[len(keys)-1], "True/Provisioned")
	require.Nil(t, stack.Status.Parked)
	require.Equal(t, 1, sum(t, second.collectors, "caisson_module_calls_total", "", ""), "and nobody else's module is called for it")
}

// ownEvent is an event of the leader election, about the lease.
func ownEvent(path string) bool {
	return path == "/api/v1/namespaces/"+operatorNamespace+"/events" || path == "/apis/events.k8s.io/v1/namespaces/"+operatorNamespace+"/events"
}

// crowd creates Stacks that all wait for one Secret. They end with their control plane.
func (r *rig) crowd(t *testing.T, namespace string, n int) []client.ObjectKey {
	t.Helper()
	keys := make([]client.ObjectKey, n)
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(16)
	var spec v1alpha1.StackSpec
	decode(t, hostileStack("reads-secret", "secret"), &spec)
	for i := range keys {
		group.Go(func() error {
			stack := &v1alpha1.Stack{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("web-%04d", i)}, Spec: *spec.DeepCopy()}
			keys[i] = client.ObjectKeyFromObject(stack)
			return r.admin.Create(ctx, stack)
		})
	}
	require.NoError(t, group.Wait())
	return keys
}

// awaitParked waits until all of some Stacks are parked on the Secret that is missing, for
// as long as more and more of them are.
func (r *rig) awaitParked(t *testing.T, keys []client.ObjectKey) {
	t.Helper()
	for parked := 0; parked < len(keys); {
		eventually(t, "another one parked", func() (bool, string) {
			before := parked
			parked = 0
			for _, stack := range r.stacks(t) {
				if p := stack.Status.Parked; p != nil && p.Reason == abi.ReasonSecretMissing {
					parked++
				}
			}
			return parked > before, fmt.Sprintf("%d of %d", parked, len(keys))
		})
	}
}

func (r *rig) stacks(t *testing.T) []v1alpha1.Stack {
	t.Helper()
	list := &v1alpha1.StackList{}
	require.NoError(t, r.admin.List(t.Context(), list))
	return list.Items
}

// versions are the resource versions of all Stacks.
func (r *rig) versions(t *testing.T) map[string]string {
	t.Helper()
	versions := map[string]string{}
	for _, stack := range r.stacks(t) {
		versions[stack.Namespace+"/"+stack.Name] = stack.ResourceVersion
	}
	return versions
}

// awaitQuiet waits until an operator has nothing more to ask but its lease.
func (e *embedded) awaitQuiet(t *testing.T) {
	t.Helper()
	count := func() int {
		n := 0
		for _, request := range e.requests.since(0) {
			if !strings.Contains(request, "/apis/coordination.k8s.io/") {
				n++
			}
		}
		return n + e.log.count(`"because"`)
	}
	last, since := count(), time.Now()
	eventually(t, "rest", func() (bool, string) {
		if now := count(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > 2*time.Second, fmt.Sprint(last)
	})
}
