package demo

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// fakeCluster is a cluster with objects and, if they are given, other manners.
func fakeCluster(t *testing.T, name string, manners interceptor.Funcs, objects ...client.Object) *cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)))
	inner := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	return &cluster{name: name, client: interceptor.NewClient(inner, manners)}
}

func TestApply(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"a.yaml": `# The registry's name is replaced wherever it stands.
apiVersion: v1
kind: ConfigMap
metadata: {namespace: ns, name: a}
data: {charts: "oci://registry.example.com/charts", modules: registry.example.com/modules}
---
# A document of comments alone is none.
---
{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "ns", "name": "b"}}
`,
		"c.yaml": "apiVersion: caisson.dev/v1alpha1\nkind: Stack\nmetadata: {namespace: ns, name: c}\nspec: {root: x, provisioners: [{name: x, serial: {children: []}}]}\n",
	})
	c := fakeCluster(t, "home", interceptor.Funcs{})
	for range 2 { // what is there already is applied again
		require.NoError(t, c.apply(t.Context(), "127.0.0.1:5000", filepath.Join(dir, "a.yaml"), filepath.Join(dir, "c.yaml")))
	}
	a := &corev1.ConfigMap{}
	require.NoError(t, c.client.Get(t.Context(), types.NamespacedName{Namespace: "ns", Name: "a"}, a))
	require.Equal(t, map[string]string{"charts": "oci://127.0.0.1:5000/charts", "modules": "127.0.0.1:5000/modules"}, a.Data)
	require.NoError(t, c.client.Get(t.Context(), types.NamespacedName{Namespace: "ns", Name: "b"}, &corev1.ConfigMap{}))
	require.NoError(t, c.client.Get(t.Context(), types.NamespacedName{Namespace: "ns", Name: "c"}, &v1alpha1.Stack{}))
}

func TestApplyFails(t *testing.T) {
	refused := errors.New("refused")
	c := fakeCluster(t, "home", interceptor.Funcs{
		Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
			return refused
		},
	})
	dir := t.TempDir()
	write(t, dir, map[string]string{"ok.yaml": workloadAdmin, "broken.yaml": "a: ["})
	err := c.apply(t.Context(), "r", filepath.Join(dir, "ok.yaml"))
	require.ErrorIs(t, err, refused)
	require.EqualError(t, err, "apply ok.yaml to home: Namespace caisson-demo: refused", "what and where is named")
	require.ErrorContains(t, c.apply(t.Context(), "r", filepath.Join(dir, "broken.yaml")), "apply broken.yaml to home: ")
	require.ErrorIs(t, c.apply(t.Context(), "r", filepath.Join(dir, "missing.yaml")), os.ErrNotExist)
}

func TestWorkloadAdmin(t *testing.T) {
	c := fakeCluster(t, "workload", interceptor.Funcs{})
	require.NoError(t, c.applyText(t.Context(), workloadAdmin))
	account := &corev1.ServiceAccount{}
	require.NoError(t, c.client.Get(t.Context(), types.NamespacedName{Namespace: adminNamespace, Name: adminAccount}, account))
}

func TestIdentity(t *testing.T) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "sa"}}
	c := fakeCluster(t, "workload", interceptor.Funcs{}, account)
	ca := filepath.Join(t.TempDir(), "ca.crt")
	require.NoError(t, os.WriteFile(ca, []byte("the CA"), 0o600))
	c.config = &rest.Config{
		Host: "https://127.0.0.1:6443", BearerToken: "the admin's", TLSClientConfig: rest.TLSClientConfig{CAFile: ca, ServerName: "api"},
	}
	raw, err := c.identity(t.Context(), "ns", "sa")
	require.NoError(t, err)
	require.NotContains(t, string(raw), "the admin's")
	require.NotContains(t, string(raw), ca, "it works elsewhere")

	got, err := clientcmd.RESTConfigFromKubeConfig(raw)
	require.NoError(t, err)
	require.Equal(t, "https://127.0.0.1:6443", got.Host)
	require.Equal(t, "the CA", string(got.CAData))
	require.Equal(t, "api", got.ServerName)
	require.NotEmpty(t, got.BearerToken)
	kubeconfig, err := clientcmd.Load(raw)
	require.NoError(t, err)
	require.Equal(t, "workload", kubeconfig.CurrentContext)
	require.Nil(t, kubeconfig.AuthInfos["sa"].Exec)
	require.Empty(t, c.config.CAData, "the cluster's own configuration is left alone")
}

func TestIdentityFails(t *testing.T) {
	c := fakeCluster(t, "workload", interceptor.Funcs{})
	c.config = &rest.Config{}
	_, err := c.identity(t.Context(), "ns", "nobody")
	require.ErrorContains(t, err, "mint a token for ns/nobody on workload: ")

	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "sa"}}
	c = fakeCluster(t, "workload", interceptor.Funcs{}, account)
	c.config = &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: "/does/not/exist"}}
	_, err = c.identity(t.Context(), "ns", "sa")
	require.ErrorContains(t, err, "read CA of workload: ")
}

func TestConnect(t *testing.T) {
	_, err := connect("home", "/does/not/exist")
	require.ErrorContains(t, err, "read kubeconfig of home: ")
	path := filepath.Join(t.TempDir(), "kubeconfig")
	write(t, filepath.Dir(path), map[string]string{"kubeconfig": `
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {token: t}}]
current-context: c
`})
	c, err := connect("home", path)
	require.NoError(t, err)
	require.Equal(t, path, c.kubeconfig)
	require.Equal(t, "https://127.0.0.1:1", c.config.Host)
}

func TestReplace(t *testing.T) {
	c := fakeCluster(t, "home", interceptor.Funcs{})
	secret := func(value string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}, Data: map[string][]byte{"k": []byte(value)}}
	}
	for _, value := range []string{"1", "2"} {
		require.NoError(t, c.replace(t.Context(), secret(value)))
		got := &corev1.Secret{}
		require.NoError(t, c.client.Get(t.Context(), types.NamespacedName{Namespace: "ns", Name: "s"}, got))
		require.Equal(t, value, string(got.Data["k"]))
	}
	refused := errors.New("refused")
	c = fakeCluster(t, "home", interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return refused }})
	err := c.replace(t.Context(), secret("a secret value"))
	require.EqualError(t, err, "write secret s: refused")
}

func TestEstablished(t *testing.T) {
	unknown := error(&meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "caisson.dev", Kind: "Stack"}})
	refused := errors.New("refused")
	cases := map[string]struct {
		reason  string
		answers []error
		want    error
	}{
		"Served":  {reason: "nothing is to be waited for", answers: nil},
		"Later":   {reason: "the API server takes a while to serve a new kind", answers: []error{unknown, unknown, nil}},
		"Refused": {reason: "other errors do not go away", answers: []error{unknown, refused}, want: refused},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := fakeCluster(t, "home", interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					if len(tc.answers) > 0 {
						err := tc.answers[0]
						tc.answers = tc.answers[1:]
						if err != nil {
							return err
						}
					}
					return c.List(ctx, list, opts...)
				},
			})
			err := c.established(t.Context())
			if tc.want == nil {
				require.NoError(t, err, tc.reason)
				require.Empty(t, tc.answers)
				return
			}
			require.ErrorIs(t, err, tc.want, tc.reason)
			require.ErrorContains(t, err, "wait for the CRDs to be served: ")
		})
	}
}
