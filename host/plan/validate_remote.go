package plan

import (
	"slices"
	"strings"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// checkPlace reports a remotecluster node that does not stand where its remote is
// resolved. surrounding is the remote that it stands in, or "".
func checkPlace(node *v1alpha1.Node, declared *v1alpha1.Remote, surrounding string, found *findings) {
	if declared.Within == surrounding {
		return
	}
	where := "at home"
	if surrounding != "" {
		where = "inside remote " + surrounding
	}
	wanted := "at home, as it has no within"
	if declared.Within != "" {
		wanted = "inside remote " + clip(declared.Within) + ", as its within says"
	}
	found.addf(nodePath(node.Name)+".remote", node.Name, "it stands %s, and remote %s can only be entered %s", where, declared.Name, wanted)
}

func (s *structure) indexRemotes(found *findings) {
	list := s.spec.Remotes
	if len(list) > maxRemotes {
		found.addf("remotes", "", "there are %d and %d are allowed", len(list), maxRemotes)
	}
	for i := range list {
		remote := &list[i]
		path := indexPath("remotes", i)
		if !validName(remote.Name) {
			found.addf(path, "", "the name %q is not made of at most %d lower-case letters, digits and dashes", clip(remote.Name), maxNameLength)
			continue
		}
		if _, twice := s.remotes[remote.Name]; twice {
			found.addf(path, "", "there is another remote named %s", remote.Name)
			continue
		}
		s.remotes[remote.Name] = remote
		path = "remotes[" + remote.Name + "]"
		checkSource(path, remote, found)
		switch abi.Teardown(remote.Teardown) {
		case "", abi.Drain, abi.Discard, abi.Orphan:
		default:
			found.addf(path+".teardown", "", "it must be Drain, Discard or Orphan")
		}
		if remote.UnreachableGrace != nil && remote.UnreachableGrace.Duration < 0 {
			found.addf(path+".unreachableGrace", "", "it must not be negative; 0s waits for ever")
		}
	}
}

// checkSource reports a remote that does not say, or says twice, where its kubeconfig is.
func checkSource(path string, remote *v1alpha1.Remote, found *findings) {
	var names []string
	if remote.KubeconfigSecret != nil {
		names = append(names, remote.KubeconfigSecret.Name)
	}
	if remote.ClusterAPI != nil {
		names = append(names, remote.ClusterAPI.Name)
	}
	if remote.VCluster != nil {
		names = append(names, remote.VCluster.Name)
	}
	switch {
	case len(names) > 1:
		found.addf(path, "", "it says more than once where its kubeconfig comes from: only one of kubeconfigSecret, clusterAPI and vcluster may be given")
	case len(names) == 0, names[0] == "":
		found.addf(path, "", "it does not say where its kubeconfig comes from: kubeconfigSecret, clusterAPI or vcluster")
	}
}

// orderRemotes checks that within leads to home from every remote.
func (s *structure) orderRemotes(found *findings) {
	placed := map[string]bool{}
	broken := map[string]bool{}
	for i := range s.spec.Remotes {
		name := s.spec.Remotes[i].Name
		var chain []string
		for name != "" && !placed[name] && !broken[name] {
			if at := slices.Index(chain, name); at >= 0 {
				found.addf("remotes["+name+"].within", "", "it is within itself: %s", strings.Join(append(slices.Clone(chain[at:]), name), " -> "))
				break
			}
			remote, ok := s.remotes[name]
			if !ok {
				if len(chain) > 0 {
					found.addf("remotes["+chain[len(chain)-1]+"].within", "", "there is no remote named %q", clip(name))
				}
				break
			}
			chain = append(chain, name)
			name = remote.Within
		}
		sound := name == "" || placed[name]
		for _, link := range slices.Backward(chain) {
			if !sound {
				broken[link] = true
				continue
			}
			placed[link] = true
			s.remoteOrder = append(s.remoteOrder, link)
		}
	}
}
