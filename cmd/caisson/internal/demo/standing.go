package demo

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// identity tells an object that was changed, or made anew, from one that was not.
type identity struct {
	uid        string
	generation int64
}

// standing is what stands on a cluster because somebody wants it to, by kind and name:
// everything but what controllers make and unmake on the way, such as pods.
type standing map[string]identity

// releaseSecret names the record that Helm keeps of a revision.
var releaseSecret = regexp.MustCompile(`^(Secret/[^/]+/sh\.helm\.release\.v1\..+)\.v(\d+)$`)

// standing looks at both clusters.
func (d *demo) standing(ctx context.Context) (standing, error) {
	found := standing{}
	for _, c := range []*cluster{d.home, d.workload} {
		err := c.each(ctx, func(name string, o *metav1.PartialObjectMetadata) {
			if kind, _, _ := strings.Cut(name, "/"); !churn(kind) {
				found[c.name+": "+name] = identity{uid: string(o.UID), generation: o.Generation}
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return found, d.entries(ctx, found)
}

// churn are the kinds of objects that come and go by the doing of Kubernetes itself.
func churn(kind string) bool {
	switch kind {
	case "Pod", "ReplicaSet", "ControllerRevision", "Endpoints", "EndpointSlice":
		return true
	default:
		return false
	}
}

// changes lists what was added (+), removed (-), replaced (!) and changed (~).
func changes(before, after standing) []string {
	var found []string
	for _, name := range slices.Sorted(maps.Keys(before)) {
		was := before[name]
		is, ok := after[name]
		switch {
		case !ok:
			found = append(found, "- "+name)
		case is.uid != was.uid:
			found = append(found, "! "+name)
		case is.generation != was.generation:
			found = append(found, "~ "+name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if _, ok := before[name]; !ok {
			found = append(found, "+ "+name)
		}
	}
	return found
}

// settled is a standing in which an upgrade in place is no change: a release counts once,
// whatever its revision, and a generation does not count.
func (s standing) settled() standing {
	found := standing{}
	for name, id := range s {
		cluster, object, _ := strings.Cut(name, ": ")
		if m := releaseSecret.FindStringSubmatch(object); m != nil {
			found[cluster+": "+m[1]] = identity{}
			continue
		}
		found[name] = identity{uid: id.uid}
	}
	return found
}

// without leaves out what is not asked about.
func (s standing) without(leaveOut func(name string) bool) standing {
	found := standing{}
	for name, id := range s {
		if !leaveOut(name) {
			found[name] = id
		}
	}
	return found
}

// names are a standing in which an object that was made anew is no change either.
func (s standing) names() standing {
	found := standing{}
	for name := range s {
		found[name] = identity{}
	}
	return found
}

// unharmed fails unless everything is as it was: nothing doubled, lost or orphaned, one
// deployed revision to a release, and the inventories list what they listed. What was
// removed and installed again is named by remade.
func (d *demo) unharmed(ctx context.Context, before standing, remade string) error {
	now, err := d.standing(ctx)
	if err != nil {
		return err
	}
	again := func(name string) bool { return remade != "" && strings.Contains(name, remade) }
	differ := changes(before.settled().without(again), now.settled().without(again))
	differ = append(differ, changes(before.settled().names(), now.settled().names())...)
	if len(differ) > 0 {
		return fmt.Errorf("something is not as it was: %s", strings.Join(differ, ", "))
	}
	releases, err := d.workload.releases(ctx)
	if err != nil {
		return err
	}
	entries := 0
	for name := range now {
		if strings.HasPrefix(name, entryPrefix) {
			entries++
		}
	}
	if entries != len(releases) {
		return fmt.Errorf("the inventories list %d applications, and there are %d releases", entries, len(releases))
	}
	d.show.sayf("as before: %d objects, %d releases with one deployed revision each, as many entries in the inventories", len(now), len(releases))
	return nil
}

// releases lists the Helm releases of a cluster with their revision, and fails unless each
// of them is deployed exactly once.
func (c *cluster) releases(ctx context.Context) (map[string]string, error) {
	secrets := &corev1.SecretList{}
	if err := c.client.List(ctx, secrets, client.MatchingLabels{"owner": "helm"}); err != nil {
		return nil, fmt.Errorf("list releases on %s: %w", c.name, err)
	}
	return deployedOnce(secrets.Items)
}

func deployedOnce(secrets []corev1.Secret) (map[string]string, error) {
	deployed := map[string]string{}
	known := map[string]bool{}
	for _, s := range secrets {
		name := s.Namespace + "/" + s.Labels["name"]
		known[name] = true
		switch status := s.Labels["status"]; {
		case status == "deployed" && deployed[name] != "":
			return nil, fmt.Errorf("release %s is deployed as revisions %s and %s", name, deployed[name], s.Labels["version"])
		case status == "deployed":
			deployed[name] = s.Labels["version"]
		case strings.HasPrefix(status, "pending-"):
			return nil, fmt.Errorf("revision %s of release %s is %s", s.Labels["version"], name, status)
		}
	}
	for name := range known {
		if deployed[name] == "" {
			return nil, fmt.Errorf("no revision of release %s is deployed", name)
		}
	}
	return deployed, nil
}

const (
	// inventoryPrefix starts the names of the Secrets that list what a Stack has installed.
	inventoryPrefix = "caisson-inventory-"
	// entryPrefix starts the names of their entries in a standing.
	entryPrefix = "home: entry "
)

// entries adds the entries of all inventories, each like an object.
func (d *demo) entries(ctx context.Context, to standing) error {
	secrets := &corev1.SecretList{}
	if err := d.home.client.List(ctx, secrets, client.InNamespace(operatorNamespace)); err != nil {
		return fmt.Errorf("list inventories: %w", err)
	}
	for _, s := range secrets.Items {
		for key := range s.Data {
			if strings.HasPrefix(s.Name, inventoryPrefix) && strings.HasPrefix(key, "application.") {
				to[entryPrefix+s.Name+"/"+key] = identity{}
			}
		}
	}
	return nil
}

// object returns the identity of an object in a namespace; it is empty if there is none.
func (s standing) object(c *cluster, kind, namespace, name string) identity {
	return s[fmt.Sprintf("%s: %s/%s/%s", c.name, kind, namespace, name)]
}
