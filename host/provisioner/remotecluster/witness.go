package remotecluster

import (
	"context"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Witness is what a resolver can be besides: one that knows an object which stands for the
// cluster, such as a Cluster of Cluster API.
type Witness interface {
	// Vanished reports that the object does not exist, by the word of the API server that
	// keeps it; if it could not be asked, or may not be, it is false. The context carries
	// the enclosing scope.
	Vanished(ctx context.Context) bool
}

// vanished reports whether a remote counts as gone because it does not answer and the object
// that stands for it does not exist. Neither is enough alone: the object goes as well when
// somebody moves it to another management cluster, and the cluster lives on. Only one that
// was registered is known to have existed.
func (b *Bracket) vanished(ctx context.Context, stored *clientcmdapi.Config, attempts ...attempt) bool {
	witness, ok := b.options.Remote.(Witness)
	if !ok || b.options.Deletion == nil || stored == nil || !b.confirmed(attempts...) {
		return false
	}
	return witness.Vanished(ctx)
}
