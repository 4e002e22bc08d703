package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/cd/helm"
	"github.com/caisson-dev/caisson/host/controller"
	"github.com/caisson-dev/caisson/host/registry"
	"github.com/caisson-dev/caisson/host/registry/registrytest"
	"github.com/caisson-dev/caisson/host/sandbox"
	"github.com/caisson-dev/caisson/host/scope"
)

const namespace = "caisson-system"

func newClient(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, AddToScheme(scheme))
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

// moduleError is err as the Module's condition shows it.
func moduleError(t *testing.T, err error) *controller.ModuleError {
	t.Helper()
	var typed *controller.ModuleError
	require.ErrorAs(t, err, &typed)
	return typed
}

func TestSourceError(t *testing.T) {
	cases := map[string]struct {
		reason string
		err    error
		want   string
	}{
		"not found":         {reason: "no such tag", err: &registry.Error{Kind: registry.NotFound}, want: v1alpha1.ModuleReasonNotFound},
		"unauthorized":      {reason: "no login", err: &registry.Error{Kind: registry.Unauthorized}, want: v1alpha1.ModuleReasonUnauthorized},
		"digest mismatch":   {reason: "other bytes", err: &registry.Error{Kind: registry.DigestMismatch}, want: v1alpha1.ModuleReasonDigestMismatch},
		"too large":         {reason: "over the limit", err: &registry.Error{Kind: registry.TooLarge}, want: v1alpha1.ModuleReasonTooLarge},
		"not a module":      {reason: "another artifact", err: &registry.Error{Kind: registry.NotAModule}, want: v1alpha1.ModuleReasonNotAModule},
		"invalid reference": {reason: "a typing error", err: &registry.Error{Kind: registry.InvalidReference}, want: v1alpha1.ModuleReasonInvalidReference},
		"unavailable":       {reason: "down", err: &registry.Error{Kind: registry.Unavailable}, want: v1alpha1.ModuleReasonRegistryUnavailable},
		"unknown kind":      {reason: "a kind of a later version may pass by itself", err: &registry.Error{Kind: "later"}, want: v1alpha1.ModuleReasonRegistryUnavailable},
		"wrapped":           {reason: "found through wrapping", err: fmt.Errorf("resolve: %w", &registry.Error{Kind: registry.NotFound}), want: v1alpha1.ModuleReasonNotFound},
		"untyped":           {reason: "its text is for the log", err: errors.New("password=hunter2"), want: v1alpha1.ModuleReasonRegistryUnavailable},
	}
	require.NoError(t, sourceError(nil))
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			typed := moduleError(t, sourceError(c.err))
			require.Equal(t, c.want, typed.Reason, c.reason)
			require.NotContains(t, typed.Message, "hunter2")
		})
	}
}

func moduleAt(reference string, pull *v1alpha1.NamespacedName) *v1alpha1.Module {
	return &v1alpha1.Module{Spec: v1alpha1.ModuleSpec{Reference: reference, PullSecret: pull}}
}

// wasm is the smallest file that a registry client takes for a module.
func wasm() []byte { return []byte("\x00asm\x01\x00\x00\x00") }

func TestSourceWithPullSecret(t *testing.T) {
	shelf := registrytest.New(t)
	artifacts, err := registry.New(registry.Options{})
	require.NoError(t, err)
	ref, err := registry.ParseReference(shelf.Ref("modules/a:1"))
	require.NoError(t, err)
	digest, err := artifacts.Push(t.Context(), ref, wasm(), nil)
	require.NoError(t, err)
	shelf.Inject(registrytest.Login("robot", "hunter2"))

	secret := func(name, config string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}, Type: corev1.SecretTypeDockerConfigJson,
			Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(config)},
		}
	}
	s := &source{artifacts: artifacts, secrets: newClient(t,
		secret("good", `{"auths":{"`+shelf.Host+`":{"username":"robot","password":"hunter2"}}}`),
		secret("wrong", `{"auths":{"`+shelf.Host+`":{"username":"robot","password":"hunter3"}}}`),
		secret("broken", `{"auths": hunter2`))}

	got, err := s.Resolve(t.Context(), moduleAt(ref.String(), &v1alpha1.NamespacedName{Namespace: "team", Name: "good"}))
	require.NoError(t, err)
	require.Equal(t, digest, got)
	content, err := s.Fetch(t.Context(), moduleAt(ref.String(), &v1alpha1.NamespacedName{Namespace: "team", Name: "good"}), digest)
	require.NoError(t, err)
	require.Equal(t, wasm(), content)

	cases := map[string]struct {
		reason string
		pull   *v1alpha1.NamespacedName
		says   string
	}{
		"none":   {reason: "the registry wants a login"},
		"wrong":  {reason: "the registry does not like it", pull: &v1alpha1.NamespacedName{Namespace: "team", Name: "wrong"}},
		"broken": {reason: "no docker config", pull: &v1alpha1.NamespacedName{Namespace: "team", Name: "broken"}, says: "team/broken"},
		"absent": {reason: "nobody has made it", pull: &v1alpha1.NamespacedName{Namespace: "team", Name: "absent"}, says: "team/absent"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := s.Resolve(t.Context(), moduleAt(ref.String(), c.pull))
			typed := moduleError(t, err)
			require.Equal(t, v1alpha1.ModuleReasonUnauthorized, typed.Reason, c.reason)
			require.Contains(t, typed.Message, c.says)
			require.NotContains(t, err.Error(), "hunter", "not even in the log")
			_, err = s.Fetch(t.Context(), moduleAt(ref.String(), c.pull), digest)
			require.Error(t, err)
		})
	}
}

func TestSourceReference(t *testing.T) {
	s := &source{secrets: newClient(t)}
	_, err := s.Resolve(t.Context(), moduleAt("not a reference", nil))
	require.Equal(t, v1alpha1.ModuleReasonInvalidReference, moduleError(t, err).Reason)
}

func TestLoader(t *testing.T) {
	program, err := os.Executable()
	require.NoError(t, err)
	box, err := sandbox.New(sandbox.Options{Worker: []string{program}})
	require.NoError(t, err, "the test binary is a worker of its own, as an embedder's is")
	l := &loader{box: box}

	_, err = l.Load(t.Context(), &v1alpha1.Module{}, []byte("no wasm"))
	typed := moduleError(t, err)
	require.Equal(t, v1alpha1.ModuleReasonLoadFailed, typed.Reason)
	require.Contains(t, typed.Message, "not a Wasm module")

	memory := resource.MustParse("1Ki")
	limited := &v1alpha1.Module{Spec: v1alpha1.ModuleSpec{Limits: &v1alpha1.ModuleLimits{
		Timeout: &metav1.Duration{Duration: time.Second}, Memory: &memory,
	}}}
	_, err = l.Load(t.Context(), limited, wasm())
	typed = moduleError(t, err)
	require.Equal(t, v1alpha1.ModuleReasonInvalidLimits, typed.Reason, "limits of a module are its own: 1Ki holds no page of memory")
	require.Contains(t, typed.Message, "limit MemoryBytes is 1024, it must be between 65536 and 4294967296")

	_, err = l.Load(t.Context(), &v1alpha1.Module{Spec: v1alpha1.ModuleSpec{Isolation: v1alpha1.IsolationInProcess}}, wasm())
	typed = moduleError(t, err)
	require.Equal(t, v1alpha1.ModuleReasonInProcessNotAllowed, typed.Reason, "an operator has to be told that it may")
	require.Equal(t, "spec.isolation is InProcess, and this operator runs no module in its own process; leave it out, "+
		"or start the operator with --allow-in-process if the module is trusted like the operator itself", typed.Message)

	require.NoError(t, box.Close())
	_, err = l.Load(t.Context(), &v1alpha1.Module{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, wasm())
	require.Error(t, err)
	require.NotErrorAs(t, err, new(*controller.ModuleError), "a sandbox that is gone is no fault of the module")
}

func TestTenants(t *testing.T) {
	_, _, err := tenants{scope.NewClientCache(scope.ClientCacheOptions{})}.Tenant("team", "builder")
	require.ErrorIs(t, err, scope.ErrNoHome)
	require.ErrorContains(t, err, "team/builder")

	cache := scope.NewClientCache(scope.ClientCacheOptions{Home: &rest.Config{Host: "https://127.0.0.1:1"}})
	config, c, err := tenants{cache}.Tenant("team", "builder")
	require.NoError(t, err)
	require.NotNil(t, c)
	require.Equal(t, "system:serviceaccount:team:builder", config.Impersonate.UserName, "never the operator itself")
}

func TestDigestKey(t *testing.T) {
	c := newClient(t)
	first, err := digestKey(t.Context(), c, namespace)
	require.NoError(t, err)
	require.Len(t, first, 32)
	second, err := digestKey(t.Context(), c, namespace)
	require.NoError(t, err)
	require.Equal(t, first, second, "it outlives the process")
	other, err := digestKey(t.Context(), newClient(t), namespace)
	require.NoError(t, err)
	require.NotEqual(t, first, other, "every installation has its own")
}

func TestDigestKeyFailures(t *testing.T) {
	short := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: digestKeyName}, Data: map[string][]byte{"key": []byte("short")}}
	_, err := digestKey(t.Context(), newClient(t, short), namespace)
	require.ErrorContains(t, err, "delete it", "it says what to do")

	away := errors.New("the server is away")
	_, err = digestKey(t.Context(), interceptor.NewClient(newClient(t), interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return away },
	}), namespace)
	require.ErrorIs(t, err, away)
	_, err = digestKey(t.Context(), interceptor.NewClient(newClient(t, short), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return away
		},
	}), namespace)
	require.ErrorIs(t, err, away)
}

// Of two replicas that start at once one makes the key, and a restart writes nothing.
func TestDigestKeyOfReplicas(t *testing.T) {
	base, writes := newClient(t), 0
	var theirs []byte
	c := interceptor.NewClient(base, interceptor.Funcs{
		Create: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			writes++
			if theirs == nil {
				var err error
				theirs, err = digestKey(ctx, base, namespace)
				require.NoError(t, err)
			}
			return w.Create(ctx, o, opts...)
		},
	})
	ours, err := digestKey(t.Context(), c, namespace)
	require.NoError(t, err)
	require.Equal(t, theirs, ours, "whoever was quicker")
	again, err := digestKey(t.Context(), c, namespace)
	require.NoError(t, err)
	require.Equal(t, ours, again)
	require.Equal(t, 1, writes)
}

func TestNewNeedsItsOwnPlace(t *testing.T) {
	for _, o := range []Options{{}, {Namespace: namespace}, {CacheDir: t.TempDir()}} {
		require.ErrorContains(t, New(t.Context(), nil, o), "namespace of its own and a cache directory")
	}
}

func TestCloseAtEnd(t *testing.T) {
	program, err := os.Executable()
	require.NoError(t, err)
	box, err := sandbox.New(sandbox.Options{Worker: []string{program}})
	require.NoError(t, err)
	driver, err := helm.New(helm.Options{Namespace: namespace, Client: newClient(t), CacheDir: t.TempDir()})
	require.NoError(t, err)
	c := closeAtEnd{driver: driver, box: box}
	require.False(t, c.NeedLeaderElection(), "every replica has workers")
	ctx, stop := context.WithCancel(t.Context())
	stop()
	require.NoError(t, c.Start(ctx))
	_, err = box.Load(t.Context(), wasm(), sandbox.Limits{})
	require.Error(t, err, "it is closed")
}
