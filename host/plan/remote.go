package plan

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/remotecluster"
	"github.com/caisson-dev/caisson/host/scope"
)

// RemoteID returns the identity of a remote: its owner and its declared name, whatever
// its address, and wherever it is used.
func RemoteID(owner scope.Owner, name string) scope.ResourceIdentifier {
	return scope.ResourceIdentifier{Owner: owner, Path: "remote/" + name, Name: name}
}

// bracket makes the bracket of a declared remote. Those that no node uses get one too:
// nodes may have used them under an earlier spec, and a deletion deregisters them.
func (b *builder) bracket(remote *v1alpha1.Remote) *remotecluster.Bracket {
	ownership := remotecluster.External
	if remote.Owned {
		ownership = remotecluster.Owned
	}
	id := RemoteID(b.owner, remote.Name)
	return remotecluster.New(remotecluster.Options{
		Remote:       b.resolver(id, remote),
		Clusters:     b.deps.Driver,
		Applications: b.deps.Driver,
		Clients:      b.deps.Clients,
		Ownership:    ownership,
		Teardown:     abi.Teardown(remote.Teardown),
		Deletion:     b.deletion(remote),
		Nested:       b.nested(remote.Name),
	})
}

// resolver makes what finds the kubeconfig of a remote. The spec has been checked: there
// is exactly one way.
func (b *builder) resolver(id scope.ResourceIdentifier, remote *v1alpha1.Remote) provisioner.RemoteCluster {
	switch {
	case remote.ClusterAPI != nil:
		return remotecluster.FromClusterAPI(remotecluster.ClusterAPIOptions{
			ID: id, Namespace: cmp.Or(remote.ClusterAPI.Namespace, b.owner.Namespace), Name: remote.ClusterAPI.Name, Inputs: b.deps.Inputs,
		})
	case remote.VCluster != nil:
		return remotecluster.FromVCluster(remotecluster.VClusterOptions{
			ID: id, Namespace: cmp.Or(remote.VCluster.Namespace, b.owner.Namespace), Name: remote.VCluster.Name,
			Server: remote.VCluster.Server, Inputs: b.deps.Inputs,
		})
	default:
		return remotecluster.FromSecret(remotecluster.SecretOptions{
			ID: id, Namespace: b.owner.Namespace, Name: remote.KubeconfigSecret.Name, Key: remote.KubeconfigSecret.Key, Inputs: b.deps.Inputs,
		})
	}
}

// What users read of a remote that keeps a deletion waiting: it tells both ways out.
const (
	waitingForGrace = "The remote cluster does not answer; it will be tried again until its unreachableGrace is over, and then given up with what runs on it. " +
		"If it is gone for good, name it in the annotation " + v1alpha1.GoneAnnotation + " of the Stack."
	waitingForWord = "The remote cluster does not answer; it will be tried again. " +
		"If it is gone for good, name it in the annotation " + v1alpha1.GoneAnnotation + " of the Stack to give it up with what runs on it."
)

// deletion returns what counts as evidence of a remote's end, or nil if the Stack is not
// being deleted.
func (b *builder) deletion(remote *v1alpha1.Remote) *remotecluster.Deletion {
	if b.stack.DeletionTimestamp == nil {
		return nil
	}
	d := &remotecluster.Deletion{
		Since:    b.stack.DeletionTimestamp.Time,
		Now:      b.deps.Now,
		Declared: slices.Contains(declaredGone(b.stack), remote.Name),
		Grace:    graceOf(remote),
		Waiting:  waitingForGrace,
	}
	if d.Grace <= 0 {
		d.Waiting = waitingForWord
	}
	return d
}

// graceOf is how long a remote may be silent; 0 for ever.
func graceOf(remote *v1alpha1.Remote) time.Duration {
	if remote.UnreachableGrace == nil {
		return v1alpha1.DefaultUnreachableGrace
	}
	return max(0, remote.UnreachableGrace.Duration)
}

// declaredGone returns the remotes that a human declared gone, as they were written.
func declaredGone(stack *v1alpha1.Stack) []string {
	names := strings.Split(stack.Annotations[v1alpha1.GoneAnnotation], ",")
	for i, name := range names {
		names[i] = strings.TrimSpace(name)
	}
	return names
}

// nested returns the identities of the remotes that are declared within one, however deep.
func (b *builder) nested(name string) []scope.ResourceIdentifier {
	inside := map[string]bool{name: true}
	var ids []scope.ResourceIdentifier
	for _, candidate := range b.remoteOrder { // the outer one comes first
		if inside[b.remotes[candidate].Within] {
			inside[candidate] = true
			ids = append(ids, RemoteID(b.owner, candidate))
		}
	}
	return ids
}
