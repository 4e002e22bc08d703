package host_test

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

const (
	// fairChanges is how many changes a latency is made of.
	fairChanges = 5
	// unfairStacks is how many Stacks misbehave in each of the four ways: together as many as
	// passes run at once, and more than there are workers.
	unfairStacks = 8
	// fairRatio and fairFloor bound what may become of the latency. A change takes some 0.1 s
	// alone and up to 1.6 s beside the others on a busy machine. A call that hangs lasts until
	// it has used its 10 s of processor time, or for 20 s: whoever waits for it is far over.
	fairRatio = 8
	fairFloor = 5 * time.Second
)

// TestFairness: Stacks whose module hangs until its deadline, asks to be called again at
// once or breaks off, and Stacks whose remote says nothing, do not hold up the others,
// however many there are.
func TestFairness(t *testing.T) {
	r := needRig(t)
	namespace := r.tenant(t, "fair")
	r.guestModule(t, "fair", "")
	r.guestModule(t, "unfair-hangs", "limits: {timeout: 20s}")
	r.guestModule(t, "unfair-breaks", "limits: {memory: 64Mi}")
	r.guestModule(t, "unfair-hurries", "")
	key := r.stack(t, namespace, "behaves", fairStack(0))
	r.awaitStack(t, key, "True/Provisioned")
	calm := r.changesOf(t, key)

	r.secret(t, namespace, "silent", "value", silentKubeconfig(t, r.home.Kubeconfig))
	for i := range unfairStacks {
		r.stack(t, namespace, fmt.Sprintf("hangs-%d", i), hostileStack("unfair-hangs", "loop"))
		r.stack(t, namespace, fmt.Sprintf("breaks-%d", i), hostileStack("unfair-breaks", "allocate"))
		r.stack(t, namespace, fmt.Sprintf("hurries-%d", i), hostileStack("unfair-hurries", "hurry"))
		// Its end is declared beforehand: it counts when the Stack is deleted.
		silent := &v1alpha1.Stack{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprintf("silent-%d", i), Annotations: map[string]string{v1alpha1.GoneAnnotation: "away"},
		}}
		decode(t, silentStack, &silent.Spec)
		r.create(t, silent)
	}
	r.awaitBusy(t, namespace)
	disturbed := r.changesOf(t, key)
	t.Logf("a change took %s, and %s while others misbehaved", calm, disturbed)
	// All at once: one that hangs keeps its deletion waiting until its call is over.
	require.NoError(t, r.admin.DeleteAllOf(t.Context(), &v1alpha1.Stack{}, client.InNamespace(namespace)))
	require.Less(t, disturbed, max(fairRatio*calm, fairFloor), "undisturbed it took %s", calm)
}

func fairStack(revision int) string {
	return strings.Replace(hostileStack("fair", "ok"), "behaviour: ok", fmt.Sprintf("behaviour: ok, revision: %d", revision), 1)
}

const silentStack = `
serviceAccountName: builder
remotes:
  - {name: away, owned: true, teardown: Discard, kubeconfigSecret: {name: silent}}
root: there
provisioners:
  - {name: there, remotecluster: {remote: away, child: leaf}}
  - {name: leaf, module: {ref: fair, config: {behaviour: ok}}}
`

// changesOf changes a Stack a few times, one change after the other, and returns the
// median of how long it took until it was available again.
func (r *rig) changesOf(t *testing.T, key client.ObjectKey) time.Duration {
	t.Helper()
	took := make([]time.Duration, 0, fairChanges)
	for i := range fairChanges {
		began := time.Now()
		// The revision is new to the memo of answers.
		r.edit(t, key, fairStack(int(began.UnixNano()%1_000_000_000)+i))
		r.awaitStack(t, key, "True/Provisioned")
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// awaitBusy waits until a Stack has been sent away from the module that hangs: then as
// many calls of it hang as may.
func (r *rig) awaitBusy(t *testing.T, namespace string) {
	t.Helper()
	eventually(t, "a Stack that is sent away", func() (bool, string) {
		var seen []string
		for i := range unfairStacks {
			for _, n := range r.get(t, client.ObjectKey{Namespace: namespace, Name: fmt.Sprintf("hangs-%d", i)}).Status.Nodes {
				seen = append(seen, n.Reason)
			}
		}
		return slices.Contains(seen, "module_busy"), strings.Join(seen, " ")
	})
}

// silentKubeconfig is that of a server that accepts connections and never says a word.
func silentKubeconfig(t *testing.T, like []byte) []byte {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	config, err := clientcmd.Load(like)
	require.NoError(t, err)
	for _, cluster := range config.Clusters {
		cluster.Server = "https://" + listener.Addr().String()
	}
	raw, err := clientcmd.Write(*config)
	require.NoError(t, err)
	return raw
}
