package faults

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/internal/testenv"
)

// everything lists every object of every kind of a cluster, but for what comes and goes
// by itself.
func everything(ctx context.Context, of *testenv.Cluster, admin client.Client) ([]string, error) {
	disco, err := discovery.NewDiscoveryClientForConfig(of.Config)
	if err != nil {
		return nil, err
	}
	lists, err := disco.ServerPreferredResources()
	if err != nil {
		return nil, err
	}
	var found []string
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "list") || slices.Contains([]string{"Event", "Lease", "ComponentStatus"}, r.Kind) || gv.Group == "metrics.k8s.io" {
				continue
			}
			objects := &metav1.PartialObjectMetadataList{}
			objects.SetGroupVersionKind(gv.WithKind(r.Kind + "List"))
			if err := admin.List(ctx, objects); err != nil {
				return nil, fmt.Errorf("list %s: %w", r.Kind, err)
			}
			for _, o := range objects.Items {
				found = append(found, fmt.Sprintf("%s %s/%s", r.Kind, o.Namespace, o.Name))
			}
		}
	}
	return found, nil
}

// nothingLeft waits until a cluster has what it had before, and nothing else: what is
// deleted in the background takes a moment.
func nothingLeft(ctx context.Context, of *testenv.Cluster, admin client.Client, before []string) error {
	return await(ctx, "nothing is left", func() (bool, string) {
		now, err := everything(ctx, of, admin)
		different := difference(before, now)
		return err == nil && len(different) == 0, fmt.Sprint(err, different)
	})
}
