package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

const (
	areaCluster = "cluster"
	// leaseName is that of the Lease by which the operator elects its leader.
	leaseName = "caisson-operator"
	// maxNamed bounds how many objects a line names.
	maxNamed = 5
)

// Reader is what [Cluster] reads with.
type Reader interface {
	Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error
	List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error
}

// Unconnected is the check of a cluster that there is no way to.
func Unconnected(result Result, err error) []Check {
	return []Check{{
		Area: areaCluster, Name: "connection", Result: result, Says: err.Error(),
		Remedy: "name a cluster with --kubeconfig or $KUBECONFIG",
	}}
}

// Cluster looks at the definitions, the operator, the Modules and the Stacks of a cluster.
// namespace is the operator's.
func Cluster(ctx context.Context, c Reader, namespace string, now time.Time) []Check {
	modules, stacks := &v1alpha1.ModuleList{}, &v1alpha1.StackList{}
	connection := Check{Area: areaCluster, Name: "connection", Result: OK, Says: "the API server answers"}
	definitions := Check{Area: areaCluster, Name: "definitions", Result: OK, Says: "Stacks, Modules, Applications and Blueprints are served"}
	var missing, unread []string
	for _, kind := range []struct {
		name string
		list client.ObjectList
	}{{"Stacks", stacks}, {"Modules", modules}, {"Applications", &v1alpha1.ApplicationList{}}, {"Blueprints", &v1alpha1.BlueprintList{}}} {
		switch err := c.List(ctx, kind.list); {
		case err == nil:
		case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
			missing = append(missing, kind.name)
		case apierrors.IsForbidden(err):
			unread = append(unread, kind.name)
		default:
			connection.Result, connection.Says = Failed, err.Error()
			connection.Remedy = "check that the cluster runs, and that the kubeconfig is current"
			return []Check{connection}
		}
	}
	switch {
	case len(missing) > 0:
		definitions.Result, definitions.Says = Failed, "the cluster does not serve "+strings.Join(missing, ", ")
		definitions.Remedy = "install Caisson's definitions: kubectl apply -k deploy"
		return []Check{connection, definitions}
	case len(unread) > 0:
		definitions.Result, definitions.Says = Skipped, "you may not list "+strings.Join(unread, ", ")
	}
	checks := []Check{connection, definitions, operator(ctx, c, namespace, now)}
	if !slices.Contains(unread, "Modules") {
		checks = append(checks, modulesReady(modules.Items))
	}
	if !slices.Contains(unread, "Stacks") {
		checks = append(checks, stacksAvailable(stacks.Items))
	}
	return checks
}

// operator looks at the Lease, which a leader renews all the time.
func operator(ctx context.Context, c Reader, namespace string, now time.Time) Check {
	check := Check{Area: areaCluster, Name: "operator"}
	lease := &unstructured.Unstructured{}
	lease.SetGroupVersionKind(schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"})
	where := fmt.Sprintf("Lease %s/%s", namespace, leaseName)
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: leaseName}, lease)
	switch {
	case apierrors.IsForbidden(err):
		check.Result, check.Says = Skipped, "you may not read "+where
		return check
	case apierrors.IsNotFound(err):
		check.Result, check.Says = Warning, "there is no "+where
		check.Remedy = "start the operator in namespace " + namespace + ", or name its namespace with --operator-namespace; one that runs without leader election has no Lease, and is to be looked at by its own log"
		return check
	case err != nil:
		check.Result, check.Says, check.Remedy = Failed, err.Error(), "check that the cluster runs"
		return check
	}
	holder, _, _ := unstructured.NestedString(lease.Object, "spec", "holderIdentity")
	seconds, _, _ := unstructured.NestedInt64(lease.Object, "spec", "leaseDurationSeconds")
	text, _, _ := unstructured.NestedString(lease.Object, "spec", "renewTime")
	renewed, err := time.Parse(time.RFC3339, text)
	overdue := now.Sub(renewed) - time.Duration(seconds)*time.Second
	switch {
	case holder == "":
		check.Result, check.Says = Failed, "nobody leads: the last leader gave its Lease back"
	case err != nil || overdue > 0:
		check.Result, check.Says = Failed, fmt.Sprintf("nobody leads: %s renewed its Lease last at %s", holder, text)
	default:
		check.Result, check.Says = OK, holder+" leads"
		return check
	}
	check.Remedy = "start the operator, or look at why it ended; nothing is provisioned meanwhile"
	return check
}

func modulesReady(modules []v1alpha1.Module) Check {
	check := Check{Area: areaCluster, Name: "modules", Result: OK, Says: fmt.Sprintf("%d of %d are ready", len(modules), len(modules))}
	var bad []string
	for i := range modules {
		ready := meta.FindStatusCondition(modules[i].Status.Conditions, v1alpha1.ConditionReady)
		switch {
		case ready == nil:
			bad = append(bad, modules[i].Name+" (nobody has looked at it yet)")
		case ready.Status != metav1.ConditionTrue:
			bad = append(bad, fmt.Sprintf("%s (%s: %s)", modules[i].Name, ready.Reason, ready.Message))
		}
	}
	if len(bad) > 0 {
		check.Result = Warning
		check.Says = fmt.Sprintf("%d of %d are not ready: %s", len(bad), len(modules), named(bad))
		check.Remedy = "see what to do in the conditions: kubectl describe modules.caisson.dev"
	}
	return check
}

func stacksAvailable(stacks []v1alpha1.Stack) Check {
	check := Check{Area: areaCluster, Name: "stacks", Result: OK, Says: fmt.Sprintf("%d of %d are Available", len(stacks), len(stacks))}
	var bad []string
	first := ""
	for i := range stacks {
		s := &stacks[i]
		available := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionAvailable)
		if available != nil && available.Status == metav1.ConditionTrue {
			continue
		}
		reason := "Pending"
		if available != nil {
			reason = available.Reason
		}
		bad = append(bad, fmt.Sprintf("%s/%s (%s)", s.Namespace, s.Name, reason))
		if first == "" {
			first = fmt.Sprintf("%s -n %s", s.Name, s.Namespace)
		}
	}
	if len(bad) > 0 {
		check.Result = Warning
		check.Says = fmt.Sprintf("%d of %d are not Available: %s", len(bad), len(stacks), named(bad))
		check.Remedy = "ask why: caisson stack explain " + first
	}
	return check
}

// named is a list that is not too long for a line.
func named(names []string) string {
	if more := len(names) - maxNamed; more > 0 {
		names = append(slices.Clone(names[:maxNamed]), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}
