package provisioner

import (
	"context"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/scope"
)

// Provisioner brings up one thing, and takes it down again.
type Provisioner interface {
	// ProvisionerName names the provisioner for logs and paths.
	ProvisionerName() string
	// Provision makes what progress it can and returns nil once the desired state has
	// been observed. It must be idempotent and must not block for progress.
	Provision(ctx context.Context) error
	// Deprovision removes what Provision made and returns nil only once it is gone.
	// Something that was never made is gone.
	Deprovision(ctx context.Context) error
}

// ManagerProvisioner is the root of a tree: a provisioner with an owner.
type ManagerProvisioner interface {
	Provisioner
	// Object returns the empty object that the controller reads the owner into.
	Object() client.Object
}

// RemoteCluster finds another cluster.
type RemoteCluster interface {
	// ID identifies the cluster by its owner and declared name, never by its address.
	ID() *scope.ResourceIdentifier
	// Config returns the kubeconfig. It is three-valued: a kubeconfig; an error of class
	// Yield while the cluster is not there yet; an error that Is [ErrNotFound] when there
	// is evidence that the cluster is gone for good. It is evaluated in the scope that
	// the context carries, which is the enclosing one.
	Config(ctx context.Context) (*clientcmdapi.Config, error)
}

// Metadata is embedded by provisioners for their name.
type Metadata struct {
	// Name is what ProvisionerName returns.
	Name string
}

// ProvisionerName implements Provisioner.
func (m Metadata) ProvisionerName() string { return m.Name }

// Segmented is implemented by provisioners that stand for a named node of a tree.
// Combinators use the segment instead of the child's index in paths.
type Segmented interface {
	PathSegment() string
}
