package explain

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/caisson-dev/caisson/cmd/caisson/internal/tree"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// place is a node of the spec, and where in the tree it stands.
type place struct {
	node *v1alpha1.Node
	path string
	// remote names the remote that the node runs on; empty is home.
	remote string
}

// placesOf finds the nodes below the root by name. A malformed tree is walked as far as
// it goes: each node once.
func placesOf(stack *v1alpha1.Stack) map[string]place {
	nodes := map[string]*v1alpha1.Node{}
	for i := range stack.Spec.Provisioners {
		nodes[stack.Spec.Provisioners[i].Name] = &stack.Spec.Provisioners[i]
	}
	places := map[string]place{}
	var walk func(name, above, remote string)
	walk = func(name, above, remote string) {
		node, ok := nodes[name]
		if _, seen := places[name]; !ok || seen {
			return
		}
		path := strings.TrimPrefix(above+"/"+tree.Clean(name), "/")
		places[name] = place{node: node, path: path, remote: remote}
		if node.RemoteCluster != nil {
			remote = node.RemoteCluster.Remote
		}
		for _, child := range node.Children() {
			walk(child, path, remote)
		}
	}
	walk(stack.Spec.Root, "", "")
	return places
}

// actsOn says what the node is about, and on which cluster.
func (p place) actsOn() string {
	var what string
	switch {
	case p.node == nil:
		return ""
	case p.node.Module != nil:
		what = "module " + p.node.Module.Ref
	case p.node.Application != nil:
		what = "application " + p.node.Application.Ref
		if v := p.node.Application.Version; v != "" {
			what += " " + v
		}
	case p.node.RemoteCluster != nil:
		what = "remote " + p.node.RemoteCluster.Remote
	case p.node.Conditional != nil:
		what = "condition " + p.node.Conditional.When
	default:
		what = fmt.Sprintf("%d nodes", len(p.node.Children()))
	}
	where := ", at home"
	if p.remote != "" {
		where = ", on remote " + p.remote
	}
	return tree.Clean(what + where)
}

// remoteOf returns the remote that a node is about: its own, or the one that it runs on.
func (e *explainer) remoteOf(p place) *v1alpha1.Remote {
	name := p.remote
	if p.node != nil && p.node.RemoteCluster != nil {
		name = p.node.RemoteCluster.Remote
	}
	for i := range e.Stack.Spec.Remotes {
		if e.Stack.Spec.Remotes[i].Name == name {
			return &e.Stack.Spec.Remotes[i]
		}
	}
	return nil
}

// kubeconfigOf is where the kubeconfig of a remote is; an empty namespace is that of the
// Stack. Cluster API and vcluster name their Secrets themselves.
func kubeconfigOf(r *v1alpha1.Remote) (namespace, name, key string) {
	switch {
	case r.KubeconfigSecret != nil:
		return "", r.KubeconfigSecret.Name, cmp.Or(r.KubeconfigSecret.Key, "value")
	case r.ClusterAPI != nil:
		return r.ClusterAPI.Namespace, r.ClusterAPI.Name + "-kubeconfig", "value"
	case r.VCluster != nil:
		return r.VCluster.Namespace, "vc-" + r.VCluster.Name, "config"
	default:
		return "", "", ""
	}
}
