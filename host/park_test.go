package host_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// requireSleeps checks that a parked Stack is left alone: nothing is asked of the API
// server on its account, and no pass runs.
func (r *rig) requireSleeps(t *testing.T, key client.ObjectKey) {
	t.Helper()
	r.quiesce(t)
	before, asked, counted := r.get(t, key), r.requests.count(), r.counters(t)
	r.quiesce(t)
	require.NotNil(t, before.Status.Parked)
	require.Equal(t, counted.passes, r.counters(t).passes)
	require.Empty(t, r.requests.since(asked))
	require.Equal(t, before.ResourceVersion, r.get(t, key).ResourceVersion)
}

// TestMissingSecretRevives: the Stack waits for somebody, without a clock, and goes on at
// once when they act.
func TestMissingSecretRevives(t *testing.T) {
	r := needRig(t)
	namespace := r.tenant(t, "secret")
	r.hostileModule(t, "reads-secret")
	key := r.stack(t, namespace, "web", hostileStack("reads-secret", "secret"))
	stack := r.awaitStack(t, key, "False/UserActionRequired")
	require.Equal(t, abi.ReasonSecretMissing, stack.Status.Parked.Reason)
	require.True(t, meta.IsStatusConditionTrue(stack.Status.Conditions, v1alpha1.ConditionStalled))
	require.Contains(t, stack.Status.Inputs, v1alpha1.InputRecord{Scope: "home", Kind: "Secret", Namespace: namespace, Name: "token", Absent: true})
	r.requireSleeps(t, key)

	r.secret(t, namespace, "other", "key", []byte("near miss"))
	r.requireSleeps(t, key)

	acted := time.Now()
	r.secret(t, namespace, "token", "key", []byte("ohnomysecret"))
	stack = r.awaitStack(t, key, "True/Provisioned")
	t.Logf("revived after %s", time.Since(acted).Round(time.Millisecond))
	require.Nil(t, stack.Status.Parked)
	require.False(t, meta.IsStatusConditionTrue(stack.Status.Conditions, v1alpha1.ConditionStalled))
}

// TestRetryAnnotation: a token revives once.
func TestRetryAnnotation(t *testing.T) {
	r := needRig(t)
	namespace := r.tenant(t, "retry")
	r.hostileModule(t, "asked-again")
	key := r.stack(t, namespace, "web", hostileStack("asked-again", "secret"))
	r.awaitStack(t, key, "False/UserActionRequired")
	r.quiesce(t)
	counted := r.counters(t)
	stack := r.get(t, key)
	stack.Annotations = map[string]string{v1alpha1.RetryAnnotation: "now"}
	require.NoError(t, r.admin.Update(t.Context(), stack))
	eventually(t, "the retry", func() (bool, string) {
		p := r.get(t, key).Status.Parked
		return p != nil && p.RetryToken == "now", fmt.Sprint(p)
	})
	require.Equal(t, counted.calls+1, r.counters(t).calls, "the module was asked again")
	r.requireSleeps(t, key)
}

// TestKubeconfigWithoutContext: a kubeconfig that cannot be used is said to be so, and
// replacing it is all that is needed.
func TestKubeconfigWithoutContext(t *testing.T) {
	r := needRig(t)
	namespace := r.tenant(t, "kubeconfig")
	r.hostileModule(t, "on-remote")
	var kept []string
	for _, line := range strings.Split(string(r.workload.Kubeconfig), "\n") {
		if !strings.HasPrefix(line, "current-context:") {
			kept = append(kept, line)
		}
	}
	broken := strings.Join(kept, "\n")
	require.NotEqual(t, broken, string(r.workload.Kubeconfig))
	r.secret(t, namespace, "workload-kubeconfig", "value", []byte(broken))
	key := r.stack(t, namespace, "web", `
serviceAccountName: builder
remotes:
  - {name: workload, owned: true, teardown: Drain, kubeconfigSecret: {name: workload-kubeconfig}}
root: remote
provisioners:
  - {name: remote, remotecluster: {remote: workload, child: leaf}}
  - name: leaf
    module: {ref: on-remote, config: {behaviour: ok}}
`)
	stack := r.awaitStack(t, key, "False/Terminal")
	require.Equal(t, abi.ReasonInvalidKubeconfig, stack.Status.Parked.Reason)
	r.requireSleeps(t, key)

	acted := time.Now()
	r.secret(t, namespace, "workload-kubeconfig", "value", r.workload.Kubeconfig)
	stack = r.awaitStack(t, key, "True/Provisioned")
	t.Logf("revived after %s", time.Since(acted).Round(time.Millisecond))

	require.NoError(t, r.admin.Delete(t.Context(), stack))
	eventually(t, "the deletion", func() (bool, string) {
		err := r.admin.Get(t.Context(), key, &v1alpha1.Stack{})
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
	r.requireNothingLeft(t, string(stack.UID))
}

const validTree = `
serviceAccountName: builder
root: all
provisioners:
  - {name: all, serial: {children: [leaf]}}
  - name: leaf
    module: {ref: in-tree, config: {behaviour: ok}}
`

// TestInvalidStacks: what the API server can see it refuses, with a message; the rest is
// parked, and correcting the spec revives it.
func TestInvalidStacks(t *testing.T) {
	r := needRig(t)
	namespace := r.tenant(t, "invalid")
	r.hostileModule(t, "in-tree")
	refused := map[string]struct{ reason, spec, says string }{
		"unknown child": {reason: "a name of nothing", says: "every child of a serial must name one of the provisioners", spec: `
root: all
provisioners: [{name: all, serial: {children: [nowhere]}}]
`},
		"two kinds": {reason: "a node is one thing", says: "exactly one kind", spec: `
root: all
provisioners: [{name: all, serial: {children: []}, concurrent: {children: []}}]
`},
		"unknown root": {reason: "a tree begins somewhere", says: "root must name one of the provisioners", spec: `
root: nowhere
provisioners: [{name: all, serial: {children: []}}]
`},
	}
	for name, c := range refused {
		t.Run(name, func(t *testing.T) {
			object := &v1alpha1.Stack{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "refused-"}}
			decode(t, c.spec, &object.Spec)
			err := r.admin.Create(t.Context(), object)
			require.True(t, apierrors.IsInvalid(err), "%s: %v", c.reason, err)
			require.ErrorContains(t, err, c.says)
		})
	}
	parked := map[string]struct{ reason, spec, code string }{
		"cycle": {reason: "the API server cannot see it", code: abi.ReasonInvalidStack, spec: `
serviceAccountName: builder
root: all
provisioners:
  - {name: all, serial: {children: [again]}}
  - {name: again, concurrent: {children: [all]}}
`},
		"second-parent": {reason: "a node stands in one place", code: abi.ReasonInvalidStack, spec: `
serviceAccountName: builder
root: all
provisioners:
  - {name: all, serial: {children: [leaf, more]}}
  - {name: more, serial: {children: [leaf]}}
  - {name: leaf, module: {ref: in-tree}}
`},
		"expression": {reason: "CEL that does not compile", code: abi.ReasonInvalidExpression, spec: `
serviceAccountName: builder
root: all
provisioners:
  - {name: all, module: {ref: in-tree, config: {behaviour: "${parameters.}"}}}
`},
		"no-account": {reason: "there is no default", code: abi.ReasonServiceAccountMissing, spec: `
root: all
provisioners:
  - {name: all, module: {ref: in-tree}}
`},
		"no-module": {reason: "nobody has made it", code: abi.ReasonModuleNotFound, spec: `
serviceAccountName: builder
root: all
provisioners:
  - {name: all, module: {ref: nowhere}}
`},
		"no-application": {reason: "the catalogue has none", code: abi.ReasonApplicationNotFound, spec: `
serviceAccountName: builder
root: all
provisioners:
  - {name: all, application: {ref: nowhere}}
`},
	}
	keys := map[string]client.ObjectKey{}
	for name, c := range parked {
		keys[name] = r.stack(t, namespace, name, c.spec)
	}
	for name, c := range parked {
		eventually(t, name+" parked", func() (bool, string) {
			p := r.get(t, keys[name]).Status.Parked
			return p != nil && p.Reason == c.code, fmt.Sprint(p)
		})
		stack := r.get(t, keys[name])
		sentence, _ := abi.HostSentence(c.code)
		require.Contains(t, meta.FindStatusCondition(stack.Status.Conditions, v1alpha1.ConditionAvailable).Message, sentence, c.reason)
	}
	for name := range parked {
		r.requireSleeps(t, keys[name])
		break // they sleep together
	}
	for name := range parked {
		r.edit(t, keys[name], validTree)
	}
	for name := range parked {
		require.Nil(t, r.awaitStack(t, keys[name], "True/Provisioned").Status.Parked)
	}
}
