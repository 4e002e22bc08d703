package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/capability"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/module"
)

func newModule() *v1alpha1.Module {
	return &v1alpha1.Module{
		ObjectMeta: metav1.ObjectMeta{Name: "cilium", Generation: 1},
		Spec: v1alpha1.ModuleSpec{
			Reference: "registry.example.com/modules/cilium:1", AllowedNamespaces: []string{"team"},
			Grant: v1alpha1.Grant{Capabilities: []string{"app_ensure", "app_remove"}},
		},
	}
}

func newManifest(version string) abi.Manifest {
	return abi.Manifest{ABI: abi.Version, Name: "cilium", Version: version, Capabilities: []abi.Function{abi.AppEnsure, abi.AppRemove}}
}

// fakeModule is a loaded module that answers as told.
type fakeModule struct {
	section, described []byte
	call               func() (int32, error)
	limits             module.Limits
	closed             atomic.Int64
}

func loadedAs(m abi.Manifest) *fakeModule {
	raw, _ := json.Marshal(m)
	return &fakeModule{section: raw, described: raw}
}

// Call implements module.Runtime.
func (f *fakeModule) Call(context.Context, string, string, []byte, func(context.Context, string, []byte) []byte) (int32, []byte, error) {
	if f.call == nil {
		return 0, []byte(`{}`), nil
	}
	code, err := f.call()
	return code, nil, err
}

// Manifest implements LoadedModule.
func (f *fakeModule) Manifest() []byte { return f.section }

// Described implements LoadedModule.
func (f *fakeModule) Described() []byte { return f.described }

// Limits implements LoadedModule.
func (f *fakeModule) Limits() module.Limits { return f.limits }

// Close implements LoadedModule.
func (f *fakeModule) Close() { f.closed.Add(1) }

func newModules(t *testing.T, now func() time.Time, objects ...client.Object) *Modules {
	t.Helper()
	counters, err := NewMetrics(prometheus.NewRegistry())
	require.NoError(t, err)
	reader := fake.NewClientBuilder().WithScheme(testScheme(t)).WithObjects(objects...).WithStatusSubresource(&v1alpha1.Module{}).Build()
	return NewModules(reader, counters, now, 4)
}

func TestModulesModule(t *testing.T) {
	condition := func(status metav1.ConditionStatus, reason string, generation int64) func(*v1alpha1.Module) {
		return func(m *v1alpha1.Module) {
			m.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ModuleReady, Status: status, Reason: reason, ObservedGeneration: generation}}
		}
	}
	cases := map[string]struct {
		reason      string
		edit        func(*v1alpha1.Module)
		namespace   string
		module      string
		unloaded    bool
		disposition abi.Disposition
		code        string
		never       bool
	}{
		"allowed":           {reason: "the namespace is on the list"},
		"everywhere":        {reason: "an asterisk stands for all", namespace: "other", edit: func(m *v1alpha1.Module) { m.Spec.AllowedNamespaces = []string{"*"} }},
		"nowhere":           {reason: "empty means none, not all", edit: func(m *v1alpha1.Module) { m.Spec.AllowedNamespaces = nil }, disposition: abi.UserActionRequired, code: abi.ReasonModuleNotAllowed},
		"elsewhere":         {reason: "another namespace", namespace: "other", disposition: abi.UserActionRequired, code: abi.ReasonModuleNotAllowed},
		"pattern":           {reason: "near miss: names are not patterns", namespace: "team-a", edit: func(m *v1alpha1.Module) { m.Spec.AllowedNamespaces = []string{"team*"} }, disposition: abi.UserActionRequired, code: abi.ReasonModuleNotAllowed},
		"unknown":           {reason: "somebody must create it", module: "calico", disposition: abi.UserActionRequired, code: abi.ReasonModuleNotFound},
		"new":               {reason: "it is being loaded", unloaded: true, disposition: abi.Yield, code: abi.ReasonModuleNotReady},
		"restarted":         {reason: "loaded before, so it will be again", unloaded: true, edit: condition(metav1.ConditionTrue, v1alpha1.ModuleReasonLoaded, 1), disposition: abi.Yield, code: abi.ReasonModuleNotReady},
		"bad":               {reason: "somebody must publish another", unloaded: true, edit: condition(metav1.ConditionFalse, v1alpha1.ModuleReasonLoadFailed, 1), disposition: abi.UserActionRequired, code: abi.ReasonModuleNotReady},
		"bad, edited since": {reason: "the failure is of another spec", unloaded: true, edit: condition(metav1.ConditionFalse, v1alpha1.ModuleReasonLoadFailed, 0), disposition: abi.Yield, code: abi.ReasonModuleNotReady},
		"registry is down":  {reason: "that passes by itself", unloaded: true, edit: condition(metav1.ConditionFalse, v1alpha1.ModuleReasonRegistryUnavailable, 1), disposition: abi.Retry, code: abi.ReasonModuleNotReady, never: true},
		"registry went down": {reason: "near miss: it was loaded once, so it may have made something", unloaded: true, edit: func(m *v1alpha1.Module) {
			condition(metav1.ConditionFalse, v1alpha1.ModuleReasonRegistryUnavailable, 1)(m)
			m.Status.Digest = "sha256:1"
		}, disposition: abi.Retry, code: abi.ReasonModuleNotReady},
		"grant was narrowed":    {reason: "what runs must still be allowed", edit: func(m *v1alpha1.Module) { m.Spec.Grant.Capabilities = []string{"app_ensure"} }, disposition: abi.UserActionRequired, code: abi.ReasonModuleNotReady},
		"not allowed, unloaded": {reason: "who may not use it learns nothing of its state", namespace: "other", unloaded: true, disposition: abi.UserActionRequired, code: abi.ReasonModuleNotAllowed},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			object := newModule()
			if c.edit != nil {
				c.edit(object)
			}
			m := newModules(t, epoch, object)
			if !c.unloaded {
				m.Put("cilium", Loaded{Digest: "sha256:1", Manifest: newManifest("1.0.0"), Runtime: loadedAs(newManifest("1.0.0"))})
			}
			instance, err := m.Module(t.Context(), orElse(c.namespace, "team"), orElse(c.module, "cilium"))
			if c.disposition == abi.OK {
				require.NoError(t, err, c.reason)
				require.Equal(t, "sha256:1", instance.Digest)
				require.Equal(t, newManifest("1.0.0"), instance.Manifest)
				return
			}
			require.Nil(t, instance)
			o := provisioner.OutcomeOf(err)
			require.Equal(t, c.disposition, o.Class, c.reason)
			require.Equal(t, c.code, o.Headline.Reason, c.reason)
			require.Equal(t, c.never, errors.Is(err, module.ErrNeverLoaded), c.reason)
		})
	}
}

// Case 118: a condition that nobody has written yet is waited for. It is no failure.
func TestCase118AbsentCondition(t *testing.T) {
	cases := map[string]struct {
		reason     string
		conditions []metav1.Condition
		want       abi.Disposition
	}{
		"no conditions":   {reason: "the Module was just created", want: abi.Yield},
		"another one":     {reason: "somebody else's says nothing", conditions: []metav1.Condition{{Type: "Mesh", Status: metav1.ConditionFalse, Reason: v1alpha1.ModuleReasonLoadFailed, ObservedGeneration: 1}}, want: abi.Yield},
		"unknown":         {reason: "it is being worked on", conditions: []metav1.Condition{{Type: v1alpha1.ModuleReady, Status: metav1.ConditionUnknown, Reason: v1alpha1.ModuleReasonLoadFailed, ObservedGeneration: 1}}, want: abi.Yield},
		"of another spec": {reason: "it says nothing of this one", conditions: []metav1.Condition{{Type: v1alpha1.ModuleReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ModuleReasonRegistryUnavailable}}, want: abi.Yield},
		"false":           {reason: "near miss: this one is a failure", conditions: []metav1.Condition{{Type: v1alpha1.ModuleReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ModuleReasonRegistryUnavailable, ObservedGeneration: 1}}, want: abi.Retry},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			object := newModule()
			object.Status.Conditions = c.conditions
			_, err := newModules(t, epoch, object).Module(t.Context(), "team", "cilium")
			o := provisioner.OutcomeOf(err)
			require.Equal(t, c.want, o.Class, c.reason)
			require.Equal(t, abi.ReasonModuleNotReady, o.Headline.Reason)
		})
	}
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

func TestModulesReadFailure(t *testing.T) {
	m := newModules(t, epoch)
	m.reader = interceptor.NewClient(fake.NewClientBuilder().WithScheme(testScheme(t)).Build(), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("the cache is not there")
		},
	})
	_, err := m.Module(t.Context(), "team", "cilium")
	require.Equal(t, abi.Retry, provisioner.OutcomeOf(err).Class, "not knowing is not the same as not found")
}

func TestModulesGrantAndLimits(t *testing.T) {
	object := newModule()
	object.Spec.Grant.Kube = []v1alpha1.KubeGrant{{APIGroup: "apps", Kinds: []string{"Deployment"}, Verbs: []string{"get"}, Namespaces: []string{"a"}, Scopes: []string{"home"}}}
	object.Spec.Grant.Secrets = []v1alpha1.SecretGrant{{Namespace: "$(owner)", Names: []string{"token"}, Raw: true}}
	// The object may say something by now that the module has not been loaded with.
	object.Spec.Limits = &v1alpha1.ModuleLimits{Timeout: &metav1.Duration{Duration: time.Hour}}
	m := newModules(t, epoch, object)
	runtime := loadedAs(newManifest("1.0.0"))
	runtime.limits = module.Limits{Timeout: 3 * time.Second, HostCalls: 7}
	m.Put("cilium", Loaded{Digest: "sha256:1", Manifest: newManifest("1.0.0"), Runtime: runtime})
	instance, err := m.Module(t.Context(), "team", "cilium")
	require.NoError(t, err)
	require.Equal(t, runtime.limits, instance.Limits, "what it is held to, and not what its object asks for")
	require.Equal(t, capability.Grant{
		Capabilities: []abi.Function{abi.AppEnsure, abi.AppRemove},
		Kube:         []capability.KubeRule{{APIGroup: "apps", Kinds: []string{"Deployment"}, Verbs: []string{"get"}, Namespaces: []string{"a"}, Scopes: []abi.KubeScope{"home"}}},
		Secrets:      []capability.SecretRule{{Namespace: "$(owner)", Names: []string{"token"}, Scopes: []abi.KubeScope{}, Raw: true}},
	}, instance.Grant)
}

// TestModulesInUse: other limits are another load, because memory is bound when a module
// is compiled.
func TestModulesInUse(t *testing.T) {
	limits := func(memory string) *v1alpha1.ModuleLimits {
		q := resource.MustParse(memory)
		return &v1alpha1.ModuleLimits{Memory: &q}
	}
	m := newModules(t, epoch)
	require.Nil(t, m.InUse("cilium", "", &v1alpha1.ModuleSpec{}), "nothing is in use")
	require.Empty(t, m.Digest("cilium"))

	first, second := loadedAs(newManifest("1.0.0")), loadedAs(newManifest("1.0.0"))
	m.Put("cilium", Loaded{Digest: "sha256:1", Manifest: newManifest("1.0.0"), Limits: limits("64Mi"), Runtime: first})
	require.Equal(t, "1.0.0", m.InUse("cilium", "sha256:1", &v1alpha1.ModuleSpec{Limits: limits("65536Ki")}).Version, "the same, spelled otherwise")
	require.Nil(t, m.InUse("cilium", "sha256:1", &v1alpha1.ModuleSpec{Limits: limits("128Mi")}))
	require.Nil(t, m.InUse("cilium", "sha256:1", &v1alpha1.ModuleSpec{}))
	require.Nil(t, m.InUse("cilium", "sha256:2", &v1alpha1.ModuleSpec{Limits: limits("64Mi")}))
	require.Equal(t, "sha256:1", m.Digest("cilium"))
	require.Nil(t, m.InUse("cilium", "sha256:1", &v1alpha1.ModuleSpec{Limits: limits("64Mi"), Isolation: v1alpha1.IsolationInProcess}), "it runs elsewhere")
	require.NotNil(t, m.InUse("cilium", "sha256:1", &v1alpha1.ModuleSpec{Limits: limits("64Mi"), Isolation: v1alpha1.IsolationWorker}), "which is where it runs if nobody says so")

	m.Put("cilium", Loaded{Digest: "sha256:1", Manifest: newManifest("1.0.0"), Runtime: second})
	require.EqualValues(t, 1, first.closed.Load(), "the one before is closed")
	m.Remove("cilium")
	m.Remove("cilium")
	require.EqualValues(t, 1, second.closed.Load(), "once")
	require.Empty(t, m.Digest("cilium"))
}

// TestModulesFaulted: a module that kills its workers is left alone, host-wide, and a new
// digest begins anew.
func TestModulesFaulted(t *testing.T) {
	now := epoch()
	m := newModules(t, func() time.Time { return now }, newModule())
	bad := loadedAs(newManifest("1.0.0"))
	bad.call = func() (int32, error) { return 0, crash{died: true} }
	m.Put("cilium", Loaded{Digest: "sha256:1", Manifest: newManifest("1.0.0"), Runtime: bad})
	for range crashLimit {
		require.False(t, m.Faulted("cilium"))
		instance, err := m.Module(t.Context(), "team", "cilium")
		require.NoError(t, err)
		_, _, err = instance.Runtime.Call(t.Context(), "tenant", abi.ExportProvision, nil, nil)
		require.Error(t, err)
	}
	require.True(t, m.Faulted("cilium"))
	_, err := m.Module(t.Context(), "team", "cilium")
	o := provisioner.OutcomeOf(err)
	require.Equal(t, abi.Retry, o.Class, "it never parks")
	require.Equal(t, abi.ReasonModuleFaulted, o.Headline.Reason)
	require.Equal(t, probeFirst, o.RetryAfter)

	now = now.Add(probeFirst)
	_, err = m.Module(t.Context(), "team", "cilium")
	require.NoError(t, err, "the probe is let through")

	m.Put("cilium", Loaded{Digest: "sha256:2", Manifest: newManifest("1.0.1"), Runtime: loadedAs(newManifest("1.0.1"))})
	require.False(t, m.Faulted("cilium"))
	require.False(t, m.Faulted("unknown"))
}

// TestQuarantineOutlivesOtherLimits: an admin who raises the limits of a module that kills
// its workers sees at once whether that helped, but not by forgetting what it did.
func TestQuarantineOutlivesOtherLimits(t *testing.T) {
	cases := map[string]struct {
		reason  string
		digest  string
		crashes bool
		faulted bool
		wait    time.Duration
	}{
		"Helps":        {reason: "the module is well with what it has now", digest: "sha256:1"},
		"DoesNotHelp":  {reason: "it kills its worker again: the pause is the next one, and not the first", digest: "sha256:1", crashes: true, faulted: true, wait: 2 * probeFirst},
		"OtherVersion": {reason: "near miss: nothing is known of another digest", digest: "sha256:2", crashes: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m := newModules(t, epoch)
			call := func() {
				_, _, _ = granted(t, m, "cilium").Runtime.Call(t.Context(), "tenant", abi.ExportProvision, nil, nil)
			}
			bad := loadedAs(newManifest("1.0.0"))
			bad.call = func() (int32, error) { return 0, crash{died: true} }
			m.Put("cilium", Loaded{Digest: "sha256:1", Manifest: newManifest("1.0.0"), Runtime: bad})
			for range crashLimit {
				call()
			}
			_, err := m.Granted("cilium", capability.Grant{Capabilities: []abi.Function{abi.AppEnsure, abi.AppRemove}})
			require.Equal(t, abi.ReasonModuleFaulted, provisioner.OutcomeOf(err).Headline.Reason)

			memory := resource.MustParse("1Gi")
			next := loadedAs(newManifest("1.0.0"))
			if c.crashes {
				next.call = bad.call
			}
			m.Put("cilium", Loaded{Digest: c.digest, Manifest: newManifest("1.0.0"), Limits: &v1alpha1.ModuleLimits{Memory: &memory}, Runtime: next})
			require.Equal(t, c.digest == "sha256:1", m.Faulted("cilium"), "until it is seen to be well")
			call()
			require.Equal(t, c.faulted, m.Faulted("cilium"), c.reason)
			_, err = m.Granted("cilium", capability.Grant{Capabilities: []abi.Function{abi.AppEnsure, abi.AppRemove}})
			require.Equal(t, c.wait, provisioner.OutcomeOf(err).RetryAfter, c.reason)
		})
	}
}

// busyWorkers is what the sandbox says when it has not called a module.
type busyWorkers struct{}

func (busyWorkers) Error() string  { return "all of the 4 workers were busy for 10s" }
func (busyWorkers) Reason() string { return abi.ReasonWorkerBusy }

// TestCallsThatWereNotMade: neither the quarantine of a module nor what is known of its
// hanging ends with a call that was not made.
func TestCallsThatWereNotMade(t *testing.T) {
	for name, c := range map[string]struct {
		reason string
		err    error
		ends   bool
	}{
		"Busy":      {"others have the workers", fmt.Errorf("call: %w", busyWorkers{}), false},
		"Cancelled": {"the operator is shutting down", context.Canceled, false},
		"Closed":    {"another version takes its place", errors.New("the sandbox is closed"), false},
		"Trap":      {"near miss: it was called, and its worker is well", crash{died: false}, true},
		"OK":        {"near miss: it was called", nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			now := epoch()
			m := newModules(t, func() time.Time { return now })
			bad := loadedAs(newManifest("1.0.0"))
			next := error(crash{died: true})
			bad.call = func() (int32, error) { return 0, next }
			m.Put("cilium", Loaded{Digest: "sha256:1", Manifest: newManifest("1.0.0"), Runtime: bad})
			call := func() {
				_, _, err := granted(t, m, "cilium").Runtime.Call(t.Context(), "tenant", abi.ExportProvision, nil, nil)
				require.ErrorIs(t, err, next)
			}
			for range crashLimit {
				call()
			}
			m.entry("cilium").hung.Store(true)
			now = now.Add(probeFirst)
			next = c.err
			call()
			if name == "Busy" {
				_, _, err := granted(t, m, "cilium").Runtime.Call(t.Context(), "tenant", abi.ExportProvision, nil, nil)
				o := provisioner.OutcomeOf(err)
				require.Equal(t, abi.Yield, o.Class, "nothing is wrong with it")
				require.Equal(t, abi.ReasonWorkerBusy, o.Headline.Reason)
				require.Contains(t, o.Headline.Why, "all of the 4 workers were busy for 10s")
				require.InDelta(t, busyPause, o.RetryAfter, float64(busyPause)/2, "not all at once")
			}
			require.Equal(t, !c.ends, m.Faulted("cilium"), c.reason)
			require.Equal(t, !c.ends, m.entry("cilium").hung.Load(), c.reason)
		})
	}
}

func TestModuleVersion(t *testing.T) {
	m := newModule()
	m.Status.Digest = "sha256:1"
	versions := map[string]bool{moduleVersion(m): true}
	m.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ModuleReady, Status: metav1.ConditionTrue}}
	versions[moduleVersion(m)] = true
	m.Generation++
	versions[moduleVersion(m)] = true
	m.Status.Digest = "sha256:2"
	versions[moduleVersion(m)] = true
	require.Len(t, versions, 4, "readiness, the admin's word and the digest all count")
	before := moduleVersion(m)
	m.Status.Conditions[0].Message, m.Annotations, m.ResourceVersion = "other words", map[string]string{"touched": "yes"}, "7"
	require.Equal(t, before, moduleVersion(m), "near miss: whatever else is written on it does not")
}

// TestModulesHammer swaps a module while it is looked up and called: no call ever gets a
// mixture of two, and each that was replaced is closed once.
func TestModulesHammer(t *testing.T) {
	const swaps, readers = 200, 8
	m := newModules(t, epoch, newModule())
	all := make([]*fakeModule, swaps)
	for i := range all {
		all[i] = loadedAs(newManifest("1.0.0"))
		all[i].call = func() (int32, error) { return int32(i), nil }
	}
	put := func(i int) {
		m.Put("cilium", Loaded{Digest: fmt.Sprintf("sha256:%d", i), Manifest: newManifest("1.0.0"), Runtime: all[i]})
	}
	put(0)
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range readers {
		wg.Go(func() {
			for {
				instance, err := m.Module(context.Background(), "team", "cilium")
				if err != nil {
					t.Error(err)
					return
				}
				code, _, _ := instance.Runtime.Call(context.Background(), "tenant", abi.ExportProvision, nil, nil)
				if instance.Digest != fmt.Sprintf("sha256:%d", code) {
					t.Errorf("%s answered as %d", instance.Digest, code)
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for i := 1; i < swaps; i++ {
		put(i)
	}
	close(done)
	wg.Wait()
	m.Remove("cilium")
	for _, f := range all {
		require.EqualValues(t, 1, f.closed.Load())
	}
}
