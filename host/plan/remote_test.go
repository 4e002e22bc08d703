package plan

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

// TestResolvers resolves one remote in each way, as the Secret that it is looked for in shows.
func TestResolvers(t *testing.T) {
	for name, test := range map[string]struct {
		reason    string
		source    string
		namespace string
		secret    string
		key       string
	}{
		"Secret":           {"beside the Stack", "kubeconfigSecret: {name: s, key: k}", "team", "s", "k"},
		"SecretDefaultKey": {"as Cluster API has it", "kubeconfigSecret: {name: s}", "team", "s", "value"},
		"ClusterAPI":       {"by its convention", "clusterAPI: {name: blue}", "team", "blue-kubeconfig", "value"},
		"ClusterAPIThere":  {"where the Cluster is", "clusterAPI: {name: blue, namespace: clusters}", "clusters", "blue-kubeconfig", "value"},
		"VCluster":         {"by its convention", "vcluster: {name: dev}", "team", "vc-dev", "config"},
		"VClusterThere":    {"where it is", "vcluster: {name: dev, namespace: vclusters}", "vclusters", "vc-dev", "config"},
	} {
		t.Run(name, func(t *testing.T) {
			stack := parseStack(t, "root: a\nremotes: [{name: r, owned: true, "+test.source+"}]\n"+
				"provisioners: [{name: a, remotecluster: {remote: r, child: b}}, {name: b, module: {ref: m}}]")
			w := newWorld(t, stack)
			ctx := scope.NewContext(t.Context(), w.home)
			var beside corev1.Secret
			require.NoError(t, w.home.Client().Get(ctx, client.ObjectKey{Namespace: "team", Name: "workload-kubeconfig"}, &beside))
			found := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: test.namespace, Name: test.secret}, Data: map[string][]byte{test.key: beside.Data["value"]},
			}
			empty := scope.NewHome(ownerOf(stack), nil, fake.NewClientBuilder().Build())
			full := scope.NewHome(ownerOf(stack), nil, fake.NewClientBuilder().WithObjects(found).Build())

			tree, err := Build(stack, w.dependencies())
			require.NoError(t, err)
			outcome := provisioner.OutcomeOf(tree.Provision(scope.NewContext(t.Context(), empty)))
			require.Equal(t, abi.Yield, outcome.Class, test.reason)
			require.Equal(t, abi.ReasonRemotePending, outcome.Headline.Reason)
			require.Len(t, w.inputs, 1)
			require.Equal(t, provisioner.Input{ScopeID: scope.HomeID, Kind: "Secret", Namespace: test.namespace, Name: test.secret, Absent: true}, w.inputs[0])

			tree, err = Build(stack, w.dependencies())
			require.NoError(t, err)
			require.NoError(t, tree.Provision(scope.NewContext(t.Context(), full)))
			require.Len(t, w.clusters, 1, "it is registered")
		})
	}
}
