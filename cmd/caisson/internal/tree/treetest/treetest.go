// Package treetest has the Stack of examples/platform at the moments of its life, for the
// tests of what shows Stacks.
package treetest

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// Start is when the Stack is made.
func Start() time.Time { return time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC) }

// Stack returns the Stack of examples/platform before any pass.
func Stack() *v1alpha1.Stack {
	stack := &v1alpha1.Stack{ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: "platform", Generation: 1}}
	stack.Spec = v1alpha1.StackSpec{
		ServiceAccountName: "platform",
		Remotes:            []v1alpha1.Remote{{Name: "workload", Owned: true, KubeconfigSecret: &v1alpha1.SecretKeyReference{Name: "workload-kubeconfig"}}},
		Root:               "all",
		Provisioners: []v1alpha1.Node{
			{Name: "all", RemoteCluster: &v1alpha1.RemoteClusterNode{Remote: "workload", Child: "platform"}},
			{Name: "platform", Serial: &v1alpha1.SerialNode{Children: []string{"cni", "addons", "gpu"}}},
			{Name: "addons", Concurrent: &v1alpha1.ConcurrentNode{Children: []string{"metrics", "storage", "ingress"}}},
			{Name: "gpu", Conditional: &v1alpha1.ConditionalNode{When: "parameters.gpu", Child: "gpu-operator"}},
			{Name: "cni", Module: &v1alpha1.ModuleNode{Ref: "cilium"}},
			{Name: "metrics", Application: &v1alpha1.ApplicationNode{Ref: "metrics-server"}},
			{Name: "storage", Module: &v1alpha1.ModuleNode{Ref: "storage"}},
			{Name: "ingress", Module: &v1alpha1.ModuleNode{Ref: "ingress"}},
			{Name: "gpu-operator", Application: &v1alpha1.ApplicationNode{Ref: "gpu-operator"}},
		},
	}
	return stack
}

// Node returns the status of a node of the Stack, with the host's own sentence for the
// reason.
func Node(name, disposition, reason string, since time.Time) v1alpha1.NodeStatus {
	sentence, _ := abi.HostSentence(reason)
	return v1alpha1.NodeStatus{Name: name, Disposition: disposition, Reason: reason, Message: sentence, LastTransitionTime: metav1.NewTime(since)}
}

// Scene is the Stack at a moment.
type Scene struct {
	Name  string
	At    time.Duration
	Stack *v1alpha1.Stack
}

// said is what a node says: disposition and reason, joined by a space.
type said map[string]string

// scenes collects scenes, with what nodes keep from one to the next.
type scenes struct {
	list  []Scene
	stack *v1alpha1.Stack
}

// add makes a scene of the one before it, of what nodes say now, and of the Stack's
// phase.
func (s *scenes) add(name string, at time.Duration, phase, headline string, nodes said) {
	now := Start().Add(at)
	stack := s.stack.DeepCopy()
	for node, text := range nodes {
		var disposition, reason string
		_, _ = fmt.Sscan(text, &disposition, &reason)
		put(stack, Node(node, disposition, reason, now))
	}
	stack.Status.ObservedGeneration = stack.Generation
	stack.Status.Summary = summary(stack)
	stack.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ConditionAvailable, Status: metav1.ConditionFalse, Reason: phase, Message: headline,
		ObservedGeneration: stack.Generation, LastTransitionTime: metav1.NewTime(now),
	}}
	if phase == v1alpha1.ReasonProvisioned {
		stack.Status.Conditions[0].Status = metav1.ConditionTrue
	}
	s.stack = stack
	s.list = append(s.list, Scene{Name: name, At: at, Stack: stack})
}

func put(stack *v1alpha1.Stack, node v1alpha1.NodeStatus) {
	for i, n := range stack.Status.Nodes {
		if n.Name == node.Name {
			stack.Status.Nodes[i] = node
			return
		}
	}
	stack.Status.Nodes = append(stack.Status.Nodes, node)
}

// summary counts leaves as the controller does.
func summary(stack *v1alpha1.Stack) string {
	ok, all := 0, 0
	for _, spec := range stack.Spec.Provisioners {
		if spec.Module == nil && spec.Application == nil {
			continue
		}
		all++
		for _, n := range stack.Status.Nodes {
			if n.Name == spec.Name && n.Disposition == abi.OK.String() {
				ok++
			}
		}
	}
	return fmt.Sprintf("%d/%d", ok, all)
}

// headline is the message that the controller makes of a finding.
func headline(path, reason string) string {
	sentence, _ := abi.HostSentence(reason)
	return fmt.Sprintf("%s: %s (%s)", path, sentence, reason)
}

// Life returns the Stack from its first moment to its last: it waits for its remote, comes
// up, is stopped by a missing Secret, is repaired, and is taken down.
func Life() []Scene {
	s := &scenes{stack: Stack()}
	s.list = append(s.list, Scene{Name: "new", Stack: Stack()})
	s.add("no-remote", time.Second, "Provisioning", headline("all", abi.ReasonRemotePending), said{"all": "Yield remote_pending"})
	s.add("first", 4*time.Second, "Provisioning", headline("all/platform/cni", abi.ReasonApplicationInstalling), said{
		"all": "Yield application_installing", "platform": "Yield application_installing", "cni": "Yield application_installing",
	})
	s.add("secret", 9*time.Second, "UserActionRequired", headline("all/platform/addons/storage", abi.ReasonSecretMissing), said{
		"all": "UserActionRequired secret_missing", "platform": "UserActionRequired secret_missing", "addons": "UserActionRequired secret_missing",
		"cni": "OK", "metrics": "Yield application_progressing", "storage": "UserActionRequired secret_missing", "ingress": "Retry chart_unavailable",
	})
	s.add("repaired", 3*time.Minute, "Provisioning", headline("all/platform/addons/storage", abi.ReasonApplicationWaiting), said{
		"all": "Yield application_progressing", "platform": "Yield application_progressing", "addons": "Yield application_progressing",
		"metrics": "OK", "storage": "Yield application_progressing", "ingress": "OK",
	})
	s.add("available", 4*time.Minute, "Provisioned", "Every node is as desired.", said{
		"all": "OK", "platform": "OK", "addons": "OK", "gpu": "OK", "storage": "OK", "gpu-operator": "OK",
	})
	deleted := s.stack.DeepCopy()
	deleted.Generation = 2
	deleted.DeletionTimestamp = &metav1.Time{Time: Start().Add(time.Hour)}
	deleted.Finalizers = []string{v1alpha1.StackFinalizer}
	s.stack = deleted
	s.list = append(s.list, Scene{Name: "deleted", At: time.Hour, Stack: deleted})
	s.add("going", time.Hour+5*time.Second, "Deprovisioning", headline("all/platform/addons/metrics", abi.ReasonApplicationDeleting), said{
		"all": "Yield application_deleting", "platform": "Yield application_deleting", "addons": "Yield application_deleting",
		"gpu": "Removed", "gpu-operator": "Removed", "metrics": "Yield application_deleting", "storage": "Removed",
	})
	return s.list
}
