package host_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/internal/testenv"
	"github.com/caisson-dev/caisson/host/plan"
	"github.com/caisson-dev/caisson/host/scope"
)

// TestRemote holds the remote bracket against real control planes. Every scenario has
// namespaces, and roads to the clusters, of its own.
func TestRemote(t *testing.T) {
	r := needRig(t)
	r.lifeCharts(t, r.registry)
	r.lifeCatalogue(t, "remote", r.registry)
	scenarios := map[string]func(*testing.T, *rig){
		"Case060 Case061 Case063 Case067 Case076 Case078 Case080": remoteRotates,
		"Case065 registration forbidden":                          remoteForbidden,
		"Case068 one still going":                                 remoteStillGoing,
		"Case070 vanished cluster":                                remoteVanished,
		"Case073 stored credentials":                              remoteStored,
		"Case077 two identities":                                  remoteTwoIdentities,
		"Case071 Case075 nested":                                  remoteNested,
	}
	var all sync.WaitGroup
	defer all.Wait()
	for name, scenario := range scenarios {
		all.Go(func() { t.Run(name, func(t *testing.T) { scenario(t, r) }) })
	}
}

// remoteStack is webStack with a part that is switched off.
const remoteStack = `
serviceAccountName: builder
remotes:
  - {name: workload, owned: true, kubeconfigSecret: {name: workload-kubeconfig}}
root: all
provisioners:
  - {name: all, serial: {children: [on-a, gpu]}}
  - {name: on-a, remotecluster: {remote: workload, child: web}}
  - {name: web, application: {ref: remote-web, version: 3.13.0, namespace: PLACE}}
  - {name: gpu, conditional: {when: "false", child: on-b}}
  - {name: on-b, remotecluster: {remote: workload, child: gpu-operator}}
  - {name: gpu-operator, application: {ref: remote-gpu, namespace: PLACE}}
`

// registration reads the Secret that a remote of a Stack is registered with, or returns nil.
func (r *rig) registration(t *testing.T, key client.ObjectKey, remote string) *corev1.Secret {
	t.Helper()
	stack := r.get(t, key)
	secret := &corev1.Secret{}
	err := r.admin.Get(t.Context(), client.ObjectKey{Namespace: operatorNamespace, Name: "caisson-cluster-" + remoteHash(stack, remote)}, secret)
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(t, err)
	return secret
}

func remoteHash(stack *v1alpha1.Stack, remote string) string {
	return plan.RemoteID(scope.Owner{
		APIVersion: v1alpha1.GroupVersion().String(), Kind: "Stack", Namespace: stack.Namespace, Name: stack.Name, UID: string(stack.UID),
	}, remote).Hash()
}

func registered(t *testing.T, secret *corev1.Secret) (*clientcmdapi.Cluster, *clientcmdapi.AuthInfo) {
	t.Helper()
	require.NotNil(t, secret)
	config, err := clientcmd.Load(secret.Data["kubeconfig"])
	require.NoError(t, err)
	return config.Clusters["remote"], config.AuthInfos["remote"]
}

// token makes another administrator of the workload cluster, and returns its token.
func (l *life) token(t *testing.T) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: l.place, Name: "rotated"}}
	require.NoError(t, l.workloadAdmin.Create(t.Context(), account))
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: l.place},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: l.place, Name: "rotated"}},
	}
	require.NoError(t, l.workloadAdmin.Create(t.Context(), binding))
	request := &authenticationv1.TokenRequest{}
	require.NoError(t, l.workloadAdmin.SubResource("token").Create(t.Context(), account, request))
	return request.Status.Token
}

// remoteRotates: nothing is registered before the cluster answers; then once, with its token;
// what is switched off keeps it; another address and credential are taken up as they come;
// and it goes with the last application.
func remoteRotates(t *testing.T, r *rig) {
	l := r.life(t, "rotates")
	first, second := newRoad(t, r.workload), newRoad(t, r.workload)
	r.secret(t, l.namespace, "workload-kubeconfig", "value", kubeconfigVia(t, r.workload, first.server(), ""))
	key, trace := l.start(t, "web", remoteStack)
	r.awaitNode(t, key, "on-a", abi.Yield.String(), abi.ReasonRemoteUnreachable)
	require.Nil(t, r.registration(t, key, "workload"), "nothing is registered before it answers")

	trace.mark(t, "the cluster answers")
	first.clear(t)
	r.awaitStack(t, key, "True/Provisioned")
	before := r.registration(t, key, "workload")
	cluster, user := registered(t, before)
	require.Equal(t, first.server(), cluster.Server)
	require.NotEmpty(t, user.Token, "the token is carried over")
	web := l.deployment(t, "metrics-server")

	trace.mark(t, "the kubeconfig gets another server and another token")
	second.clear(t)
	token := l.token(t)
	r.secret(t, l.namespace, "workload-kubeconfig", "value", kubeconfigVia(t, r.workload, second.server(), token))
	eventually(t, "the new registration", func() (bool, string) {
		cluster, _ := registered(t, r.registration(t, key, "workload"))
		return cluster.Server == second.server(), cluster.Server
	})
	after := r.registration(t, key, "workload")
	_, user = registered(t, after)
	require.Equal(t, token, user.Token)
	require.Equal(t, before.UID, after.UID, "the same Secret")
	r.awaitStack(t, key, "True/Provisioned")
	same := l.deployment(t, "metrics-server")
	require.Equal(t, web.UID, same.UID)
	require.Equal(t, web.ResourceVersion, same.ResourceVersion, "nothing is installed again")
	require.Len(t, l.releases(t), 1)

	trace.mark(t, "the old way is closed, and the spec is changed")
	first.cut()
	r.edit(t, key, l.fill(changed(t, remoteStack, "3.13.0, namespace: PLACE}", "3.13.0, namespace: PLACE, values: {replicas: 2}}")))
	r.awaitStack(t, key, "True/Provisioned")
	require.EqualValues(t, 2, l.deployment(t, "metrics-server").Status.ReadyReplicas)
	trace.mark(t, "it is deleted")
	l.end(t, key)
	l.requireEmptyPlace(t)
	trace.compare(t, "remote-rotates")
}

// remoteStored: a deletion uses the registered kubeconfig when the Secret has gone first.
func remoteStored(t *testing.T, r *rig) {
	l := r.life(t, "stored")
	key, trace := l.start(t, "web", remoteStack)
	r.awaitStack(t, key, "True/Provisioned")
	trace.mark(t, "the kubeconfig's Secret goes, and the Stack is deleted")
	stack := r.get(t, key)
	require.NoError(t, r.admin.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: "workload-kubeconfig"}}))
	require.NoError(t, r.admin.Delete(t.Context(), stack))
	r.awaitGone(t, key)
	r.requireNothingKept(t, string(stack.UID))
	l.requireEmptyPlace(t)
	// A pass may come between the two, and it waits for the Secret; the deletion does not.
	_, deletion, found := strings.Cut(strings.Join(trace.told(), "\n"), "Stack Deprovisioning")
	require.True(t, found)
	require.NotContains(t, deletion, "remote_pending", "nobody waits for what is stored")
}

// remoteStillGoing: a remote stays registered until the last node on it is through.
func remoteStillGoing(t *testing.T, r *rig) {
	l := r.life(t, "going")
	key, _ := l.start(t, "web", changed(t, remoteStack, `when: "false"`, `when: "true"`))
	r.awaitStack(t, key, "True/Provisioned")
	const hold = "example.com/hold"
	l.editFinalizers(t, "gpu-operator", func(o client.Object) { controllerutil.AddFinalizer(o, hold) })
	stack := r.get(t, key)
	require.NoError(t, r.admin.Delete(t.Context(), stack))
	eventually(t, "the deletion of what is held", func() (bool, string) {
		return l.deployment(t, "gpu-operator").DeletionTimestamp != nil, "not yet"
	})
	r.awaitNode(t, key, "gpu-operator", abi.Yield.String(), abi.ReasonApplicationDeleting)
	require.NotNil(t, r.registration(t, key, "workload"), "one is still going")

	l.editFinalizers(t, "gpu-operator", func(o client.Object) { controllerutil.RemoveFinalizer(o, hold) })
	r.awaitGone(t, key)
	r.requireNothingKept(t, string(stack.UID))
	l.requireEmptyPlace(t)
}

// editFinalizers changes those of a Deployment, of which the garbage collector has its own.
func (l *life) editFinalizers(t *testing.T, name string, edit func(client.Object)) {
	t.Helper()
	require.NoError(t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		held := l.deployment(t, name)
		patch := client.MergeFromWithOptions(held.DeepCopy(), client.MergeFromWithOptimisticLock{})
		edit(held)
		return l.workloadAdmin.Patch(t.Context(), held, patch)
	}))
}

// remoteTwoIdentities: two Stacks on one server have a registration each, and the end of one
// leaves the other alone. One of them finds it as a virtual cluster.
func remoteTwoIdentities(t *testing.T, r *rig) {
	l := r.life(t, "identities")
	r.secret(t, l.namespace, "vc-dev", "config", kubeconfigVia(t, r.workload, "https://localhost:8443", ""))
	one, _ := l.start(t, "one", remoteStack)
	// The charts of the two would both own what has no prefix, so the second has another chart.
	virtual := changed(t, remoteStack, "kubeconfigSecret: {name: workload-kubeconfig}", "vcluster: {name: dev, server: "+r.workload.Config.Host+"}")
	two, _ := l.start(t, "two", changed(t, virtual, "ref: remote-web, version: 3.13.0", "ref: remote-gpu"))
	r.awaitStack(t, one, "True/Provisioned")
	r.awaitStack(t, two, "True/Provisioned")
	mine, theirs := r.registration(t, one, "workload"), r.registration(t, two, "workload")
	require.NotNil(t, mine)
	require.NotNil(t, theirs)
	require.NotEqual(t, mine.Name, theirs.Name)
	here, _ := registered(t, mine)
	there, _ := registered(t, theirs)
	require.Equal(t, here.Server, there.Server)

	l.end(t, one)
	require.Equal(t, theirs.ResourceVersion, r.registration(t, two, "workload").ResourceVersion)
	require.Equal(t, []string{"gpu-operator"}, l.deployed(t))
	r.awaitStack(t, two, "True/Provisioned")
	l.end(t, two)
	l.requireEmptyPlace(t)
}

// nestedStack is a cluster within a cluster, with an application on each.
const nestedStack = `
serviceAccountName: builder
remotes:
  - {name: workload, owned: true, kubeconfigSecret: {name: workload-kubeconfig}}
  - {name: inner, owned: true, within: workload, teardown: INNER, kubeconfigSecret: {name: inner-kubeconfig}}
root: all
provisioners:
  - {name: all, remotecluster: {remote: workload, child: both}}
  - {name: both, serial: {children: [gpu-operator, on-inner]}}
  - {name: gpu-operator, application: {ref: remote-gpu, namespace: PLACE}}
  - {name: on-inner, remotecluster: {remote: inner, child: web}}
  - {name: web, application: {ref: remote-web, version: 3.13.0, namespace: PLACE}}
`

// remoteNested: a remote whose kubeconfig lives on another one, on three control planes. It
// outlives the outer one if it must.
func remoteNested(t *testing.T, r *rig) {
	third := testenv.Start(t)
	inner, err := client.NewWithWatch(third.Config, client.Options{Scheme: r.admin.Scheme()})
	require.NoError(t, err)
	start := func(t *testing.T, name, teardown string) (*life, *road, client.ObjectKey, *timeline) {
		l := r.life(t, name)
		way := newRoad(t, r.workload)
		way.clear(t)
		r.secret(t, l.namespace, "workload-kubeconfig", "value", kubeconfigVia(t, r.workload, way.server(), ""))
		for _, there := range []client.Client{r.workloadAdmin, inner} {
			for _, namespace := range []string{l.namespace, l.place} {
				err := there.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
				require.NoError(t, client.IgnoreAlreadyExists(err))
			}
		}
		require.NoError(t, r.workloadAdmin.Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: "inner-kubeconfig"}, Data: map[string][]byte{"value": third.Kubeconfig},
		}))
		key, trace := l.start(t, "nested", changed(t, nestedStack, "INNER", teardown))
		r.awaitStack(t, key, "True/Provisioned")
		require.NotNil(t, r.registration(t, key, "workload"))
		require.NotNil(t, r.registration(t, key, "inner"))
		require.NoError(t, inner.Get(t.Context(), client.ObjectKey{Namespace: l.place, Name: "metrics-server"}, &appsv1.Deployment{}), "the web is on the inner one")
		require.Equal(t, []string{"gpu-operator"}, l.deployed(t), "and only the other on the outer one")
		return l, way, key, trace
	}
	left := func(t *testing.T, l *life) func() (bool, string) {
		return func() (bool, string) {
			deployments := &appsv1.DeploymentList{}
			require.NoError(t, inner.List(t.Context(), deployments, client.InNamespace(l.place)))
			return len(deployments.Items) == 0, strings.Join(names(deployments), ", ")
		}
	}
	t.Run("Case075 discarded", func(t *testing.T) {
		l, _, key, _ := start(t, "discarded", "Discard")
		l.end(t, key)
		l.requireEmptyPlace(t)
		eventually(t, "the end of what goes anyway", left(t, l))
	})
	t.Run("Case071 outer gone", func(t *testing.T) {
		l, way, key, trace := start(t, "outer", "Drain")
		trace.mark(t, "the outer cluster is gone, somebody says so, and the Stack is deleted")
		way.cut()
		stack := r.get(t, key)
		patch := client.MergeFrom(stack.DeepCopy())
		stack.Annotations = map[string]string{v1alpha1.GoneAnnotation: "workload"}
		require.NoError(t, r.admin.Patch(t.Context(), stack, patch))
		require.NoError(t, r.admin.Delete(t.Context(), stack))
		r.awaitGone(t, key)
		r.requireNothingKept(t, string(stack.UID))
		done, seen := left(t, l)()
		require.True(t, done, "the inner one is drained through its registration: %s", seen)
		trace.compare(t, "remote-outer-gone")
	})
	t.Run("Case079 home and current", func(t *testing.T) { remoteAsks(t, r, third, inner) })
	t.Run("paused", func(t *testing.T) { remotePaused(t, third) })
}
