package main

import (
	"net"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/caisson-dev/caisson/cmd/devcluster/kubelet"
)

// TestCluster runs one cluster and checks in it what charts and operators rely on.
func TestCluster(t *testing.T) {
	t.Parallel()

	path := filepath.Join(t.TempDir(), "kubeconfig")
	cluster := launch(t, roleDevcluster, "--dir", filepath.Dir(path))
	cluster.awaitFile(t, path)
	config, err := clientcmd.BuildConfigFromFlags("", path)
	require.NoError(t, err)
	config.QPS, config.Burst = 200, 400

	cases := map[string]func(t *testing.T, config *rest.Config, client kubernetes.Interface, namespace string){
		"deployment":    testDeployment,
		"crashing":      testCrashing,
		"loadbalancer":  testLoadBalancer,
		"statefulset":   testStatefulSet,
		"daemonset":     testDaemonSet,
		"jobs":          testJobs,
		"identity":      testIdentity,
		"owner":         testOwner,
		"customowner":   testCustomOwner,
		"briefjob":      testBriefJob,
		"privileged":    testPrivileged,
		"accounttokens": testAccountTokenSecret,
	}
	t.Run("Cases", func(t *testing.T) {
		for name, run := range cases {
			t.Run(name, func(t *testing.T) {
				t.Parallel()

				client, err := kubernetes.NewForConfig(config)
				require.NoError(t, err)
				createNamespace(t, client, name)
				run(t, config, client, name)

				// Whatever a case leaves behind, its namespace must go away with it.
				require.NoError(t, client.CoreV1().Namespaces().Delete(t.Context(), name, metav1.DeleteOptions{}))
				eventually(t, func() bool {
					_, err := client.CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{})

					return apierrors.IsNotFound(err)
				})
			})
		}
	})
	require.Empty(t, cluster.errors.String(), "all of that is no reason to log an error")
}

func testDeployment(t *testing.T, _ *rest.Config, client kubernetes.Interface, namespace string) {
	t.Helper()

	createDeployment(t, client, namespace, map[string]string{kubelet.ReadyAfterAnnotation: "1s"})
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}},
	}}
	_, err := client.CoreV1().Services(namespace).Create(t.Context(), service, metav1.CreateOptions{})
	require.NoError(t, err)

	eventually(t, func() bool {
		deployment, err := client.AppsV1().Deployments(namespace).Get(t.Context(), "web", metav1.GetOptions{})

		return err == nil && deployment.Status.AvailableReplicas == 2 && available(deployment)
	})
	eventually(t, func() bool {
		slices, err := client.DiscoveryV1().EndpointSlices(namespace).List(t.Context(), metav1.ListOptions{})

		return err == nil && len(slices.Items) == 1 && len(slices.Items[0].Endpoints) == 2
	})
	eventually(t, func() bool {
		_, err := client.CoreV1().ConfigMaps(namespace).Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})

		return err == nil
	})
}

func testCrashing(t *testing.T, _ *rest.Config, client kubernetes.Interface, namespace string) {
	t.Helper()

	createDeployment(t, client, namespace, map[string]string{kubelet.StateAnnotation: string(kubelet.StateCrash)})
	var pods *corev1.PodList
	eventually(t, func() bool {
		var err error
		pods, err = client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})

		return err == nil && len(pods.Items) == 2 && len(pods.Items[0].Status.ContainerStatuses) == 1
	})
	require.Equal(t, "CrashLoopBackOff", pods.Items[0].Status.ContainerStatuses[0].State.Waiting.Reason)

	deployment, err := client.AppsV1().Deployments(namespace).Get(t.Context(), "web", metav1.GetOptions{})
	require.NoError(t, err)
	require.False(t, available(deployment))
}

func testLoadBalancer(t *testing.T, _ *rest.Config, client kubernetes.Interface, namespace string) {
	t.Helper()

	services := client.CoreV1().Services(namespace)
	spec := corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}}
	held := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "held", Annotations: map[string]string{kubelet.StateAnnotation: "pending"}}, Spec: spec}
	held, err := services.Create(t.Context(), held, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = services.Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "open"}, Spec: spec}, metav1.CreateOptions{})
	require.NoError(t, err)

	hasAddress := func(name string) func() bool {
		return func() bool {
			service, err := services.Get(t.Context(), name, metav1.GetOptions{})

			return err == nil && len(service.Status.LoadBalancer.Ingress) == 1
		}
	}
	eventually(t, hasAddress("open"))
	require.False(t, hasAddress("held")(), "made before the other one, and still without an address")

	held.Annotations = nil
	_, err = services.Update(t.Context(), held, metav1.UpdateOptions{})
	require.NoError(t, err)
	eventually(t, hasAddress("held"))
}

func testStatefulSet(t *testing.T, _ *rest.Config, client kubernetes.Interface, namespace string) {
	t.Helper()

	replicas := int32(2)
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: appsv1.StatefulSetSpec{
		Replicas: &replicas,
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
		Template: template("db", nil, corev1.RestartPolicyAlways),
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}}},
	}}
	_, err := client.AppsV1().StatefulSets(namespace).Create(t.Context(), set, metav1.CreateOptions{})
	require.NoError(t, err)
	eventually(t, func() bool {
		set, err := client.AppsV1().StatefulSets(namespace).Get(t.Context(), "db", metav1.GetOptions{})

		return err == nil && set.Status.AvailableReplicas == 2
	})
	eventually(t, func() bool {
		claim, err := client.CoreV1().PersistentVolumeClaims(namespace).Get(t.Context(), "data-db-1", metav1.GetOptions{})

		return err == nil && claim.Status.Phase == corev1.ClaimBound
	})
}

func testDaemonSet(t *testing.T, _ *rest.Config, client kubernetes.Interface, namespace string) {
	t.Helper()

	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "cni"}, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "cni"}},
		Template: template("cni", nil, corev1.RestartPolicyAlways),
	}}
	_, err := client.AppsV1().DaemonSets(namespace).Create(t.Context(), set, metav1.CreateOptions{})
	require.NoError(t, err)
	eventually(t, func() bool {
		set, err := client.AppsV1().DaemonSets(namespace).Get(t.Context(), "cni", metav1.GetOptions{})

		return err == nil && set.Status.NumberAvailable == 1
	})
}

func testJobs(t *testing.T, _ *rest.Config, client kubernetes.Interface, namespace string) {
	t.Helper()

	jobs := client.BatchV1().Jobs(namespace)
	noRetries := int32(0)
	for name, state := range map[string]kubelet.State{"good": kubelet.StateNone, "bad": kubelet.StateFail} {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{
			BackoffLimit: &noRetries,
			Template:     template(name, map[string]string{kubelet.StateAnnotation: string(state)}, corev1.RestartPolicyNever),
		}}
		_, err := jobs.Create(t.Context(), job, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	ended := func(name string, as batchv1.JobConditionType) func() bool {
		return func() bool {
			job, err := jobs.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return false
			}
			for _, condition := range job.Status.Conditions {
				if condition.Type == as && condition.Status == corev1.ConditionTrue {
					return true
				}
			}

			return false
		}
	}
	eventually(t, ended("good", batchv1.JobComplete))
	eventually(t, ended("bad", batchv1.JobFailed))
}

func testIdentity(t *testing.T, config *rest.Config, client kubernetes.Interface, namespace string) {
	t.Helper()

	_, err := client.CoreV1().ServiceAccounts(namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "tenant"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	request, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "tenant", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)

	byToken := rest.AnonymousClientConfig(config)
	byToken.BearerToken = request.Status.Token
	byImpersonation := rest.CopyConfig(config)
	byImpersonation.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + namespace + ":tenant"}
	identities := map[string]*rest.Config{"token": byToken, "impersonation": byImpersonation}

	create := func(config *rest.Config, namespace, name string) error {
		tenant, err := kubernetes.NewForConfig(config)
		require.NoError(t, err)
		_, err = tenant.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})

		return err
	}
	for name, config := range identities {
		require.True(t, apierrors.IsForbidden(create(config, namespace, name)), "before the binding, by %s", name)
	}

	// "edit" is an aggregated role: this fails if nothing fills it.
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "tenant"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "tenant"}},
	}
	_, err = client.RbacV1().RoleBindings(namespace).Create(t.Context(), binding, metav1.CreateOptions{})
	require.NoError(t, err)
	for name, config := range identities {
		eventually(t, func() bool { return create(config, namespace, name) == nil })
		require.True(t, apierrors.IsForbidden(create(config, metav1.NamespaceDefault, name)), "in another namespace, by %s", name)
	}
}

func testOwner(t *testing.T, _ *rest.Config, client kubernetes.Interface, namespace string) {
	t.Helper()

	maps := client.CoreV1().ConfigMaps(namespace)
	owner, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	owned := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}
	_, err = maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owned", OwnerReferences: []metav1.OwnerReference{owned}}}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, maps.Delete(t.Context(), "owner", metav1.DeleteOptions{}))
	eventually(t, func() bool {
		_, err := maps.Get(t.Context(), "owned", metav1.GetOptions{})

		return apierrors.IsNotFound(err)
	})
}

// testCustomOwner deletes a custom resource: the collector must have learnt of its kind, which did not exist when it started.
func testCustomOwner(t *testing.T, config *rest.Config, client kubernetes.Interface, namespace string) {
	t.Helper()

	objects, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	definitions := objects.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	definition := map[string]any{}
	require.NoError(t, yaml.Unmarshal([]byte(widgetDefinition), &definition))
	_, err = definitions.Create(t.Context(), &unstructured.Unstructured{Object: definition}, metav1.CreateOptions{})
	require.NoError(t, err)

	widgets := objects.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}).Namespace(namespace)
	var owner *unstructured.Unstructured
	eventually(t, func() bool {
		widget := map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "owner"}}
		owner, err = widgets.Create(t.Context(), &unstructured.Unstructured{Object: widget}, metav1.CreateOptions{})

		return err == nil // the kind is served a moment after its definition is accepted
	})
	owned := metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Widget", Name: "owner", UID: owner.GetUID()}
	owns := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owned", OwnerReferences: []metav1.OwnerReference{owned}}}
	_, err = client.CoreV1().ConfigMaps(namespace).Create(t.Context(), owns, metav1.CreateOptions{})
	require.NoError(t, err)

	require.NoError(t, widgets.Delete(t.Context(), "owner", metav1.DeleteOptions{}))
	eventually(t, func() bool {
		_, err := client.CoreV1().ConfigMaps(namespace).Get(t.Context(), "owned", metav1.GetOptions{})

		return apierrors.IsNotFound(err)
	})
}

const widgetDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`

// testBriefJob has a Job that is removed as soon as it has finished.
func testBriefJob(t *testing.T, _ *rest.Config, client kubernetes.Interface, namespace string) {
	t.Helper()

	soon := int32(0)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "brief"}, Spec: batchv1.JobSpec{
		TTLSecondsAfterFinished: &soon,
		Template:                template("brief", nil, corev1.RestartPolicyNever),
	}}
	_, err := client.BatchV1().Jobs(namespace).Create(t.Context(), job, metav1.CreateOptions{})
	require.NoError(t, err)
	eventually(t, func() bool {
		_, err := client.BatchV1().Jobs(namespace).Get(t.Context(), "brief", metav1.GetOptions{})

		return apierrors.IsNotFound(err)
	})
}

func testPrivileged(t *testing.T, _ *rest.Config, client kubernetes.Interface, namespace string) {
	t.Helper()

	privileged := true
	pod := template("agent", nil, corev1.RestartPolicyAlways)
	pod.Spec.HostNetwork = true
	pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &privileged}
	_, err := client.CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "agent"}, Spec: pod.Spec}, metav1.CreateOptions{})
	require.NoError(t, err)
	eventually(t, func() bool {
		pod, err := client.CoreV1().Pods(namespace).Get(t.Context(), "agent", metav1.GetOptions{})

		return err == nil && pod.Status.Phase == corev1.PodRunning && pod.Status.PodIP == pod.Status.HostIP
	})
}

func testAccountTokenSecret(t *testing.T, config *rest.Config, client kubernetes.Interface, namespace string) {
	t.Helper()

	secret := &corev1.Secret{Type: corev1.SecretTypeServiceAccountToken, ObjectMeta: metav1.ObjectMeta{
		Name: "token", Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"},
	}}
	_, err := client.CoreV1().Secrets(namespace).Create(t.Context(), secret, metav1.CreateOptions{})
	require.NoError(t, err)
	var token string
	eventually(t, func() bool {
		filled, err := client.CoreV1().Secrets(namespace).Get(t.Context(), "token", metav1.GetOptions{})
		if err == nil {
			token = string(filled.Data[corev1.ServiceAccountTokenKey])
		}

		return token != ""
	})

	account := rest.AnonymousClientConfig(config)
	account.BearerToken = token
	byToken, err := kubernetes.NewForConfig(account)
	require.NoError(t, err)
	// The API server finds Secret and account of a token in its own informers, which follow.
	var review *authenticationv1.SelfSubjectReview
	eventually(t, func() bool {
		review, err = byToken.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})

		return !apierrors.IsUnauthorized(err)
	})
	require.NoError(t, err)
	require.Equal(t, "system:serviceaccount:"+namespace+":default", review.Status.UserInfo.Username)
}

func createDeployment(t *testing.T, client kubernetes.Interface, namespace string, annotations map[string]string) {
	t.Helper()

	replicas := int32(2)
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas,
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		Template: template("web", annotations, corev1.RestartPolicyAlways),
	}}
	_, err := client.AppsV1().Deployments(namespace).Create(t.Context(), deployment, metav1.CreateOptions{})
	require.NoError(t, err)
}

func template(app string, annotations map[string]string, restart corev1.RestartPolicy) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}, Annotations: annotations},
		Spec:       corev1.PodSpec{RestartPolicy: restart, Containers: []corev1.Container{{Name: "main", Image: "example.invalid/" + app}}},
	}
}

func available(deployment *appsv1.Deployment) bool {
	for _, condition := range deployment.Status.Conditions {
		if condition.Type == appsv1.DeploymentAvailable {
			return condition.Status == corev1.ConditionTrue
		}
	}

	return false
}

// createNamespace creates a namespace and waits until pods may be created in it.
func createNamespace(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()

	_, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(t, err)
	eventually(t, func() bool {
		_, err := client.CoreV1().ServiceAccounts(name).Get(t.Context(), "default", metav1.GetOptions{})

		return err == nil
	})
}

func requireNamespace(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()

	_, err := client.CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
}

func connect(t *testing.T, path string) kubernetes.Interface {
	t.Helper()

	config, err := clientcmd.BuildConfigFromFlags("", path)
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)

	return client
}

// requireSelfContained checks what a program demands that does not trust a kubeconfig's author: data inline, no files, no
// commands.
func requireSelfContained(t *testing.T, data []byte) {
	t.Helper()

	config, err := clientcmd.Load(data)
	require.NoError(t, err)
	require.Contains(t, config.Contexts, config.CurrentContext)
	for _, cluster := range config.Clusters {
		require.NotEmpty(t, cluster.CertificateAuthorityData)
		require.Empty(t, cluster.CertificateAuthority)
		require.False(t, cluster.InsecureSkipTLSVerify)
		require.Empty(t, cluster.ProxyURL)
	}
	for _, user := range config.AuthInfos {
		require.NotEmpty(t, user.Token)
		require.Empty(t, user.TokenFile)
		require.Empty(t, user.ClientCertificate)
		require.Nil(t, user.Exec)
		require.Nil(t, user.AuthProvider)
	}
}

// takenPort returns a port that is listened on until the test ends.
func takenPort(t *testing.T) string {
	t.Helper()

	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	address, ok := listener.Addr().(*net.TCPAddr)
	require.True(t, ok)

	return strconv.Itoa(address.Port)
}

func eventually(t *testing.T, condition func() bool) {
	t.Helper()

	require.Eventually(t, condition, patience, pollEvery)
}
