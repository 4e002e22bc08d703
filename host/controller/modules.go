package controller

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/capability"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/module"
)

// allNamespaces in allowedNamespaces stands for every namespace.
const allNamespaces = "*"

// loadPoll is when to look again for a module that is being loaded. After a restart its
// status stays as it is, so that no event tells.
const loadPoll = 2 * time.Second

// LoadedModule is a module that is compiled and can be called.
type LoadedModule interface {
	module.Runtime
	// Manifest is the custom section of the file; nil if it has none.
	Manifest() []byte
	// Described is what the module says of itself when asked.
	Described() []byte
	// Limits are what its calls are held to.
	Limits() module.Limits
	Close()
}

// Modules holds the loaded modules and hands them to trees. A module stays in use under
// its old digest while a new one cannot be loaded. It is safe for concurrent use.
type Modules struct {
	reader  client.Reader
	metrics *Metrics
	clock   func() time.Time
	// workers is how many calls can be under way, width how many of one module may be.
	workers, width int
	// inside counts the calls that have been handed to the runtime, those included that wait
	// there for a worker.
	inside atomic.Int64
	// slow is the gate that the modules share whose last call ran into its deadline:
	// several that hang must not hold up more than one does.
	slow *gate
	// again is the gate of those whose own last call did so: half as wide as slow, so that
	// there is room for calls of which nothing is known yet, a deprovision among them.
	again *gate

	mu     sync.RWMutex
	loaded map[string]*loadedEntry
	notify []func(name string)
}

// Loaded is a module as it came out of a load.
type Loaded struct {
	// Digest is the manifest digest of the artifact.
	Digest   string
	Manifest abi.Manifest
	// Limits and Isolation are what it was loaded with; others need another load.
	Limits    *v1alpha1.ModuleLimits
	Isolation v1alpha1.Isolation
	Runtime   LoadedModule
}

// loadedEntry is one module in use.
type loadedEntry struct {
	Loaded
	breaker *breaker
	gate    *gate
	// hung says that the last call ran into its deadline.
	hung  atomic.Bool
	hangs hangs
}

// NewModules returns an empty registry that reads Module objects from a cache. workers is
// how many calls can be under way at a time, of which no module gets more than half.
func NewModules(reader client.Reader, metrics *Metrics, clock func() time.Time, workers int) *Modules {
	width := max(1, min(workers/2, gateWidth))
	return &Modules{
		reader: reader, metrics: metrics, clock: clock, loaded: map[string]*loadedEntry{},
		workers: workers, width: width, slow: newGate(width, gatePatience), again: newGate(width/2, gatePatience),
	}
}

// Module returns a module for a Stack in a namespace. Its errors are the provisioner's:
// module_not_found, module_not_allowed and a load that failed for good want somebody to
// act, module_not_ready and module_faulted pass by themselves.
func (m *Modules) Module(ctx context.Context, namespace, name string) (*module.Instance, error) {
	object := &v1alpha1.Module{}
	if err := m.reader.Get(ctx, types.NamespacedName{Name: name}, object); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, provisioner.UserActionRequired(abi.ReasonModuleNotFound, "module "+name)
		}
		return nil, provisioner.Retry(abi.ReasonUnexpected, "read module "+name).WithCause(err)
	}
	if !allowedIn(object, namespace) {
		return nil, provisioner.UserActionRequired(abi.ReasonModuleNotAllowed, "module "+name+" in namespace "+namespace)
	}
	entry := m.entry(name)
	if entry == nil {
		return nil, notReady(object)
	}
	return m.instance(name, entry, grantOf(object))
}

// Granted returns a module that was put without a Module object, with a grant that the
// program itself gives. The errors are those of [Modules.Module].
func (m *Modules) Granted(name string, grant capability.Grant) (*module.Instance, error) {
	entry := m.entry(name)
	if entry == nil {
		return nil, provisioner.UserActionRequired(abi.ReasonModuleNotFound, "module "+name)
	}
	return m.instance(name, entry, grant)
}

// instance is a loaded module for one pass, unless it may not do what it declares, or is
// being left alone.
func (m *Modules) instance(name string, entry *loadedEntry, grant capability.Grant) (*module.Instance, error) {
	if err := capability.Check(&entry.Manifest, grant); err != nil {
		return nil, provisioner.UserActionRequired(abi.ReasonModuleNotReady, "grant of module "+name).WithCause(err)
	}
	if wait := entry.breaker.wait(m.clock()); wait > 0 {
		return nil, provisioner.Retry(abi.ReasonModuleFaulted, "module "+name+" at "+entry.Digest).WithRetryAfter(wait)
	}
	return &module.Instance{
		Name: name, Digest: entry.Digest, Manifest: entry.Manifest, Grant: grant,
		Runtime: &countedRuntime{name: name, entry: entry, modules: m}, Limits: entry.Runtime.Limits(),
	}, nil
}

// Put makes a loaded module the one in use and closes the one before.
func (m *Modules) Put(name string, loaded Loaded) {
	m.mu.Lock()
	old := m.loaded[name]
	m.loaded[name] = &loadedEntry{Loaded: loaded, breaker: breakerAfter(old, loaded.Digest), gate: newGate(m.widthFor(loaded.Runtime.Limits()), gatePatience)}
	m.mu.Unlock()
	if old != nil {
		old.Runtime.Close()
	}
}

// breakerAfter returns the breaker of a module that replaces another. The crashes of a
// digest are not forgotten when it is loaded with other limits; but whoever changed these
// is shown at once whether that helped.
func breakerAfter(old *loadedEntry, digest string) *breaker {
	if old == nil || old.Digest != digest {
		return &breaker{}
	}
	old.breaker.probe()
	return old.breaker
}

// widthFor is how many calls of a module may be under way.
func (m *Modules) widthFor(limits module.Limits) int {
	if limits.Concurrency > 0 {
		return max(1, min(limits.Concurrency, m.workers))
	}
	return m.width
}

// InUse returns the manifest of a module if it is in use with this digest and on the terms
// of its spec, and nil if it has to be loaded.
func (m *Modules) InUse(name, digest string, spec *v1alpha1.ModuleSpec) *abi.Manifest {
	e := m.entry(name)
	if e == nil || e.Digest != digest || placed(e.Isolation) != placed(spec.Isolation) || !equality.Semantic.DeepEqual(e.Limits, spec.Limits) {
		return nil
	}
	return &e.Manifest
}

// placed is where a module runs, said or not.
func placed(isolation v1alpha1.Isolation) v1alpha1.Isolation {
	return cmp.Or(isolation, v1alpha1.IsolationWorker)
}

// Remove closes and forgets a module.
func (m *Modules) Remove(name string) {
	m.mu.Lock()
	old := m.loaded[name]
	delete(m.loaded, name)
	m.mu.Unlock()
	if old != nil {
		old.Runtime.Close()
	}
}

// Subscribe makes notify be called with the name of a module that begins or ceases to
// count as faulted. notify must not block.
func (m *Modules) Subscribe(notify func(name string)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.notify = append(m.notify, notify)
}

// faultChanged tells the subscribers.
func (m *Modules) faultChanged(name string) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, notify := range m.notify {
		notify(name)
	}
}

// Digest returns the digest that is in use, or "".
func (m *Modules) Digest(name string) string {
	if e := m.entry(name); e != nil {
		return e.Digest
	}
	return ""
}

// Faulted reports whether a module is being left alone after crashes.
func (m *Modules) Faulted(name string) bool {
	e := m.entry(name)
	return e != nil && e.breaker.open()
}

func (m *Modules) entry(name string) *loadedEntry {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.loaded[name]
}

// moduleVersion is what a tree depends on of a Module: the digest and whatever the admin
// decided.
func moduleVersion(object *v1alpha1.Module) string {
	version := object.Status.Digest + "/" + strconv.FormatInt(object.Generation, 10)
	if meta.IsStatusConditionTrue(object.Status.Conditions, v1alpha1.ModuleReady) {
		return version
	}
	return version + "/not-ready"
}

func allowedIn(object *v1alpha1.Module, namespace string) bool {
	return slices.Contains(object.Spec.AllowedNamespaces, namespace) || slices.Contains(object.Spec.AllowedNamespaces, allNamespaces)
}

// notReady tells a load that is on its way from one that waits for somebody.
func notReady(object *v1alpha1.Module) error {
	c := meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ModuleReady)
	if c == nil || c.Status != metav1.ConditionFalse || c.ObservedGeneration != object.Generation {
		return provisioner.Yield(abi.ReasonModuleNotReady, "module "+object.Name+" is being loaded").WithRetryAfter(loadPoll)
	}
	if c.Reason == v1alpha1.ModuleReasonRegistryUnavailable {
		err := provisioner.Retry(abi.ReasonModuleNotReady, "module "+object.Name+": "+c.Reason)
		if object.Status.Digest == "" {
			return err.WithCause(module.ErrNeverLoaded)
		}
		return err
	}
	return provisioner.UserActionRequired(abi.ReasonModuleNotReady, "module "+object.Name+": "+c.Reason)
}

// grantOf copies the grant of the API into the policy's own type.
func grantOf(object *v1alpha1.Module) capability.Grant {
	g := object.Spec.Grant
	grant := capability.Grant{}
	for _, c := range g.Capabilities {
		grant.Capabilities = append(grant.Capabilities, abi.Function(c))
	}
	for _, k := range g.Kube {
		grant.Kube = append(grant.Kube, capability.KubeRule{
			APIGroup: k.APIGroup, Kinds: k.Kinds, Verbs: k.Verbs, Namespaces: k.Namespaces, Scopes: kubeScopes(k.Scopes),
		})
	}
	for _, s := range g.Secrets {
		grant.Secrets = append(grant.Secrets, capability.SecretRule{
			Namespace: s.Namespace, Names: s.Names, Scopes: kubeScopes(s.Scopes), Raw: s.Raw,
		})
	}
	return grant
}

func kubeScopes(names []string) []abi.KubeScope {
	scopes := make([]abi.KubeScope, 0, len(names))
	for _, n := range names {
		scopes = append(scopes, abi.KubeScope(n))
	}
	return scopes
}

// countedRuntime bounds and counts the calls of a module and tells its breaker of crashes.
type countedRuntime struct {
	name    string
	entry   *loadedEntry
	modules *Modules
}

// Call implements module.Runtime. A module that is stuck in other calls is a Yield.
func (c *countedRuntime) Call(ctx context.Context, tenant, export string, input []byte,
	host func(ctx context.Context, name string, request []byte) []byte,
) (int32, []byte, error) {
	leave, err := c.enter(ctx, export)
	if err != nil {
		return 0, nil, err
	}
	defer leave()
	c.modules.inside.Add(1)
	defer c.modules.inside.Add(-1)
	start := time.Now()
	code, output, err := c.entry.Runtime.Call(ctx, tenant, export, input, host)
	c.modules.metrics.observeCall(c.name, export, code, err, time.Since(start))
	if !happened(err) {
		return code, output, c.notCalled(err)
	}
	c.entry.hung.Store(timedOut(err))
	c.entry.hangs.note(ctx, export, err)
	if c.entry.breaker.observe(err, c.modules.clock()) {
		c.modules.faultChanged(c.name)
	}
	return code, output, err
}
