package host_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// hostileModule creates a Module of the hostile guest that is not given much.
func (r *rig) hostileModule(t *testing.T, name string) {
	t.Helper()
	r.guestModule(t, name, "limits: {timeout: 1s, memory: 64Mi}")
}

// guestModule creates a Module of the hostile guest with limits, or with the usual ones.
func (r *rig) guestModule(t *testing.T, name, limits string) {
	t.Helper()
	r.module(t, name, `
reference: registry.example.com/modules/hostile:1
allowedNamespaces: ["*"]
grant:
  capabilities: [secret_read]
  secrets: [{namespace: $(owner), names: [token]}]
`+limits)
	r.awaitModule(t, name, "True/Loaded")
}

// hostileStack is a Stack of one node that behaves so.
func hostileStack(module, behaviour string) string {
	return fmt.Sprintf(`
serviceAccountName: builder
root: leaf
provisioners:
  - name: leaf
    module: {ref: %s, config: {behaviour: %s}}
`, module, behaviour)
}

// TestHostileModules: each way to misbehave has its own reason on the node, and hurts
// nobody else.
func TestHostileModules(t *testing.T) {
	r := needRig(t)
	cases := map[string]struct {
		reason      string
		limits      string
		disposition abi.Disposition
		code        string
	}{
		"loop":       {reason: "killed at the deadline", disposition: abi.Retry, code: abi.ReasonTimeout},
		"loops":      {reason: "killed long before it, for what it computed", limits: "{timeout: 5m, cpu: 300ms}", disposition: abi.Retry, code: abi.ReasonCPUExceeded},
		"nag":        {reason: "stopped when it does not listen", limits: "{timeout: 5m, hostCalls: 10}", disposition: abi.Retry, code: abi.ReasonHostCallsExceeded},
		"nags":       {reason: "nor to another limit", limits: "{timeout: 5m, hostCallTotal: 1Ki}", disposition: abi.Retry, code: abi.ReasonHostBytesExceeded},
		"allocate":   {reason: "stopped at the limit", disposition: abi.Retry, code: abi.ReasonMemoryExceeded},
		"trap":       {reason: "its own fault, and final after five", disposition: abi.Terminal, code: abi.ReasonModuleTrap},
		"seven":      {reason: "no disposition", disposition: abi.Retry, code: abi.ReasonModuleBadCode},
		"garbage":    {reason: "no JSON", disposition: abi.Retry, code: abi.ReasonModuleBadOutput},
		"undeclared": {reason: "a reason that nobody could inspect is not shown", disposition: abi.UserActionRequired, code: abi.ReasonUnspecified},
	}
	namespace := r.tenant(t, "hostile")
	r.hostileModule(t, "innocent")
	for behaviour, c := range cases {
		if c.limits == "" {
			c.limits = "{timeout: 1s, memory: 64Mi}"
		}
		r.guestModule(t, "hostile-"+behaviour, "limits: "+c.limits)
	}
	keys := map[string]client.ObjectKey{}
	for behaviour := range cases {
		// Where one way meets several limits, the name says it in the plural.
		keys[behaviour] = r.stack(t, namespace, behaviour, hostileStack("hostile-"+behaviour, strings.TrimSuffix(behaviour, "s")))
	}
	innocent := r.stack(t, namespace, "innocent", hostileStack("innocent", "ok"))
	for behaviour, c := range cases {
		r.awaitNode(t, keys[behaviour], "leaf", c.disposition.String(), c.code)
		stack := r.get(t, keys[behaviour])
		require.False(t, meta.IsStatusConditionTrue(stack.Status.Conditions, v1alpha1.ConditionAvailable), c.reason)
		for _, condition := range stack.Status.Conditions {
			require.NotContains(t, condition.Message, "hunter2", "the why of a guest is for the log")
		}
	}
	r.awaitStack(t, innocent, "True/Provisioned")
	r.alive(t)
}

// TestLimitCeiling: a Module above a ceiling says both numbers and is not loaded, one that
// is in use goes on with what it has, and one at the ceiling is fine.
func TestLimitCeiling(t *testing.T) {
	r := needRig(t)
	const spec = `
reference: registry.example.com/modules/hostile:1
allowedNamespaces: ["*"]
grant:
  capabilities: [secret_read]
  secrets: [{namespace: $(owner), names: [token]}]
`
	namespace := r.tenant(t, "ceiling")
	r.module(t, "ceiling", spec+"limits: {hostCalls: 5001}")
	message := r.awaitModule(t, "ceiling", "False/LimitTooHigh")
	require.Equal(t, "spec.limits.hostCalls is 5001, and this operator allows 5000 at most; ask for less, or start the operator with higher --module-limit-ceilings", message)
	key := r.stack(t, namespace, "waits", hostileStack("ceiling", "ok"))
	r.awaitNode(t, key, "leaf", abi.UserActionRequired.String(), abi.ReasonModuleNotReady)

	limit := func(calls int64) {
		eventually(t, "the edit", func() (bool, string) {
			object := &v1alpha1.Module{}
			require.NoError(t, r.admin.Get(t.Context(), client.ObjectKey{Name: "ceiling"}, object))
			object.Spec.Limits.HostCalls = &calls
			err := r.admin.Update(t.Context(), object)
			return err == nil, fmt.Sprint(err)
		})
	}
	limit(5000)
	r.awaitModule(t, "ceiling", "True/Loaded")
	r.awaitStack(t, key, "True/Provisioned")
	limit(5001)
	message = r.awaitModule(t, "ceiling", "True/LimitTooHigh")
	require.Contains(t, message, "with the limits of before: spec.limits.hostCalls is 5001, and this operator allows 5000 at most")
	r.awaitStack(t, key, "True/Provisioned")
}

// TestInProcessIsRefused: an operator that was not told to trust anybody does not.
func TestInProcessIsRefused(t *testing.T) {
	r := needRig(t)
	const spec = `
reference: registry.example.com/modules/hostile:1
allowedNamespaces: ["*"]
grant:
  capabilities: [secret_read]
  secrets: [{namespace: $(owner), names: [token]}]
`
	r.module(t, "trusted", spec+"isolation: InProcess")
	message := r.awaitModule(t, "trusted", "False/InProcessNotAllowed")
	require.Contains(t, message, "start the operator with --allow-in-process if the module is trusted like the operator itself")
	eventually(t, "the edit", func() (bool, string) {
		object := &v1alpha1.Module{}
		require.NoError(t, r.admin.Get(t.Context(), client.ObjectKey{Name: "trusted"}, object))
		object.Spec.Isolation = v1alpha1.IsolationWorker
		err := r.admin.Update(t.Context(), object)
		return err == nil, fmt.Sprint(err)
	})
	r.awaitModule(t, "trusted", "True/Loaded")
}

// TestFactsSurvive: facts come back from the API server as they were published, nulls and
// large numbers included, so that a pass that finds the same writes nothing.
func TestFactsSurvive(t *testing.T) {
	r := needRig(t)
	namespace := r.tenant(t, "facts")
	r.hostileModule(t, "publishes")
	key := r.stack(t, namespace, "web", hostileStack("publishes", "facts"))
	r.awaitStack(t, key, "True/Provisioned")
	r.quiesce(t)
	before := r.get(t, key)
	require.JSONEq(t, `{"n":9007199254740993,"id":null,"a":1}`, string(before.Status.Facts["net"].Raw))
	require.Contains(t, string(before.Status.Facts["net"].Raw), "9007199254740993")
	require.Contains(t, before.Status.Facts, "none")

	// What an admin decides about a module is an input of its readers.
	counted := r.counters(t)
	module := &v1alpha1.Module{}
	require.NoError(t, r.admin.Get(t.Context(), client.ObjectKey{Name: "publishes"}, module))
	module.Spec.AllowedNamespaces = []string{namespace}
	require.NoError(t, r.admin.Update(t.Context(), module))
	eventually(t, "the pass", func() (bool, string) {
		now := r.counters(t)
		return now.passes > counted.passes, fmt.Sprintf("%+v", now)
	})
	r.quiesce(t)
	require.Greater(t, r.counters(t).calls, counted.calls, "the module was asked again")
	after := r.get(t, key)
	require.Equal(t, before.Status.Facts, after.Status.Facts)
	require.NotEqual(t, before.Status.InputsDigest, after.Status.InputsDigest)
}
