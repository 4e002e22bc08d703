package host_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// pulseModule follows a reference, quickly.
func (r *rig) pulseModule(t *testing.T, name, reference string) {
	t.Helper()
	r.module(t, name, "reference: "+reference+`
pollInterval: 1s
allowedNamespaces: ["*"]
limits: {tableElements: 134217728}
grant: {capabilities: []}
`)
	r.awaitModule(t, name, "True/Loaded")
}

// pulseStack has as many nodes as it takes crashes until a module is left alone, so that
// it is found out in one pass.
const pulseStack = `
serviceAccountName: builder
root: all
provisioners:
  - {name: all, concurrent: {children: [a, b, c, d, e]}}
  - {name: a, module: {ref: MODULE}}
  - {name: b, module: {ref: MODULE}}
  - {name: c, module: {ref: MODULE}}
  - {name: d, module: {ref: MODULE}}
  - {name: e, module: {ref: MODULE}}
`

func (l *life) pulseStack(t *testing.T, name, module string) (client.ObjectKey, *timeline) {
	t.Helper()
	return l.start(t, name, changed(t, pulseStack, "MODULE", module))
}

// inUse waits until a Module is used at a digest.
func (r *rig) inUse(t *testing.T, name, digest string) *v1alpha1.Module {
	t.Helper()
	object := &v1alpha1.Module{}
	eventually(t, "Module "+name+" at "+digest, func() (bool, string) {
		require.NoError(t, r.admin.Get(t.Context(), client.ObjectKey{Name: name}, object))
		return object.Status.Digest == digest, object.Status.Digest
	})
	return object
}

// lifeModuleUpdated: another version under the same tag is picked up by the operator that
// runs; Stacks that use it are run again, and no others.
func lifeModuleUpdated(t *testing.T, r *rig) {
	l := &life{rig: r, namespace: r.tenant(t, "life-updated")}
	first := pushPulse(t, r.registry, "life/updated:1", "0.1.0", false)
	other := pushPulse(t, r.registry, "life/other:1", "0.1.1", false)
	r.pulseModule(t, "life-updated", r.registry.Ref("life/updated:1"))
	r.pulseModule(t, "life-other", r.registry.Ref("life/other:1"))
	key, trace := l.pulseStack(t, "follows", "life-updated")
	aside, untouched := l.pulseStack(t, "aside", "life-other")
	before := r.awaitStack(t, key, "True/Provisioned")
	apart := r.awaitStack(t, aside, "True/Provisioned")
	calls := func(module string) int { return sum(t, r.collectors, "caisson_module_calls_total", "module", module) }
	called, calledOther := calls("life-updated"), calls("life-other")

	trace.mark(t, "0.2.0 is pushed to the tag")
	second := pushPulse(t, r.registry, "life/updated:1", "0.2.0", false)
	require.NotEqual(t, first, second)
	require.Equal(t, "0.2.0", r.inUse(t, "life-updated", second).Status.Version)
	eventually(t, "the pass", func() (bool, string) {
		now := r.get(t, key)
		return now.Status.InputsDigest != before.Status.InputsDigest && calls("life-updated") >= called+5, fmt.Sprint(calls("life-updated") - called)
	})
	r.awaitStack(t, key, "True/Provisioned")
	require.Equal(t, called+5, calls("life-updated"), "each node was asked once")

	require.Equal(t, other, r.inUse(t, "life-other", other).Status.Digest)
	require.Equal(t, calledOther, calls("life-other"))
	require.Equal(t, apart.ResourceVersion, r.get(t, aside).ResourceVersion, "the other Stack was not touched")
	trace.compare(t, "module-updated")
	untouched.compare(t, "module-untouched")
	l.end(t, key)
	l.end(t, aside)
}

// lifeModuleFaulted: a version that kills its workers is left alone, and said to be
// faulted, while whoever stays at the version before is well; another version mends it.
func lifeModuleFaulted(t *testing.T, r *rig) {
	l := &life{rig: r, namespace: r.tenant(t, "life-faulted")}
	good := pushPulse(t, r.registry, "life/faulted:1", "1.1.0", false)
	r.pulseModule(t, "life-faulted", r.registry.Ref("life/faulted:1"))
	r.pulseModule(t, "life-pinned", r.registry.Ref("life/faulted@"+good))
	key, trace := l.pulseStack(t, "follows", "life-faulted")
	pinned, untouched := l.pulseStack(t, "pinned", "life-pinned")
	r.awaitStack(t, key, "True/Provisioned")
	apart := r.awaitStack(t, pinned, "True/Provisioned")

	trace.mark(t, "a version that kills its worker is pushed to the tag")
	bad := pushPulse(t, r.registry, "life/faulted:1", "1.2.0", true)
	message := r.awaitModule(t, "life-faulted", "False/"+v1alpha1.ModuleReasonFaulted)
	require.Contains(t, message, "publish a version that does not", "it says what to do")
	r.inUse(t, "life-faulted", bad)
	stack := r.awaitStack(t, key, "False/Retrying")
	require.Nil(t, stack.Status.Parked, "it is probed again")
	r.awaitModule(t, "life-pinned", "True/Loaded")
	require.Equal(t, apart.ResourceVersion, r.get(t, pinned).ResourceVersion, "the same module at the old digest is well")
	r.awaitNode(t, key, "a", "Retry", "module_faulted")

	trace.mark(t, "a version that is well is pushed to the tag")
	mended := pushPulse(t, r.registry, "life/faulted:1", "1.3.0", false)
	r.inUse(t, "life-faulted", mended)
	r.awaitModule(t, "life-faulted", "True/Loaded")
	r.awaitStack(t, key, "True/Provisioned")
	require.Equal(t, apart.ResourceVersion, r.get(t, pinned).ResourceVersion)
	trace.compare(t, "module-faulted")
	untouched.compare(t, "module-pinned")
	l.end(t, key)
	l.end(t, pinned)
}
