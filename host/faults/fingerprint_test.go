package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

const ownerLabel = "caisson.dev/owner-uid"

// recorded is an entry of an inventory, as the driver writes it.
type recorded struct {
	Path      string
	Scope     string
	Release   string
	Namespace string
	Version   string
	Chart     string
	Objects   []any
	Omitted   int
	Retained  []string
	Action    any
}

// view collects what there is, one line for each thing, and then makes it comparable.
type view struct {
	lines []string
	// names are what differs from run to run, with what to write instead.
	names map[string]string
}

func (v *view) addf(format string, args ...any) {
	v.lines = append(v.lines, fmt.Sprintf(format, args...))
}

// volatile is what differs from run to run and is in no list of names.
var volatile = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{16,}`)

// sorted returns the lines with everything replaced that differs from run to run.
func (v *view) sorted() []string {
	var pairs []string
	// Longer names first: one may begin with another.
	for _, name := range slices.SortedFunc(maps.Keys(v.names), func(a, b string) int { return len(b) - len(a) }) {
		pairs = append(pairs, name, v.names[name])
	}
	replacer := strings.NewReplacer(pairs...)
	lines := make([]string, 0, len(v.lines))
	for _, line := range v.lines {
		lines = append(lines, volatile.ReplaceAllString(replacer.Replace(line), "#"))
	}
	slices.Sort(lines)
	return lines
}

// fingerprint is everything that there is because of the Stack of the lane, on both
// clusters and in words that are the same in every run.
func (l *lane) fingerprint(ctx context.Context) ([]string, error) {
	v := &view{names: map[string]string{l.tenant(): "LANE", l.bench.registry.Host: "REGISTRY"}}
	if err := l.viewStack(ctx, v); err != nil {
		return nil, err
	}
	if err := l.viewHome(ctx, v); err != nil {
		return nil, err
	}
	if err := l.viewWorkload(ctx, v); err != nil {
		return nil, err
	}
	return v.sorted(), nil
}

// viewStack takes down what the status says, but for times and versions.
func (l *lane) viewStack(ctx context.Context, v *view) error {
	stack := &v1alpha1.Stack{}
	err := l.admin.Get(ctx, l.key(), stack)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	s := stack.Status
	for _, c := range s.Conditions {
		v.addf("Stack: condition %s=%s %s %s", c.Type, c.Status, c.Reason, c.Message)
	}
	for _, n := range s.Nodes {
		v.addf("Stack: node %s (%s) %s %s", n.Path, n.Kind, n.Disposition, n.Reason)
	}
	for name, fact := range s.Facts {
		v.addf("Stack: fact %s %s", name, fact.Raw)
	}
	for _, i := range s.Inputs {
		v.addf("Stack: input %s %s %s/%s", i.Scope, i.Kind, i.Namespace, i.Name)
	}
	v.addf("Stack: summary %s retained %v abandoned %v parked %t current %t deleted %t", s.Summary, s.Retained, s.Abandoned, s.Parked != nil,
		s.ObservedGeneration == stack.Generation, stack.DeletionTimestamp != nil)
	return nil
}

// viewHome takes down what the operator keeps: the inventory entry by entry.
func (l *lane) viewHome(ctx context.Context, v *view) error {
	secrets := &corev1.SecretList{}
	if err := l.admin.List(ctx, secrets); err != nil {
		return err
	}
	for _, s := range secrets.Items {
		owned := s.Labels[ownerLabel] != ""
		if s.Namespace != l.tenant() && !owned {
			continue
		}
		for key, raw := range s.Data {
			switch {
			case strings.HasPrefix(key, "application."):
				if err := v.entry(raw); err != nil {
					return err
				}
			case strings.HasPrefix(s.Name, "caisson-state-"):
				var state struct{ Token string }
				if err := json.Unmarshal(raw, &state); err != nil {
					return err
				}
				v.names[state.Token] = "TOKEN"
				v.addf("home: state %s", raw)
			case strings.Contains(s.Name, "kubeconfig"), key == "kubeconfig":
				v.addf("home: Secret %s/%s %s of %d bytes", s.Namespace, s.Name, key, len(raw)/16)
			default:
				v.addf("home: Secret %s/%s %s=%s", s.Namespace, s.Name, key, raw)
			}
		}
	}
	return nil
}

// entry takes down an entry of an inventory, and learns the name of its release.
func (v *view) entry(raw []byte) error {
	var e recorded
	if err := json.Unmarshal(raw, &e); err != nil {
		return err
	}
	v.names[e.Release] = "<" + e.Path + ">"
	e.Scope = ""
	again, err := json.Marshal(e)
	if err != nil {
		return err
	}
	v.addf("home: inventory %s", again)
	return nil
}

// kinds are what charts and Helm make on the workload cluster.
func kinds() []schema.GroupVersionKind {
	core, apps := corev1.SchemeGroupVersion, appsv1.SchemeGroupVersion
	return []schema.GroupVersionKind{
		core.WithKind("ConfigMap"), core.WithKind("Secret"), core.WithKind("Service"), core.WithKind("ServiceAccount"),
		core.WithKind("PersistentVolumeClaim"), apps.WithKind("Deployment"), apps.WithKind("DaemonSet"), apps.WithKind("StatefulSet"),
	}
}

func (l *lane) viewWorkload(ctx context.Context, v *view) error {
	for _, gvk := range kinds() {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		if err := l.bench.admin.List(ctx, list, client.InNamespace(l.place())); err != nil {
			return err
		}
		for i := range list.Items {
			if err := v.object(&list.Items[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// object takes down an object without what the cluster adds. Of the revisions of a
// release only the deployed one counts: how many attempts it took is no matter, as long
// as none is left under way.
func (v *view) object(o *unstructured.Unstructured) error {
	if o.GetLabels()["owner"] == "helm" {
		labels := o.GetLabels()
		switch labels["status"] {
		case "superseded", "failed":
		default:
			v.addf("workload: release %s %s", labels["name"], labels["status"])
		}
		return nil
	}
	name, annotations := o.GetKind()+" "+o.GetName(), o.GetAnnotations()
	delete(annotations, "deployment.kubernetes.io/revision")
	ready, _, err := unstructured.NestedInt64(o.Object, "status", "readyReplicas")
	if err != nil {
		return err
	}
	for _, field := range []string{"metadata", "status"} {
		unstructured.RemoveNestedField(o.Object, field)
	}
	for _, field := range []string{"clusterIP", "clusterIPs"} {
		unstructured.RemoveNestedField(o.Object, "spec", field)
	}
	content, err := json.Marshal(o.Object)
	if err != nil {
		return err
	}
	v.addf("workload: %s ready %d annotations %v %s", name, ready, annotations, content)
	return nil
}

// difference is what is in one list and not as often in the other.
func difference(want, got []string) []string {
	count := map[string]int{}
	for _, line := range want {
		count[line]++
	}
	for _, line := range got {
		count[line]--
	}
	var found []string
	for line, n := range count {
		for range n {
			found = append(found, "- "+line)
		}
		for range -n {
			found = append(found, "+ "+line)
		}
	}
	slices.Sort(found)
	return found
}
