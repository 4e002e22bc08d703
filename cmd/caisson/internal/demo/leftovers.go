package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// inventory is everything that exists on a cluster, one line for each object.
type inventory map[string]bool

// snapshot takes down what exists before the Stack does.
func (d *demo) snapshot(ctx context.Context) error {
	d.before = map[string]inventory{}
	for _, c := range []*cluster{d.home, d.workload} {
		now, err := c.everything(ctx)
		if err != nil {
			return err
		}
		d.before[c.name] = now
	}
	return nil
}

// nothingLeft compares both clusters with what they were, and accepts what the operator
// has reported as retained.
func (d *demo) nothingLeft(ctx context.Context) error {
	retained, err := d.retained(ctx)
	if err != nil {
		return err
	}
	deadline := time.Now().Add(soon)
	for {
		left, err := d.left(ctx, retained)
		if err != nil {
			return err
		}
		if len(left) == 0 {
			d.show.sayf("nothing is left on either cluster, except what is reported as retained: %s", orNone(retained))
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("these are left: %s", strings.Join(left, ", "))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(500 * time.Millisecond): // the garbage collector is at work
		}
	}
}

func (d *demo) left(ctx context.Context, retained []string) ([]string, error) {
	var left []string
	for _, c := range []*cluster{d.home, d.workload} {
		now, err := c.everything(ctx)
		if err != nil {
			return nil, err
		}
		for object := range now {
			if !d.before[c.name][object] && !excused(object, retained) {
				left = append(left, c.name+": "+object)
			}
		}
	}
	slices.Sort(left)
	return left, nil
}

// excused accepts what was reported as retained, and what every namespace has.
func excused(object string, retained []string) bool {
	for _, r := range retained {
		if object == r {
			return true
		}
		kind, name, ok := strings.Cut(r, "/")
		if !ok || kind != "Namespace" {
			continue
		}
		if object == "ServiceAccount/"+name+"/default" || object == "ConfigMap/"+name+"/kube-root-ca.crt" {
			return true
		}
	}
	return false
}

// retained reads the operator's last word on the Stack.
func (d *demo) retained(ctx context.Context) ([]string, error) {
	events := &eventsv1.EventList{}
	if err := d.home.client.List(ctx, events, client.InNamespace(stackNamespace)); err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	for _, e := range events.Items {
		if e.Regarding.Kind != "Stack" || e.Regarding.Name != stackName || e.Reason != "Deprovisioned" {
			continue
		}
		_, list, ok := strings.Cut(strings.TrimSuffix(e.Note, "."), ": ")
		if !ok {
			return nil, nil
		}
		return strings.Split(list, ", "), nil
	}
	return nil, fmt.Errorf("the operator recorded no event Deprovisioned for the Stack")
}

// everything lists every object of every kind that can be listed, but for what comes and
// goes by itself.
func (c *cluster) everything(ctx context.Context) (inventory, error) {
	found := inventory{}
	return found, c.each(ctx, func(name string, _ *metav1.PartialObjectMetadata) { found[name] = true })
}

// each calls take for every object of everything, with its kind and name.
func (c *cluster) each(ctx context.Context, take func(name string, o *metav1.PartialObjectMetadata)) error {
	disco, err := discovery.NewDiscoveryClientForConfig(c.config)
	if err != nil {
		return fmt.Errorf("discover %s: %w", c.name, err)
	}
	lists, err := disco.ServerPreferredResources()
	if err != nil {
		return fmt.Errorf("discover %s: %w", c.name, err)
	}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return fmt.Errorf("discover %s: %w", c.name, err)
		}
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "list") || transient(gv.Group, r.Kind) {
				continue
			}
			if err := c.eachOf(ctx, gv.WithKind(r.Kind), take); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *cluster) eachOf(ctx context.Context, gvk schema.GroupVersionKind, take func(name string, o *metav1.PartialObjectMetadata)) error {
	objects := &metav1.PartialObjectMetadataList{}
	objects.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err := c.client.List(ctx, objects); err != nil {
		return fmt.Errorf("list %s on %s: %w", gvk.Kind, c.name, err)
	}
	for i := range objects.Items {
		o := &objects.Items[i]
		name := gvk.Kind + "/" + o.Name
		if o.Namespace != "" {
			name = gvk.Kind + "/" + o.Namespace + "/" + o.Name
		}
		take(name, o)
	}
	return nil
}

// transient kinds come and go whatever a Stack does.
func transient(group, kind string) bool {
	switch kind {
	case "Event", "Lease", "ComponentStatus":
		return true
	default:
		return group == "metrics.k8s.io"
	}
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "nothing"
	}
	return strings.Join(list, ", ")
}
