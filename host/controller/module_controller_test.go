package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// shelf is a Source and a Loader: the registry, its cache on disk and the sandbox.
type shelf struct {
	// tag is what the reference means now.
	tag                           string
	resolveErr, fetchErr, loadErr error
	loads                         map[string]*fakeModule
	trace                         []string
}

// Resolve implements Source.
func (s *shelf) Resolve(context.Context, *v1alpha1.Module) (string, error) {
	s.trace = append(s.trace, "resolve")
	return s.tag, s.resolveErr
}

// Fetch implements Source.
func (s *shelf) Fetch(_ context.Context, _ *v1alpha1.Module, digest string) ([]byte, error) {
	s.trace = append(s.trace, "fetch "+digest)
	return []byte(digest), s.fetchErr
}

// Load implements Loader.
func (s *shelf) Load(_ context.Context, _ *v1alpha1.Module, wasm []byte) (LoadedModule, error) {
	s.trace = append(s.trace, "load "+string(wasm))
	if s.loadErr != nil {
		return nil, s.loadErr
	}
	return s.loads[string(wasm)], nil
}

func (s *shelf) steps() []string {
	trace := s.trace
	s.trace = nil
	return trace
}

// moduleWorld is a Module reconciler with everything around it faked.
type moduleWorld struct {
	*ModuleReconciler
	*shelf
	t      *testing.T
	base   client.WithWatch
	writes int
}

func newModuleWorld(t *testing.T, object *v1alpha1.Module) *moduleWorld {
	t.Helper()
	w := &moduleWorld{t: t, shelf: &shelf{tag: "sha256:1", loads: map[string]*fakeModule{
		"sha256:1": loadedAs(newManifest("1.0.0")), "sha256:2": loadedAs(newManifest("1.1.0")),
	}}}
	w.base = fake.NewClientBuilder().WithScheme(testScheme(t)).WithObjects(object).WithStatusSubresource(&v1alpha1.Module{}).Build()
	counting := interceptor.NewClient(w.base, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			w.writes++
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})
	w.ModuleReconciler = &ModuleReconciler{Client: counting, Source: w, Loader: w, Modules: newModules(t, epoch, object)}
	return w
}

func (w *moduleWorld) reconcile() time.Duration {
	w.t.Helper()
	result, err := w.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "cilium"}})
	require.NoError(w.t, err)
	return result.RequeueAfter
}

func (w *moduleWorld) module() *v1alpha1.Module {
	w.t.Helper()
	object := &v1alpha1.Module{}
	require.NoError(w.t, w.base.Get(w.t.Context(), types.NamespacedName{Name: "cilium"}, object))
	return object
}

func (w *moduleWorld) edit(change func(*v1alpha1.Module)) {
	w.t.Helper()
	object := w.module()
	change(object)
	require.NoError(w.t, w.base.Update(w.t.Context(), object))
}

func (w *moduleWorld) ready() metav1.Condition {
	w.t.Helper()
	c := meta.FindStatusCondition(w.module().Status.Conditions, v1alpha1.ModuleReady)
	require.NotNil(w.t, c)
	return *c
}

func TestModuleIsLoaded(t *testing.T) {
	w := newModuleWorld(t, newModule())
	require.InDelta(t, float64(DefaultPollInterval), float64(w.reconcile()), float64(DefaultPollInterval)/10)
	require.Equal(t, []string{"resolve", "fetch sha256:1", "load sha256:1"}, w.steps())
	require.Equal(t, metav1.ConditionTrue, w.ready().Status)
	require.Equal(t, v1alpha1.ModuleReasonLoaded, w.ready().Reason)
	status := w.module().Status
	require.Equal(t, "sha256:1", status.Digest)
	require.Equal(t, "1.0.0", status.Version)
	require.EqualValues(t, 1, status.ObservedGeneration)
	var manifest abi.Manifest
	require.NoError(t, json.Unmarshal(status.Manifest.Raw, &manifest))
	require.Equal(t, newManifest("1.0.0"), manifest)

	w.reconcile()
	require.Equal(t, []string{"resolve"}, w.steps(), "the same digest is not fetched again")
	require.Equal(t, 1, w.writes, "nor is anything written")
}

func TestModuleFollowsItsTag(t *testing.T) {
	w := newModuleWorld(t, newModule())
	w.reconcile()
	w.tag = "sha256:2"
	w.reconcile()
	require.Equal(t, "sha256:2", w.module().Status.Digest)
	require.Equal(t, "1.1.0", w.module().Status.Version)
	require.EqualValues(t, 1, w.loads["sha256:1"].closed.Load())
	require.Zero(t, w.loads["sha256:2"].closed.Load())
}

func TestModuleOtherLimitsLoadAgain(t *testing.T) {
	w := newModuleWorld(t, newModule())
	w.reconcile()
	w.steps()
	w.edit(func(m *v1alpha1.Module) {
		q := resource.MustParse("64Mi")
		m.Spec.Limits, m.Generation = &v1alpha1.ModuleLimits{Memory: &q}, 2
	})
	w.reconcile()
	require.Equal(t, []string{"resolve", "fetch sha256:1", "load sha256:1"}, w.steps())
	require.EqualValues(t, 2, w.module().Status.ObservedGeneration)
}

// TestModuleLimitTooHigh: a limit that the operator does not allow is said so, by a module
// that is not in use and by one that is.
func TestModuleLimitTooHigh(t *testing.T) {
	refusal := &ModuleError{Reason: v1alpha1.ModuleReasonLimitTooHigh, Message: "spec.limits.memory is 2Gi, and this operator allows 1Gi at most"}
	w := newModuleWorld(t, newModule())
	w.loadErr = refusal
	w.reconcile()
	require.Equal(t, metav1.ConditionFalse, w.ready().Status)
	require.Equal(t, v1alpha1.ModuleReasonLimitTooHigh, w.ready().Reason)
	require.Equal(t, refusal.Message, w.ready().Message)
	require.True(t, meta.IsStatusConditionTrue(w.module().Status.Conditions, v1alpha1.ConditionStalled), "somebody has to act")

	w.loadErr = nil
	w.reconcile()
	require.Equal(t, v1alpha1.ModuleReasonLoaded, w.ready().Reason)
	memory := resource.MustParse("2Gi")
	w.edit(func(m *v1alpha1.Module) {
		m.Spec.Limits, m.Generation = &v1alpha1.ModuleLimits{Memory: &memory}, 2
	})
	w.loadErr = refusal
	w.reconcile()
	require.Equal(t, metav1.ConditionTrue, w.ready().Status, "platforms go on with what was allowed")
	require.Equal(t, v1alpha1.ModuleReasonLimitTooHigh, w.ready().Reason)
	require.Equal(t, "The module stays in use at sha256:1 with the limits of before: "+refusal.Message, w.ready().Message)
}

// TestModuleFailures: each kind has its reason, and the text is that of typed errors only.
func TestModuleFailures(t *testing.T) {
	typed := func(reason string) error {
		return &ModuleError{Reason: reason, Message: "words for people", Err: errors.New(secretText)}
	}
	broken := func(change func(*fakeModule)) func(*shelf) {
		return func(s *shelf) { change(s.loads["sha256:1"]) }
	}
	other, err := json.Marshal(newManifest("9.9.9"))
	require.NoError(t, err)
	invalid := newManifest("not a version")
	wide := newManifest("1.0.0")
	wide.Capabilities = append(wide.Capabilities, abi.SecretRead)
	replace := func(m abi.Manifest) func(*fakeModule) {
		return func(f *fakeModule) { f.section, f.described = loadedAs(m).section, loadedAs(m).described }
	}
	cases := map[string]struct {
		reason  string
		spoil   func(*shelf)
		want    string
		message string
	}{
		"invalid reference":   {reason: "resolve", spoil: func(s *shelf) { s.resolveErr = typed(v1alpha1.ModuleReasonInvalidReference) }, want: v1alpha1.ModuleReasonInvalidReference, message: "words for people"},
		"registry is down":    {reason: "resolve", spoil: func(s *shelf) { s.resolveErr = typed(v1alpha1.ModuleReasonRegistryUnavailable) }, want: v1alpha1.ModuleReasonRegistryUnavailable, message: "words for people"},
		"no such tag":         {reason: "resolve", spoil: func(s *shelf) { s.resolveErr = typed(v1alpha1.ModuleReasonNotFound) }, want: v1alpha1.ModuleReasonNotFound, message: "words for people"},
		"unauthorized":        {reason: "resolve", spoil: func(s *shelf) { s.resolveErr = typed(v1alpha1.ModuleReasonUnauthorized) }, want: v1alpha1.ModuleReasonUnauthorized, message: "words for people"},
		"wrong digest":        {reason: "fetch", spoil: func(s *shelf) { s.fetchErr = typed(v1alpha1.ModuleReasonDigestMismatch) }, want: v1alpha1.ModuleReasonDigestMismatch, message: "words for people"},
		"too large":           {reason: "fetch", spoil: func(s *shelf) { s.fetchErr = typed(v1alpha1.ModuleReasonTooLarge) }, want: v1alpha1.ModuleReasonTooLarge, message: "words for people"},
		"not a module":        {reason: "fetch", spoil: func(s *shelf) { s.fetchErr = typed(v1alpha1.ModuleReasonNotAModule) }, want: v1alpha1.ModuleReasonNotAModule, message: "words for people"},
		"wrapped":             {reason: "load", spoil: func(s *shelf) { s.loadErr = fmt.Errorf("load: %w", typed(v1alpha1.ModuleReasonLoadFailed)) }, want: v1alpha1.ModuleReasonLoadFailed, message: "words for people"},
		"untyped":             {reason: "its text is not known to be harmless", spoil: func(s *shelf) { s.loadErr = errors.New(secretText) }, want: v1alpha1.ModuleReasonLoadFailed, message: "the operator's log"},
		"no section":          {reason: "an admin could not have inspected it", spoil: broken(func(f *fakeModule) { f.section = nil }), want: v1alpha1.ModuleReasonInvalidManifest, message: "caisson module build"},
		"section not JSON":    {reason: "unreadable", spoil: broken(func(f *fakeModule) { f.section = []byte("{") }), want: v1alpha1.ModuleReasonInvalidManifest, message: "caisson.manifest section is not the JSON"},
		"describes no JSON":   {reason: "unreadable", spoil: broken(func(f *fakeModule) { f.described = []byte("hello") }), want: v1alpha1.ModuleReasonInvalidManifest, message: "describe export does not answer"},
		"says something else": {reason: "what was inspected is not what runs", spoil: broken(func(f *fakeModule) { f.described = other }), want: v1alpha1.ModuleReasonInvalidManifest, message: "differ"},
		"invalid manifest":    {reason: "it breaks the contract", spoil: broken(replace(invalid)), want: v1alpha1.ModuleReasonInvalidManifest, message: "version"},
		"not granted":         {reason: "it declares more than the admin allows", spoil: broken(replace(wide)), want: v1alpha1.ModuleReasonNotGranted, message: "secret_read"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newModuleWorld(t, newModule())
			c.spoil(w.shelf)
			require.Positive(t, w.reconcile(), "it is looked at again")
			ready := w.ready()
			require.Equal(t, metav1.ConditionFalse, ready.Status, c.reason)
			require.Equal(t, c.want, ready.Reason, c.reason)
			require.Contains(t, ready.Message, c.message, c.reason)
			require.NotContains(t, ready.Message, "hunter2")
			require.Empty(t, w.Modules.Digest("cilium"))
			require.Empty(t, w.module().Status.Digest)
			if w.loadErr == nil && w.fetchErr == nil && w.resolveErr == nil {
				require.EqualValues(t, 1, w.loads["sha256:1"].closed.Load(), "what is not used is closed")
			}
		})
	}
}

// A new digest that cannot be used leaves the old one in use, and says so.
func TestModuleKeepsTheOldDigest(t *testing.T) {
	cases := map[string]struct {
		reason string
		spoil  func(*shelf)
		want   string
	}{
		"registry is down": {reason: "nothing to do with what runs", spoil: func(s *shelf) {
			s.resolveErr = &ModuleError{Reason: v1alpha1.ModuleReasonRegistryUnavailable, Message: "down"}
		}, want: v1alpha1.ModuleReasonRegistryUnavailable},
		"does not load": {reason: "the new one is bad", spoil: func(s *shelf) {
			s.tag, s.loadErr = "sha256:2", &ModuleError{Reason: v1alpha1.ModuleReasonLoadFailed, Message: "bad"}
		}, want: v1alpha1.ModuleReasonLoadFailed},
		"not granted": {reason: "the new one wants more", spoil: func(s *shelf) {
			wide := newManifest("1.1.0")
			wide.Capabilities = append(wide.Capabilities, abi.SecretRead)
			s.tag, s.loads["sha256:2"] = "sha256:2", loadedAs(wide)
		}, want: v1alpha1.ModuleReasonNotGranted},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newModuleWorld(t, newModule())
			w.reconcile()
			c.spoil(w.shelf)
			w.reconcile()
			ready := w.ready()
			require.Equal(t, metav1.ConditionTrue, ready.Status, c.reason)
			require.Equal(t, c.want, ready.Reason)
			require.Contains(t, ready.Message, "stays in use at sha256:1")
			require.Equal(t, "sha256:1", w.module().Status.Digest)
			require.Equal(t, "1.0.0", w.module().Status.Version)
			require.Equal(t, "sha256:1", w.Modules.Digest("cilium"))
			require.Zero(t, w.loads["sha256:1"].closed.Load())
		})
	}
}

// A grant that was narrowed holds at once for what is in use, and the condition agrees
// with what Stacks are told.
func TestModuleNarrowedGrant(t *testing.T) {
	w := newModuleWorld(t, newModule())
	w.reconcile()
	w.edit(func(m *v1alpha1.Module) { m.Spec.Grant.Capabilities, m.Generation = []string{"app_ensure"}, 2 })
	w.reconcile()
	require.Equal(t, metav1.ConditionFalse, w.ready().Status)
	require.Equal(t, v1alpha1.ModuleReasonNotGranted, w.ready().Reason)
	require.Contains(t, w.ready().Message, "app_remove")
	require.Equal(t, "sha256:1", w.module().Status.Digest)

	w.steps()
	w.edit(func(m *v1alpha1.Module) {
		m.Spec.Grant.Capabilities, m.Generation = []string{"app_ensure", "app_remove"}, 3
	})
	w.reconcile()
	require.Equal(t, v1alpha1.ModuleReasonLoaded, w.ready().Reason)
	require.Equal(t, []string{"resolve"}, w.steps(), "and nothing is loaded again")
}

// After a restart with the registry away, the recorded digest may be on disk.
func TestModuleRestartWithoutRegistry(t *testing.T) {
	object := newModule()
	object.Status.Digest = "sha256:1"
	down := &ModuleError{Reason: v1alpha1.ModuleReasonRegistryUnavailable, Message: "down"}

	w := newModuleWorld(t, object)
	w.resolveErr = down
	w.reconcile()
	require.Equal(t, []string{"resolve", "fetch sha256:1", "load sha256:1"}, w.steps())
	require.Equal(t, v1alpha1.ModuleReasonLoaded, w.ready().Reason)
	require.Equal(t, "sha256:1", w.Modules.Digest("cilium"))

	w = newModuleWorld(t, object)
	w.resolveErr, w.fetchErr = down, errors.New("not in the cache")
	w.reconcile()
	require.Equal(t, v1alpha1.ModuleReasonRegistryUnavailable, w.ready().Reason, "what is wrong is the registry")
	require.Equal(t, metav1.ConditionFalse, w.ready().Status)
	require.Equal(t, "sha256:1", w.module().Status.Digest, "and the record stays for the next attempt")

	w = newModuleWorld(t, newModule())
	w.resolveErr = down
	w.reconcile()
	require.Equal(t, []string{"resolve"}, w.steps(), "without a record there is nothing to fall back to")
}

func TestModuleFaultedCondition(t *testing.T) {
	w := newModuleWorld(t, newModule())
	w.loads["sha256:1"].call = func() (int32, error) { return 0, crash{died: true} }
	w.reconcile()
	for range crashLimit {
		instance, err := w.Modules.Module(t.Context(), "team", "cilium")
		require.NoError(t, err)
		_, _, err = instance.Runtime.Call(t.Context(), "tenant", abi.ExportProvision, nil, nil)
		require.Error(t, err)
	}
	w.reconcile()
	require.Equal(t, metav1.ConditionFalse, w.ready().Status)
	require.Equal(t, v1alpha1.ModuleReasonFaulted, w.ready().Reason)
	require.Equal(t, "sha256:1", w.module().Status.Digest)
}

func TestModuleGoes(t *testing.T) {
	w := newModuleWorld(t, newModule())
	w.reconcile()
	require.NoError(t, w.base.Delete(t.Context(), w.module()))
	require.Zero(t, w.reconcile())
	require.Empty(t, w.Modules.Digest("cilium"))
	require.EqualValues(t, 1, w.loads["sha256:1"].closed.Load())
}

func TestModuleShutdownWritesNothing(t *testing.T) {
	w := newModuleWorld(t, newModule())
	w.resolveErr = context.Canceled
	ctx, stop := context.WithCancel(t.Context())
	stop()
	_, err := w.Reconcile(ctx, ctrl.Request{NamespacedName: types.NamespacedName{Name: "cilium"}})
	require.NoError(t, err)
	require.Zero(t, w.writes)
}

func TestPollInterval(t *testing.T) {
	m := newModule()
	require.Equal(t, DefaultPollInterval, pollInterval(m))
	m.Spec.PollInterval = &metav1.Duration{Duration: time.Hour}
	require.Equal(t, time.Hour, pollInterval(m))
	m.Spec.PollInterval.Duration = 0
	require.Equal(t, minPollInterval, pollInterval(m), "a typing error does not hammer a registry")
	m.Spec.PollInterval.Duration = -time.Hour
	require.Equal(t, minPollInterval, pollInterval(m))
}

func TestModuleError(t *testing.T) {
	cause := errors.New("cause")
	err := &ModuleError{Reason: v1alpha1.ModuleReasonLoadFailed, Message: "message", Err: cause}
	require.EqualError(t, err, "message: cause")
	require.ErrorIs(t, err, cause)
	require.EqualError(t, &ModuleError{Message: "message"}, "message")
}
