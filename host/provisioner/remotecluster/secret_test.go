package remotecluster_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/remotecluster"
	"github.com/caisson-dev/caisson/host/scope"
)

// inputs collects what was recorded.
type inputs []provisioner.Input

func (i *inputs) RecordInput(input provisioner.Input) { *i = append(*i, input) }

func secret(data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "workload-kubeconfig", ResourceVersion: "7"}, Data: data}
}

func validKubeconfig(tb testing.TB) []byte {
	tb.Helper()
	raw, err := clientcmd.Write(*kubeconfig("https://workload.example:6443"))
	require.NoError(tb, err)
	return raw
}

func fromSecret(recorder provisioner.InputRecorder, key string) *remotecluster.SecretResolver {
	return remotecluster.FromSecret(remotecluster.SecretOptions{
		ID: identifier("workload"), Namespace: "team-a", Name: "workload-kubeconfig", Key: key, Inputs: recorder,
	})
}

func TestFromSecret(t *testing.T) {
	present := []provisioner.Input{{ScopeID: scope.HomeID, Kind: "Secret", Namespace: "team-a", Name: "workload-kubeconfig", Version: "7"}}
	absent := []provisioner.Input{{ScopeID: scope.HomeID, Kind: "Secret", Namespace: "team-a", Name: "workload-kubeconfig", Absent: true}}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "workload-kubeconfig", errors.New("no"))
	terminal := finding{abi.Terminal, abi.Terminal, abi.ReasonInvalidKubeconfig}
	missing := finding{abi.UserActionRequired, abi.UserActionRequired, abi.ReasonSecretMissing}
	for name, test := range map[string]struct {
		reason   string
		object   *corev1.Secret
		key      string
		err      error
		want     finding
		recorded []provisioner.Input
	}{
		"Ready":        {"the default key is Cluster API's", secret(map[string][]byte{"value": validKubeconfig(t)}), "", nil, finding{}, present},
		"OtherKey":     {"another key can be named", secret(map[string][]byte{"config": validKubeconfig(t)}), "config", nil, finding{}, present},
		"Absent":       {"it is still to come, and its arrival wakes", nil, "", nil, yields(abi.ReasonRemotePending), absent},
		"NoKey":        {"somebody must add the key", secret(nil), "", nil, missing, present},
		"EmptyKey":     {"or fill it", secret(map[string][]byte{"value": {}}), "", nil, missing, present},
		"NoKubeconfig": {"a change of the Secret revives", secret(map[string][]byte{"value": []byte("xyzzy")}), "", nil, terminal, present},
		"NoContext":    {"likewise", secret(map[string][]byte{"value": []byte("apiVersion: v1\nkind: Config\n")}), "", nil, terminal, present},
		"Forbidden":    {"the tenant may not read it", nil, "", forbidden, finding{abi.UserActionRequired, abi.UserActionRequired, abi.ReasonForbidden}, nil},
		"Failed":       {"the API server failed, which says nothing of the Secret", nil, "", errors.New("timeout"), retries(abi.ReasonUnexpected), nil},
	} {
		t.Run(name, func(t *testing.T) {
			builder := fake.NewClientBuilder()
			if test.object != nil {
				builder = builder.WithObjects(test.object)
			}
			if test.err != nil {
				builder = builder.WithInterceptorFuncs(interceptor.Funcs{
					Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
						return test.err
					},
				})
			}
			var recorded inputs
			ctx := scope.NewContext(t.Context(), scope.NewHome(owner(), nil, builder.Build()))
			config, err := fromSecret(&recorded, test.key).Config(ctx)
			requireFinding(t, test.want, err)
			require.Equal(t, test.recorded, []provisioner.Input(recorded), test.reason)
			if err != nil {
				require.NotContains(t, err.Error(), "xyzzy", "nothing of the Secret is in an error")
				require.NotErrorIs(t, err, provisioner.ErrNotFound, "an absent Secret is no evidence of a cluster's end")
				return
			}
			require.Equal(t, "https://workload.example:6443", config.Clusters["c"].Server)
		})
	}
}

func TestFromSecretReadsInTheEnclosingScope(t *testing.T) {
	remote := fake.NewClientBuilder().WithObjects(secret(map[string][]byte{"value": validKubeconfig(t)})).Build()
	outer := scope.NewHome(owner(), nil, fake.NewClientBuilder().Build()).
		Remote(scope.RemoteCluster{ID: identifier("outer"), Client: remote, State: abi.ScopeReady})
	var recorded inputs
	_, err := fromSecret(&recorded, "").Config(scope.NewContext(t.Context(), outer))
	require.NoError(t, err, "it is not at home")
	require.Equal(t, outer.ID(), recorded[0].ScopeID)
}

func TestFromSecretWithoutAWay(t *testing.T) {
	pending := scope.NewHome(owner(), nil, nil).Remote(scope.RemoteCluster{ID: identifier("outer"), State: abi.ScopePending})
	_, err := fromSecret(nil, "").Config(scope.NewContext(t.Context(), pending))
	requireFinding(t, yields(abi.ReasonRemoteUnreachable), err)
	_, err = fromSecret(nil, "").Config(t.Context())
	requireFinding(t, retries(abi.ReasonUnexpected), err)
}

func TestFromSecretIdentity(t *testing.T) {
	resolver := fromSecret(nil, "")
	require.Equal(t, identifier("workload"), *resolver.ID())
	resolver.ID().Path = "changed"
	require.Equal(t, "workload", resolver.ID().Path, "callers get a copy")
}

func TestCase066FromSecretToStack(t *testing.T) {
	w := newWorld()
	options := w.options(remotecluster.Owned)
	var recorded inputs
	options.Remote = fromSecret(&recorded, "")
	bracket := remotecluster.New(options)
	tree := remotecluster.Around(bracket.On("a", w.leaf("cni")), bracket)
	broken := secret(map[string][]byte{"value": []byte("apiVersion: v1\nkind: Config\n")})
	c := fake.NewClientBuilder().WithObjects(broken).Build()
	ctx := scope.NewContext(t.Context(), scope.NewHome(owner(), nil, c))

	err := tree.Provision(ctx)
	require.True(t, provisioner.IsTerminal(err), "it parks")
	require.ErrorContains(t, err, "kubectl config use-context", "the log names the remedy")
	require.Len(t, recorded, 1)

	broken.Data["value"] = validKubeconfig(t)
	require.NoError(t, c.Update(ctx, broken))
	require.NoError(t, tree.Provision(ctx), "a fix of the Secret revives")
	require.NotEqual(t, recorded[0].Version, recorded[1].Version, "because the record differs")
	require.Equal(t, []string{"register workload", "P cni" + readyLine}, w.trace.Calls())
}
