package host_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/abi"
)

// remoteForbidden: a registration that is refused is told as what it is, and tried again.
func remoteForbidden(t *testing.T, r *rig) {
	l := r.life(t, "forbidden")
	key, _ := l.start(t, "web", suspended(remoteStack))
	r.awaitStack(t, key, "False/Suspended")
	name := "caisson-cluster-" + remoteHash(r.get(t, key), "workload")
	reason := metav1.StatusReasonForbidden
	in := metav1.ObjectMeta{Name: l.namespace + ".example.com"}
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: in, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}},
		}}}},
		Validations: []admissionv1.Validation{{Expression: "object.metadata.name != '" + name + "'", Reason: &reason}},
	}}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: in, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: in.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
	}}
	require.NoError(t, r.admin.Create(t.Context(), policy))
	require.NoError(t, r.admin.Create(t.Context(), binding))
	eventually(t, "the policy", func() (bool, string) {
		probe := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: name}}
		err := r.admin.Create(t.Context(), probe, client.DryRunAll)
		return apierrors.IsForbidden(err), "it is not in force yet"
	})
	r.edit(t, key, l.fill(remoteStack))
	r.awaitNode(t, key, "on-a", abi.Retry.String(), abi.ReasonRegistrationFailed)
	require.Nil(t, r.get(t, key).Status.Parked, "it is tried again")
	require.Empty(t, l.deployed(t), "nobody runs unregistered")

	require.NoError(t, r.admin.Delete(t.Context(), binding))
	require.NoError(t, r.admin.Delete(t.Context(), policy))
	r.awaitStack(t, key, "True/Provisioned")
	l.end(t, key)
	l.requireEmptyPlace(t)
}

// clusterCRD is as much of Cluster API as this operator looks at.
const clusterCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: clusters.cluster.x-k8s.io
  annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes-sigs/cluster-api"}
spec:
  group: cluster.x-k8s.io
  names: {kind: Cluster, listKind: ClusterList, plural: clusters, singular: cluster}
  scope: Namespaced
  versions:
  - name: v1beta2
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// remoteVanished: a remote of Cluster API is pending until its Secret comes, and in a
// deletion counts as gone when its Cluster does not exist and it is silent.
func remoteVanished(t *testing.T, r *rig) {
	l := r.life(t, "vanished")
	r.apply(t, clusterCRD)
	in := metav1.ObjectMeta{Namespace: l.namespace, Name: "clusters"}
	require.NoError(t, r.admin.Create(t.Context(), &rbacv1.Role{
		ObjectMeta: in, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"cluster.x-k8s.io"}, Resources: []string{"clusters"}, Verbs: []string{"get"}}},
	}))
	require.NoError(t, r.admin.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: in, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "clusters"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: l.namespace, Name: "builder"}},
	}))
	blue := &unstructured.Unstructured{}
	blue.SetAPIVersion("cluster.x-k8s.io/v1beta2")
	blue.SetKind("Cluster")
	blue.SetNamespace(l.namespace)
	blue.SetName("blue")
	eventually(t, "the Cluster", func() (bool, string) {
		err := r.admin.Create(t.Context(), blue.DeepCopy())
		return err == nil || apierrors.IsAlreadyExists(err), "the kind is not served yet"
	})

	way := newRoad(t, r.workload)
	spec := changed(t, remoteStack, "kubeconfigSecret: {name: workload-kubeconfig}", "unreachableGrace: 3s, clusterAPI: {name: blue}")
	key, trace := l.start(t, "web", spec)
	r.awaitNode(t, key, "on-a", abi.Yield.String(), abi.ReasonRemotePending)
	trace.mark(t, "the cluster is up")
	way.clear(t)
	r.secret(t, l.namespace, "blue-kubeconfig", "value", kubeconfigVia(t, r.workload, way.server(), ""))
	r.awaitStack(t, key, "True/Provisioned")

	trace.mark(t, "the cluster goes with its Cluster, and the Stack is deleted")
	way.cut()
	require.NoError(t, r.admin.Delete(t.Context(), blue))
	require.NoError(t, r.admin.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: "blue-kubeconfig"}}))
	stack := r.get(t, key)
	require.NoError(t, r.admin.Delete(t.Context(), stack))
	r.awaitGone(t, key)
	r.requireNothingKept(t, string(stack.UID))
	r.requireGivenUp(t, key, "did not answer, and whose Cluster does not exist any more")
	require.Equal(t, []string{"metrics-server"}, l.deployed(t), "nobody has reached it")
	require.NotEmpty(t, strings.Join(l.releases(t), ","))
	trace.compare(t, "remote-vanished")
}
