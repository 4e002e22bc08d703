package plan

import (
	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
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
		Remote: remotecluster.FromSecret(remotecluster.SecretOptions{
			ID:        id,
			Namespace: b.owner.Namespace,
			Name:      remote.KubeconfigSecret.Name,
			Key:       remote.KubeconfigSecret.Key,
			Inputs:    b.deps.Inputs,
		}),
		Clusters:     b.deps.Driver,
		Applications: b.deps.Driver,
		Clients:      b.deps.Clients,
		Ownership:    ownership,
		Teardown:     abi.Teardown(remote.Teardown),
		Nested:       b.nested(remote.Name),
	})
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
