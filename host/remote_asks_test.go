package host_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/internal/testenv"
)

// asksStack has a module on a remote, and one on a remote within it.
const asksStack = `
serviceAccountName: builder
remotes:
  - {name: workload, kubeconfigSecret: {name: workload-kubeconfig}}
  - {name: inner, within: workload, kubeconfigSecret: {name: inner-kubeconfig}}
root: all
provisioners:
  - {name: all, remotecluster: {remote: workload, child: both}}
  - {name: both, serial: {children: [outer, on-inner]}}
  - {name: outer, module: {ref: MODULE, config: {fact: outer, probes: PROBES}}}
  - {name: on-inner, remotecluster: {remote: inner, child: deep}}
  - {name: deep, module: {ref: MODULE, config: {fact: deep, probes: PROBES}}}
`

// remoteAsks: on three control planes, home is the one with the Stack, as its tenant, and
// current the one that the node is on, however deep. Without a grant of home, or without
// rights there, home tells nothing and current all the same.
func remoteAsks(t *testing.T, r *rig, third *testenv.Cluster, inner client.Client) {
	who := func(there client.Client, namespace, at string) {
		require.NoError(t, there.Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "who"}, Data: map[string]string{"at": at},
		}))
	}
	for name, c := range map[string]struct {
		scopes  string
		empower bool
		home    string
	}{
		"asks":           {scopes: "[current, home]", empower: true, home: `"at":"home"`},
		"asks-ungranted": {scopes: "[current]", empower: true, home: `"code":"denied"`},
		"asks-forbidden": {scopes: "[current, home]", home: `"code":"forbidden"`},
	} {
		t.Run(name, func(t *testing.T) {
			l := r.life(t, name)
			if c.empower {
				r.empower(t, l.namespace)
			}
			for _, there := range []client.Client{r.workloadAdmin, inner} {
				require.NoError(t, there.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: l.namespace}}))
			}
			require.NoError(t, r.workloadAdmin.Create(t.Context(), &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: "inner-kubeconfig"}, Data: map[string][]byte{"value": third.Kubeconfig},
			}))
			who(r.admin, l.namespace, "home")
			who(r.workloadAdmin, l.namespace, "workload")
			who(inner, l.namespace, "inner")
			spec := strings.ReplaceAll(probesSpec, "SECRETS", "")
			r.module(t, name, strings.ReplaceAll(spec, "[current, home]", c.scopes))
			r.awaitModule(t, name, "True/Loaded")
			var probes []string
			for _, scope := range []string{"home", "current"} {
				probes = append(probes, `{name: `+scope+`, function: kube_get, request: {scope: `+scope+`, apiVersion: v1, kind: ConfigMap, namespace: `+l.namespace+`, name: who}}`)
			}
			key, _ := l.start(t, "web", strings.NewReplacer("MODULE", name, "PROBES", "["+strings.Join(probes, ", ")+"]").Replace(asksStack))
			stack := r.awaitStack(t, key, "True/Provisioned")
			for node, current := range map[string]string{"outer": `"at":"workload"`, "deep": `"at":"inner"`} {
				var told map[string]string
				require.NoError(t, json.Unmarshal(stack.Status.Facts[node].Raw, &told))
				require.Contains(t, told["home"], c.home, node)
				require.Contains(t, told["current"], current, node)
			}
			l.end(t, key)
		})
	}
}
