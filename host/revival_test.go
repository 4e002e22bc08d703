package host_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// TestCase105to107StateLifetimes: what an edit, a retry and neither of them make a module
// forget, through everything from the annotation to the guest.
func TestCase105to107StateLifetimes(t *testing.T) {
	r := needRig(t)
	namespace := r.tenant(t, "lifetimes")
	r.hostileModule(t, "patient")
	spec := func(n int) string {
		return fmt.Sprintf(`
serviceAccountName: builder
root: leaf
provisioners: [{name: leaf, module: {ref: patient, config: {behaviour: patient, n: %d}}}]
`, n)
	}
	key := r.stack(t, namespace, "web", spec(0))
	counts := func(want string, generation, sticky int) *v1alpha1.Stack {
		t.Helper()
		var stack *v1alpha1.Stack
		eventually(t, fmt.Sprintf("%s with %d and %d", want, generation, sticky), func() (bool, string) {
			stack = r.get(t, key)
			p, facts := stack.Status.Parked, stack.Status.Facts
			got := fmt.Sprintf("%s/%s", facts["generation"].Raw, facts["sticky"].Raw)
			done := p != nil && p.Disposition == want && p.Generation == stack.Generation &&
				p.RetryToken == stack.Annotations[v1alpha1.RetryAnnotation] && got == fmt.Sprintf("%d/%d", generation, sticky)
			return done, got
		})
		return stack
	}
	counts("UserActionRequired", 1, 1)
	r.edit(t, key, spec(1))
	counts("UserActionRequired", 1, 2) // Case 105: the count of the generation starts at 0.
	r.edit(t, key, spec(2))
	counts("UserActionRequired", 1, 3)
	r.edit(t, key, spec(3))
	stack := counts("Terminal", 0, 3) // Case 106: the module runs, sees the count, and gives up again.
	kept := r.stateOf(t, stack)
	require.Len(t, kept.Data, 1, "what was kept for the generation is gone")
	r.edit(t, key, spec(4))
	counts("Terminal", 0, 3)
	require.Equal(t, kept, r.stateOf(t, stack), "and there is no side effect, not even of the host")

	r.annotate(t, key, v1alpha1.RetryAnnotation, "now") // Case 107
	counts("UserActionRequired", 1, 1)
	r.annotate(t, key, v1alpha1.RetryAnnotation, "now")
	r.annotate(t, key, "caisson.dev/note", "the same token again")
	r.requireSleeps(t, key)
}

// stateOf is the Secret with the state of a Stack's modules.
func (r *rig) stateOf(t *testing.T, stack *v1alpha1.Stack) *corev1.Secret {
	t.Helper()
	list := &corev1.SecretList{}
	require.NoError(t, r.admin.List(t.Context(), list, client.InNamespace(operatorNamespace), client.MatchingLabels{"caisson.dev/owner-uid": string(stack.UID)}))
	for _, s := range list.Items {
		if s.Annotations["caisson.dev/state-generation"] != "" {
			return &s
		}
	}
	require.Fail(t, "no state is kept")
	return nil
}

// annotate sets an annotation of a Stack.
func (r *rig) annotate(t *testing.T, key client.ObjectKey, name, value string) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{name: value}}})
	require.NoError(t, err)
	stack := &v1alpha1.Stack{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	require.NoError(t, r.admin.Patch(t.Context(), stack, client.RawPatch("application/merge-patch+json", patch)))
}

// awaitParkedOn waits until a Stack waits for somebody, for a reason.
func (r *rig) awaitParkedOn(t *testing.T, key client.ObjectKey, reason string) *v1alpha1.Stack {
	t.Helper()
	var stack *v1alpha1.Stack
	eventually(t, key.Name+" parked on "+reason, func() (bool, string) {
		r.alive(t)
		stack = r.get(t, key)
		return stack.Status.Parked != nil && stack.Status.Parked.Reason == reason, describeStack(stack)
	})
	return stack
}

// TestParksReviveAndSleep: on a real control plane, near misses of everything that a
// parked Stack waits for leave it alone, all of them together; and then each thing that it
// waits for wakes it.
func TestParksReviveAndSleep(t *testing.T) {
	r := needRig(t)
	namespace, elsewhere := r.tenant(t, "revive"), r.tenant(t, "elsewhere")
	r.empower(t, namespace)
	r.hostileModule(t, "waits")
	r.catalogueEntry(t, "revive-web", "oci://"+r.registry.Ref("nowhere"), "web")
	application := func(version string) string {
		return `
serviceAccountName: builder
root: web
provisioners:
  - {name: web, application: {ref: revive-web, version: ` + version + `, namespace: ` + namespace + `, valuesFrom: [{kind: Secret, name: values}]}}
`
	}
	module := r.stack(t, namespace, "module", hostileStack("waits", "secret"))
	values := r.stack(t, namespace, "values", application("1.0.0"))
	version := r.stack(t, elsewhere, "version", application("2.0.0"))
	suspended := r.stack(t, elsewhere, "suspended", hostileStack("waits", "secret"))
	r.awaitParkedOn(t, module, abi.ReasonSecretMissing)
	r.awaitParkedOn(t, values, abi.ReasonValuesMissing)
	r.awaitParkedOn(t, version, abi.ReasonVersionNotFound)
	r.awaitParkedOn(t, suspended, abi.ReasonSecretMissing)
	r.quiesce(t)
	before, asked, counted := r.get(t, module), r.requests.count(), r.counters(t)

	r.annotate(t, module, "caisson.dev/note", "near miss")
	stack := r.get(t, module)
	stack.Labels = map[string]string{"near": "miss"}
	require.NoError(t, r.admin.Update(t.Context(), stack))
	meta.SetStatusCondition(&stack.Status.Conditions, metav1.Condition{Type: "Mesh", Status: metav1.ConditionTrue, Reason: "Joined"})
	require.NoError(t, r.admin.Status().Update(t.Context(), stack))
	r.secret(t, namespace, "tokens", "key", []byte("near miss"))
	other := r.tenant(t, "other")
	r.secret(t, other, "token", "key", []byte("near miss"))
	r.secret(t, other, "values", "values.yaml", []byte("near: miss"))
	r.create(t, foreignDeployment(namespace))
	entry := &v1alpha1.Application{}
	require.NoError(t, r.admin.Get(t.Context(), client.ObjectKey{Name: "revive-web"}, entry))
	entry.Labels = map[string]string{"near": "miss"}
	require.NoError(t, r.admin.Update(t.Context(), entry))
	r.quiesce(t)
	require.Equal(t, counted.calls, r.counters(t).calls, "no module call")
	require.Equal(t, counted.passes, r.counters(t).passes, "no pass")
	require.Empty(t, r.requests.since(asked), "no request at all")
	require.Equal(t, before.Status.Parked, r.get(t, module).Status.Parked)

	r.secret(t, namespace, "token", "key", []byte("hunter2"))
	r.awaitStack(t, module, "True/Provisioned")
	r.secret(t, namespace, "values", "values.yaml", []byte("[no map]"))
	r.awaitParkedOn(t, values, abi.ReasonInvalidConfig)
	r.secret(t, namespace, "values", "values.yaml", []byte("a: map"))
	r.awaitParkedOn(t, values, abi.ReasonChartNotFound)
	require.NoError(t, r.admin.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "values"}}))
	r.awaitParkedOn(t, values, abi.ReasonValuesMissing)
	entry.Spec.Versions = append(entry.Spec.Versions, v1alpha1.ApplicationVersion{Version: "2.0.0", Repo: entry.Spec.Versions[0].Repo, Chart: "web"})
	require.NoError(t, r.admin.Update(t.Context(), entry))
	r.awaitParkedOn(t, version, abi.ReasonValuesMissing)

	sleeper := r.get(t, suspended)
	sleeper.Spec.Suspend = true
	require.NoError(t, r.admin.Update(t.Context(), sleeper))
	r.awaitStack(t, suspended, "False/Suspended")
	r.secret(t, elsewhere, "token", "key", []byte("hunter2"))
	r.quiesce(t)
	sleeper = r.awaitStack(t, suspended, "False/Suspended")
	sleeper.Spec.Suspend = false
	require.NoError(t, r.admin.Update(t.Context(), sleeper))
	r.awaitStack(t, suspended, "True/Provisioned")

	require.NoError(t, r.admin.Delete(t.Context(), r.get(t, values)))
	r.awaitGone(t, values) // Case 109
}

// foreignDeployment looks like one that the driver installed, and belongs to somebody else.
func foreignDeployment(namespace string) *appsv1.Deployment {
	labels := map[string]string{"app.kubernetes.io/managed-by": "Helm", "app.kubernetes.io/name": "web"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "web", Labels: labels,
			Annotations: map[string]string{"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": namespace},
		},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
			},
		},
	}
}

// TestGrantedPermission: the API server tells nobody of a permission that is granted, so
// whoever grants it asks for a retry, as the Stack says.
func TestGrantedPermission(t *testing.T) {
	r := needRig(t)
	namespace := r.tenant(t, "granted")
	r.secret(t, namespace, "values", "values.yaml", []byte("a: map"))
	r.catalogueEntry(t, "granted-web", "oci://"+r.registry.Ref("nowhere"), "web")
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "builder"}}
	require.NoError(t, r.admin.Delete(t.Context(), role))
	key := r.stack(t, namespace, "web", applicationStack(namespace, "granted-web"))
	stack := r.awaitParkedOn(t, key, abi.ReasonForbidden)
	require.Contains(t, meta.FindStatusCondition(stack.Status.Conditions, v1alpha1.ConditionAvailable).Message, "set the annotation caisson.dev/retry")
	role.ResourceVersion = ""
	role.Rules = []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}
	require.NoError(t, r.admin.Create(t.Context(), role))
	r.requireSleeps(t, key)
	r.annotate(t, key, v1alpha1.RetryAnnotation, "granted")
	r.awaitParkedOn(t, key, abi.ReasonChartNotFound)
}
