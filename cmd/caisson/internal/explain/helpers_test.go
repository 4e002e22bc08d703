package explain_test

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/cmd/caisson/internal/explain"
	"github.com/caisson-dev/caisson/cmd/caisson/internal/tree/treetest"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// now is when the explanations are made: somebody has come to look.
func now() time.Time { return treetest.Start().Add(2 * time.Hour) }

func ago(d time.Duration) time.Time { return now().Add(-d) }

// scene is the Stack of the example at a moment of its life.
func scene(name string) *v1alpha1.Stack {
	for _, s := range treetest.Life() {
		if s.Name == name {
			return s.Stack
		}
	}
	return nil
}

// says gives a node a status.
func says(stack *v1alpha1.Stack, node, disposition, reason string, since time.Time) {
	n := treetest.Node(node, disposition, reason, since)
	for i := range stack.Status.Nodes {
		if stack.Status.Nodes[i].Name == node {
			stack.Status.Nodes[i] = n
			return
		}
	}
	stack.Status.Nodes = append(stack.Status.Nodes, n)
}

// stopped is the Stack after one node stopped with a reason, all others being OK.
func stopped(node, path string, d abi.Disposition, reason string) *v1alpha1.Stack {
	stack := scene("available").DeepCopy()
	since := ago(5 * time.Minute)
	says(stack, node, d.String(), reason, since)
	sentence, _ := abi.HostSentence(reason)
	message := sentence + " (" + reason + ")"
	if path != "" {
		stack.Status.Summary = "4/5"
		message = path + ": " + message
		for _, above := range strings.Split(path, "/") {
			says(stack, above, d.String(), reason, since)
		}
	}
	condition(stack, phaseOf(d), message, since)
	stack.Status.Inputs = []v1alpha1.InputRecord{
		{Scope: "home", Kind: "Module", Name: "cilium", ResourceVersion: "1"},
		{Scope: "home", Kind: "Secret", Namespace: "platform", Name: "workload-kubeconfig", ResourceVersion: "2"},
	}
	if d >= abi.UserActionRequired {
		stack.Status.Parked = &v1alpha1.Parked{
			Disposition: d.String(), Reason: reason, Path: path, Generation: stack.Generation, Since: metav1.NewTime(since),
		}
	}
	return stack
}

func phaseOf(d abi.Disposition) string {
	switch d {
	case abi.Yield:
		return v1alpha1.ReasonProvisioning
	case abi.Retry:
		return v1alpha1.ReasonRetrying
	case abi.OK:
		return v1alpha1.ReasonProvisioned
	default:
		return d.String()
	}
}

func condition(stack *v1alpha1.Stack, phase, message string, since time.Time) {
	status := metav1.ConditionFalse
	if phase == v1alpha1.ReasonProvisioned {
		status = metav1.ConditionTrue
	}
	stack.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ConditionAvailable, Status: status, Reason: phase, Message: message,
		ObservedGeneration: stack.Generation, LastTransitionTime: metav1.NewTime(since),
	}}
}

func absent(kind, name string) v1alpha1.InputRecord {
	return v1alpha1.InputRecord{Scope: "home", Kind: kind, Namespace: "platform", Name: name, Absent: true}
}

func module(name string, ready metav1.ConditionStatus, reason, message string) v1alpha1.Module {
	m := v1alpha1.Module{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1}}
	if ready != "" {
		m.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ModuleReady, Status: ready, Reason: reason, Message: message, ObservedGeneration: 1}}
	}
	return m
}

// state is a Stack and what belongs to it.
type state struct {
	name    string
	cluster explain.Cluster
}

// with changes a Stack that is made on the way.
func with(stack *v1alpha1.Stack, change func(*v1alpha1.Stack)) explain.Cluster {
	stack = stack.DeepCopy()
	change(stack)
	return explain.Cluster{Stack: stack}
}

func as(stack *v1alpha1.Stack) explain.Cluster { return with(stack, func(*v1alpha1.Stack) {}) }

func deleted(s *v1alpha1.Stack) {
	s.DeletionTimestamp = &metav1.Time{Time: ago(10 * time.Minute)}
	s.Finalizers = []string{v1alpha1.StackFinalizer}
	s.Status.Parked = nil
}

// states are those that a person may find a Stack in.
func states() []state {
	const storage = "all/platform/addons/storage"
	const user, terminal = abi.UserActionRequired, abi.Terminal
	cni := "all/platform/cni"
	catalogue := v1alpha1.Application{ObjectMeta: metav1.ObjectMeta{Name: "metrics-server"}}
	catalogue.Spec.Versions = []v1alpha1.ApplicationVersion{{Version: "3.12.1"}, {Version: "3.12.2"}}
	list := []state{
		{"new", as(scene("new"))},
		{"changed", with(scene("available"), func(s *v1alpha1.Stack) { s.Generation = 4 })},
		{"changed-in-a-pass", with(scene("available"), func(s *v1alpha1.Stack) {
			s.Generation = 4
			s.Status.Conditions = append(s.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReconciling, Status: metav1.ConditionTrue})
		})},
		{"no-remote", as(scene("no-remote"))},
		{"coming-up", as(scene("first"))},
		{"available", with(scene("available"), func(s *v1alpha1.Stack) {
			s.Status.LastPassTime = &metav1.Time{Time: ago(26 * time.Minute)}
			s.Status.Inputs = []v1alpha1.InputRecord{{Scope: "home", Kind: "Module", Name: "cilium"}, {Scope: "a1b2", Kind: "Secret", Namespace: "x", Name: "y"}}
			s.Status.Retained = []string{"Namespace gpu-operator"}
		})},
		{"secret-while-others-go-on", with(scene("secret"), func(s *v1alpha1.Stack) {
			s.Status.Inputs = []v1alpha1.InputRecord{absent("Secret", "cloud-config")}
		})},
		{"secret", with(stopped("storage", storage, user, abi.ReasonSecretMissing), func(s *v1alpha1.Stack) {
			s.Status.Inputs = append(s.Status.Inputs, absent("Secret", "cloud-config"))
		})},
		{"secret-two", with(stopped("storage", storage, user, abi.ReasonSecretMissing), func(s *v1alpha1.Stack) {
			s.Status.Inputs = append(s.Status.Inputs, absent("Secret", "cloud-config"), absent("ConfigMap", "zones"))
		})},
		{"secret-on-remote", with(stopped("storage", storage, user, abi.ReasonSecretMissing), func(s *v1alpha1.Stack) {
			s.Status.Inputs = append(s.Status.Inputs, v1alpha1.InputRecord{Scope: "a1b2", Kind: "Secret", Namespace: "kube-system", Name: "cloud-config", Absent: true})
		})},
		{"secret-key", with(stopped("storage", storage, user, abi.ReasonSecretMissing), func(s *v1alpha1.Stack) {
			s.Status.Inputs = append(s.Status.Inputs, v1alpha1.InputRecord{Scope: "home", Kind: "Secret", Namespace: "platform", Name: "cloud-config"})
		})},
		{"retry-asked", with(stopped("storage", storage, user, abi.ReasonSecretMissing), func(s *v1alpha1.Stack) {
			s.Annotations = map[string]string{v1alpha1.RetryAnnotation: "1"}
		})},
		{"kubeconfig-key", as(stopped("all", "all", user, abi.ReasonSecretMissing))},
		{"kubeconfig-invalid", as(stopped("all", "all", terminal, abi.ReasonInvalidKubeconfig))},
		{"remote-silent", as(stopped("all", "all", abi.Retry, abi.ReasonRemoteUnreachable))},
		{"values", with(stopped("metrics", "all/platform/addons/metrics", user, abi.ReasonValuesMissing), func(s *v1alpha1.Stack) {
			for i := range s.Spec.Provisioners {
				if app := s.Spec.Provisioners[i].Application; app != nil && s.Spec.Provisioners[i].Name == "metrics" {
					app.ValuesFrom = []v1alpha1.ValuesReference{{Kind: "ConfigMap", Name: "sizes"}, {Kind: "ConfigMap", Name: "extra", Optional: true}}
				}
			}
			s.Status.Inputs = append(s.Status.Inputs, absent("ConfigMap", "sizes"), absent("ConfigMap", "extra"))
		})},
		{"version", as(stopped("metrics", "all/platform/addons/metrics", terminal, abi.ReasonVersionNotFound))},
		{"forbidden", as(stopped("metrics", "all/platform/addons/metrics", user, abi.ReasonForbidden))},
		{"chart", as(stopped("metrics", "all/platform/addons/metrics", terminal, abi.ReasonChartNotFound))},
		{"stuck", as(stopped("metrics", "all/platform/addons/metrics", user, abi.ReasonApplicationStuck))},
		{"failed", as(stopped("cni", cni, abi.Retry, abi.ReasonChartUnavailable))},
		{"module-missing", as(stopped("cni", cni, user, abi.ReasonModuleNotFound))},
		{"module-not-allowed", as(stopped("cni", cni, user, abi.ReasonModuleNotAllowed))},
		{"module-not-ready", as(stopped("cni", cni, user, abi.ReasonModuleNotReady))},
		{"module-trap", as(stopped("cni", cni, terminal, abi.ReasonModuleTrap))},
		{"module-reason", with(stopped("cni", cni, user, "no_address"), func(s *v1alpha1.Stack) {
			says(s, "cni", "UserActionRequired", "no_address", ago(time.Hour))
			for i := range s.Status.Nodes {
				if s.Status.Nodes[i].Name == "cni" {
					s.Status.Nodes[i].Message = "The pool has no address left; give it more."
				}
			}
			condition(s, "UserActionRequired", cni+": The pool has no address left; give it more. (no_address)", ago(time.Hour))
		})},
		{"invalid", as(stopped("", "", terminal, abi.ReasonInvalidStack))},
		{"no-account", with(stopped("", "", user, abi.ReasonServiceAccountMissing), func(s *v1alpha1.Stack) { s.Spec.ServiceAccountName = "" })},
		{"suspended", with(stopped("storage", storage, user, abi.ReasonSecretMissing), func(s *v1alpha1.Stack) {
			s.Spec.Suspend = true
			condition(s, v1alpha1.ReasonSuspended, "The Stack is suspended; set spec.suspend to false to go on.", ago(time.Minute))
		})},
		{"deleted", as(scene("deleted"))},
		{"going", as(scene("going"))},
		{"going-from-a-silent-remote", with(stopped("all", "all", abi.Retry, abi.ReasonRemoteUnreachable), func(s *v1alpha1.Stack) {
			deleted(s)
			s.Spec.Suspend = true
		})},
		{"going-without-a-module", with(stopped("cni", cni, abi.Retry, abi.ReasonModuleNotReady), func(s *v1alpha1.Stack) { deleted(s) })},
		{"gone-with-losses", with(scene("available"), func(s *v1alpha1.Stack) {
			deleted(s)
			condition(s, v1alpha1.ReasonDeprovisioned, "Everything that could be reached is gone.", ago(time.Second))
			s.Status.Abandoned = []string{"remote workload (no answer for 15m)", "release cilium"}
			s.Status.Retained = []string{"Namespace gpu-operator"}
		})},
	}
	for i := range list {
		c := &list[i].cluster
		c.Modules = []v1alpha1.Module{
			module("storage", metav1.ConditionTrue, "Loaded", ""), module("ingress", metav1.ConditionTrue, "Loaded", ""), module("unused", "", "", ""),
		}
		switch list[i].name {
		case "module-missing":
			c.Modules = append(c.Modules, module("cilium2", metav1.ConditionTrue, "Loaded", ""))
		case "module-not-ready":
			c.Modules = append(c.Modules, module("cilium", metav1.ConditionFalse, "Unauthorized", "The registry wants credentials; set spec.pullSecret."))
		default:
			c.Modules = append(c.Modules, module("cilium", metav1.ConditionTrue, "Loaded", ""))
		}
		c.Applications = []v1alpha1.Application{catalogue}
	}
	list[0].cluster.Modules = append(list[0].cluster.Modules[:3:3], module("cilium", "", "", ""))
	list[0].cluster.Unread = []string{"Applications"}
	return list
}
