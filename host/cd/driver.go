package cd

import (
	"context"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/caisson-dev/caisson/host/scope"
)

// Applications installs and removes applications. Implementations must be safe for
// concurrent use.
type Applications interface {
	// Ensure makes the application so and returns nil only when the current spec is
	// deployed and healthy. A call with an unchanged, healthy application writes nothing.
	// Every Yield has a deadline, after which it becomes UserActionRequired.
	Ensure(ctx context.Context, to scope.Scope, app *Application) error
	// Remove removes the application as the scope's teardown policy says, and returns nil
	// only when the recorded inventory is verified gone, or need not be. It needs nothing
	// but the identity; what was never installed is gone.
	Remove(ctx context.Context, from scope.Scope, id scope.ResourceIdentifier) error
	// List returns the applications of an owner, in every scope, sorted by path. An error
	// never means that there are none.
	List(ctx context.Context, owner scope.Owner) ([]Installed, error)
}

// Clusters keeps the credentials of remote clusters for the time that they are needed.
type Clusters interface {
	// Register records a sanitised kubeconfig under the identity, or updates it.
	Register(ctx context.Context, id scope.ResourceIdentifier, config *clientcmdapi.Config) error
	// Registered returns what was recorded, or an error that Is provisioner.ErrNotFound.
	Registered(ctx context.Context, id scope.ResourceIdentifier) (*clientcmdapi.Config, error)
	// Deregister forgets the cluster; one that is not recorded is forgotten already.
	Deregister(ctx context.Context, id scope.ResourceIdentifier) error
}

// Driver is the adapter to a continuous-delivery system.
type Driver interface {
	Applications
	Clusters
}

// Notifier is implemented by drivers that can tell when to look again.
type Notifier interface {
	// Subscribe makes the driver call notify whenever something that it installed for an
	// owner changed, or an action that it ran in the background ended. notify must not
	// block. The subscription ends with the context.
	Subscribe(ctx context.Context, notify func(owner scope.Owner))
}
