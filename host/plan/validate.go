package plan

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

const (
	// maxNodes is the limit of the CRD.
	maxNodes = 128
	// maxRemotes is the limit of the CRD.
	maxRemotes = 16
	// maxNameLength is that of a DNS label; names become parts of object names.
	maxNameLength = 63
)

var namePattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// structure is a Stack's tree after its checks.
type structure struct {
	spec    *v1alpha1.StackSpec
	nodes   map[string]*v1alpha1.Node
	remotes map[string]*v1alpha1.Remote
	// remoteOrder lists the remotes so that each comes after the one it is on.
	remoteOrder []string
	// paths are the paths of the nodes that the root reaches, by name.
	paths map[string]string
}

// validate checks the structure of a spec. Every problem is recorded; the result is of
// use only if there was none.
func validate(spec *v1alpha1.StackSpec, found *findings) *structure {
	s := &structure{
		spec:    spec,
		nodes:   map[string]*v1alpha1.Node{},
		remotes: map[string]*v1alpha1.Remote{},
		paths:   map[string]string{},
	}
	s.indexRemotes(found)
	s.orderRemotes(found)
	s.indexNodes(found)
	s.checkChildren(found)
	inCycle := s.checkCycles(found)
	if _, ok := s.nodes[spec.Root]; !ok {
		found.addf("root", "", "there is no provisioner named %q", clip(spec.Root))
		return s
	}
	s.walk(spec.Root, "", "", found)
	for i := range spec.Provisioners {
		name := spec.Provisioners[i].Name
		if s.nodes[name] == &spec.Provisioners[i] && s.paths[name] == "" && !inCycle[name] {
			found.addf(nodePath(name), name, "no path leads to it from the root %s; make it the child of a node, or remove it", spec.Root)
		}
	}
	return s
}

func (s *structure) indexNodes(found *findings) {
	list := s.spec.Provisioners
	switch {
	case len(list) == 0:
		found.addf("provisioners", "", "there are none, and the root must be one")
	case len(list) > maxNodes:
		found.addf("provisioners", "", "there are %d and %d are allowed", len(list), maxNodes)
	}
	for i := range list {
		node := &list[i]
		if !validName(node.Name) {
			found.addf(indexPath("provisioners", i), "", "the name %q is not made of at most %d lower-case letters, digits and dashes", clip(node.Name), maxNameLength)
			continue
		}
		if _, twice := s.nodes[node.Name]; twice {
			found.addf(indexPath("provisioners", i), node.Name, "there is another provisioner named %s", node.Name)
			continue
		}
		s.nodes[node.Name] = node
		s.checkNode(node, found)
	}
}

// checkNode checks what a node says of itself.
func (s *structure) checkNode(node *v1alpha1.Node, found *findings) {
	path := nodePath(node.Name)
	kinds := node.Kinds()
	if len(kinds) != 1 {
		given := "none"
		if len(kinds) > 1 {
			given = strings.Join(kinds, " and ")
		}
		found.addf(path, node.Name, "it has %s and must have exactly one kind: serial, concurrent, conditional, remotecluster, application or module", given)
		return
	}
	switch {
	case node.RemoteCluster != nil:
		if _, ok := s.remotes[node.RemoteCluster.Remote]; !ok {
			found.addf(path+".remote", node.Name, "there is no remote named %q", clip(node.RemoteCluster.Remote))
		}
	case node.Module != nil && node.Module.Ref == "":
		found.addf(path+".ref", node.Name, "it names no Module")
	case node.Application != nil && node.Application.Ref == "":
		found.addf(path+".ref", node.Name, "it names no Application")
	case node.Concurrent != nil && node.Concurrent.Limit < 0:
		found.addf(path+".limit", node.Name, "it must not be negative")
	}
}

// checkChildren checks that children exist and have one parent each.
func (s *structure) checkChildren(found *findings) {
	parents := map[string]string{}
	for i := range s.spec.Provisioners {
		node := &s.spec.Provisioners[i]
		if s.nodes[node.Name] != node {
			continue
		}
		for _, child := range node.Children() {
			if _, ok := s.nodes[child]; !ok {
				found.addf(nodePath(node.Name), node.Name, "its child %q is not one of the provisioners", clip(child))
				continue
			}
			switch parent, taken := parents[child]; {
			case !taken:
				parents[child] = node.Name
			case parent == node.Name:
				found.addf(nodePath(node.Name), node.Name, "its child %s is listed twice", child)
			default:
				found.addf(nodePath(child), child, "it is a child of %s and of %s, and may have one parent", parent, node.Name)
			}
		}
	}
}

// checkCycles reports every cycle once, by the names along it, and returns the nodes
// that are part of one.
func (s *structure) checkCycles(found *findings) map[string]bool {
	const visiting, done = 1, 2
	state := map[string]int{}
	inCycle := map[string]bool{}
	var trail []string
	var visit func(name string)
	visit = func(name string) {
		state[name] = visiting
		trail = append(trail, name)
		for _, child := range s.children(name) {
			switch state[child] {
			case visiting:
				cycle := append(slices.Clone(trail[slices.Index(trail, child):]), child)
				for _, member := range cycle {
					inCycle[member] = true
				}
				found.addf(nodePath(child), child, "it is its own descendant: %s", strings.Join(cycle, " -> "))
			case done:
			default:
				visit(child)
			}
		}
		trail = trail[:len(trail)-1]
		state[name] = done
	}
	for i := range s.spec.Provisioners {
		if name := s.spec.Provisioners[i].Name; s.nodes[name] != nil && state[name] == 0 {
			visit(name)
		}
	}
	return inCycle
}

// children returns the children of a node that exist.
func (s *structure) children(name string) []string {
	var children []string
	for _, child := range s.nodes[name].Children() {
		if s.nodes[child] != nil {
			children = append(children, child)
		}
	}
	return children
}

// walk gives every node that can be reached its path, and checks that remotes are used
// where they are resolved. remote is the remote that surrounds the node, or "".
func (s *structure) walk(name, parent, remote string, found *findings) {
	if s.paths[name] != "" {
		return // a second parent or a cycle, which is reported elsewhere
	}
	path := name
	if parent != "" {
		path = parent + "/" + name
	}
	s.paths[name] = path
	node := s.nodes[name]
	inner := remote
	if node.RemoteCluster != nil {
		if declared, ok := s.remotes[node.RemoteCluster.Remote]; ok {
			checkPlace(node, declared, remote, found)
			inner = declared.Name
		}
	}
	for _, child := range s.children(name) {
		s.walk(child, path, inner, found)
	}
}

func validName(name string) bool {
	return len(name) <= maxNameLength && namePattern.MatchString(name)
}

func nodePath(name string) string { return "provisioners[" + name + "]" }

func indexPath(list string, index int) string { return list + "[" + strconv.Itoa(index) + "]" }
