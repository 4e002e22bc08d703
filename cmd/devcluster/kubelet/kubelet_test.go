package kubelet

import (
	"context"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"
)

const (
	patience  = time.Minute
	pollEvery = 10 * time.Millisecond
)

// run runs a kubelet against a fake API that holds the objects, until the test ends.
func run(t *testing.T, objects ...runtime.Object) *fake.Clientset {
	t.Helper()

	client := fake.NewClientset(objects...)
	// The fake does not know what a binding means.
	client.PrependReactor("create", "pods", func(action kubetesting.Action) (bool, runtime.Object, error) {
		create, ok := action.(kubetesting.CreateAction)
		if !ok || action.GetSubresource() != "binding" {
			return false, nil, nil
		}
		binding, ok := create.GetObject().(*corev1.Binding)
		if !ok {
			return false, nil, nil
		}
		found, err := client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("pods"), binding.Namespace, binding.Name)
		if err != nil {
			return true, nil, err
		}
		bound, ok := found.DeepCopyObject().(*corev1.Pod)
		if ok {
			bound.Spec.NodeName = binding.Target.Name
			err = client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), bound, binding.Namespace)
		}

		return true, binding, err
	})

	factory := informers.NewSharedInformerFactory(client, 0)
	kubelet := New(client, factory, Options{NodeName: "node"})
	require.NoError(t, kubelet.RegisterNode(t.Context()))
	work, err := kubelet.Loops()
	require.NoError(t, err)

	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	factory.Start(ctx.Done())
	group.Go(func() { work(ctx) })
	t.Cleanup(func() {
		cancel()
		group.Wait()
		factory.Shutdown()
	})

	return client
}

func eventually(t *testing.T, condition func() bool) {
	t.Helper()

	require.Eventually(t, condition, patience, pollEvery)
}

func TestPodsBecomeReady(t *testing.T) {
	t.Parallel()

	held := pod(unbound, state(StatePending))
	held.Name, held.UID = "held", "held"
	client := run(t, pod(unbound), held)
	ready := func(name string) func() bool {
		return func() bool {
			found, err := client.CoreV1().Pods("ns").Get(t.Context(), name, metav1.GetOptions{})

			return err == nil && found.Spec.NodeName == "node" && condition(&found.Status, corev1.PodReady).Status == corev1.ConditionTrue
		}
	}
	eventually(t, ready("web"))

	eventually(t, func() bool {
		found, err := client.CoreV1().Pods("ns").Get(t.Context(), "held", metav1.GetOptions{})

		return err == nil && condition(&found.Status, corev1.PodScheduled).Reason == corev1.PodReasonUnschedulable
	})
	released, err := client.CoreV1().Pods("ns").Get(t.Context(), "held", metav1.GetOptions{})
	require.NoError(t, err)
	released.Annotations = nil
	_, err = client.CoreV1().Pods("ns").Update(t.Context(), released, metav1.UpdateOptions{})
	require.NoError(t, err)
	eventually(t, ready("held"))
}

func TestDeletionIsFinished(t *testing.T) {
	t.Parallel()

	going := pod(deleted(30))
	going.Finalizers = []string{"example.com/keep"} // the fake refuses deleted objects without one
	client := run(t, going)

	var deletion kubetesting.DeleteActionImpl
	eventually(t, func() bool {
		for _, action := range client.Actions() {
			if found, ok := action.(kubetesting.DeleteActionImpl); ok {
				deletion = found

				return true
			}
		}

		return false
	})
	require.Equal(t, int64(0), *deletion.DeleteOptions.GracePeriodSeconds)
	require.Equal(t, types.UID("11111111-2222"), *deletion.DeleteOptions.Preconditions.UID, "a successor of that name is spared")
}

func TestServices(t *testing.T) {
	t.Parallel()

	class := "example.com/other"
	service := func(name string, change func(*corev1.Service)) *corev1.Service {
		made := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
		change(made)

		return made
	}
	address := []corev1.LoadBalancerIngress{{IP: "198.18.9.9"}}
	cases := map[string]struct {
		reason  string
		service *corev1.Service
		want    bool
	}{
		"plain":   {"a balancer gets an address", service("plain", func(*corev1.Service) {}), true},
		"pending": {"unless it is held", service("pending", func(s *corev1.Service) { s.Annotations = map[string]string{StateAnnotation: "pending"} }), false},
		"lost": {"which also takes one away", service("lost", func(s *corev1.Service) {
			s.Annotations = map[string]string{StateAnnotation: "pending"}
			s.Status.LoadBalancer.Ingress = address
		}), false},
		"otherword": {"other states mean nothing here", service("otherword", func(s *corev1.Service) { s.Annotations = map[string]string{StateAnnotation: "crash"} }), true},
		"clusterip": {"other types have none", service("clusterip", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP }), false},
		"classed":   {"a class is someone else's", service("classed", func(s *corev1.Service) { s.Spec.LoadBalancerClass = &class }), false},
	}

	objects := make([]runtime.Object, 0, len(cases))
	for _, c := range cases {
		objects = append(objects, c.service)
	}
	client := run(t, objects...)
	has := func(name string) bool {
		found, err := client.CoreV1().Services("ns").Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)

		return len(found.Status.LoadBalancer.Ingress) > 0
	}
	eventually(t, func() bool { return has("plain") && has("otherword") && !has("lost") })
	for name, c := range cases {
		require.Equal(t, c.want, has(name), "%s: %s", name, c.reason)
	}
}

func TestClaims(t *testing.T) {
	t.Parallel()

	claim := func(name string, change func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
		made := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Finalizers: []string{protectionFinalizer}},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		}
		change(made)

		return made
	}
	gone := func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = &metav1.Time{Time: epoch} }
	user := pod(func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{
			{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "used"}}},
			{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
		}
	})
	client := run(t, user,
		claim("data", func(*corev1.PersistentVolumeClaim) {}),
		claim("held", func(c *corev1.PersistentVolumeClaim) { c.Annotations = map[string]string{StateAnnotation: "pending"} }),
		claim("unused", gone), claim("used", gone), claim("web-scratch", gone))
	get := func(name string) *corev1.PersistentVolumeClaim {
		found, err := client.CoreV1().PersistentVolumeClaims("ns").Get(t.Context(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		require.NoError(t, err)

		return found
	}
	released := func(name string) bool {
		found := get(name)

		return found == nil || len(found.Finalizers) == 0
	}

	eventually(t, func() bool { return get("data").Status.Phase == corev1.ClaimBound && released("unused") })
	require.Equal(t, resource.MustParse("1Gi"), get("data").Status.Capacity[corev1.ResourceStorage])
	require.Empty(t, get("held").Status.Phase, "held claims stay unbound")
	require.False(t, released("used"), "a pod still has it")
	require.False(t, released("web-scratch"), "an ephemeral volume is a claim too")

	require.NoError(t, client.CoreV1().Pods("ns").Delete(t.Context(), "web", metav1.DeleteOptions{}))
	eventually(t, func() bool { return released("used") && released("web-scratch") })
}

func TestRegisterNode(t *testing.T) {
	t.Parallel()

	old := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}}}
	cases := map[string]struct {
		reason  string
		objects []runtime.Object
	}{
		"New":     {"the first start creates it", nil},
		"Tainted": {"a later one takes it over", []runtime.Object{old}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			client := run(t, c.objects...)
			node, err := client.CoreV1().Nodes().Get(t.Context(), "node", metav1.GetOptions{})
			require.NoError(t, err)
			require.Empty(t, node.Spec.Taints, c.reason)
			require.Equal(t, corev1.ConditionTrue, node.Status.Conditions[0].Status, c.reason)
			require.NotZero(t, node.Status.Allocatable.Pods().Value(), c.reason)
		})
	}
}

func TestAddress(t *testing.T) {
	t.Parallel()

	seen := map[string]bool{}
	for _, uid := range []types.UID{"", "a", "b", "11111111-2222-3333-4444-555555555555", "11111111-2222-3333-4444-555555555556"} {
		for network, prefix := range map[uint16]string{podNetwork: "10.244.0.0/16", balancerNetwork: "198.18.0.0/16"} {
			text := address(network, uid)
			require.Equal(t, text, address(network, uid), "the same at every look")
			parsed, err := netip.ParseAddr(text)
			require.NoError(t, err)
			require.True(t, netip.MustParsePrefix(prefix).Contains(parsed), text)
			require.False(t, seen[text], "%s is used twice", text)
			seen[text] = true
		}
	}
}

func FuzzParseWish(f *testing.F) {
	for _, seed := range [][2]string{{"", ""}, {"crash", "5s"}, {"pending", " 1m "}, {"x", "5"}, {"fail", "-1s"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, state, after string) {
		parsed, err := parseWish(map[string]string{StateAnnotation: state, ReadyAfterAnnotation: after})
		if err != nil {
			require.Equal(t, wish{}, parsed)

			return
		}
		require.GreaterOrEqual(t, parsed.readyAfter, time.Duration(0))
		require.Equal(t, State(state), parsed.state)
	})
}
