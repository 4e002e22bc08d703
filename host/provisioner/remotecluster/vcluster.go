package remotecluster

import (
	"context"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

// vclusterPrefix and vclusterKey say where vcluster keeps the kubeconfig of a virtual
// cluster.
const (
	vclusterPrefix = "vc-"
	vclusterKey    = "config"
)

// VClusterOptions name a virtual cluster of vcluster.
type VClusterOptions struct {
	// ID identifies the remote by its owner and declared name.
	ID scope.ResourceIdentifier
	// Namespace and Name are those of the virtual cluster, in the enclosing scope.
	Namespace string
	Name      string
	// Server replaces the server of the kubeconfig, which vcluster makes for a port-forward
	// unless it is told otherwise; not if empty.
	Server string
	// Inputs takes note of the Secret, so that its change wakes the owner; may be nil.
	Inputs provisioner.InputRecorder
}

// VClusterResolver finds a virtual cluster.
type VClusterResolver struct {
	*SecretResolver

	server string
}

var _ provisioner.RemoteCluster = (*VClusterResolver)(nil)

// FromVCluster returns the resolver for a virtual cluster.
func FromVCluster(o VClusterOptions) *VClusterResolver {
	return &VClusterResolver{
		SecretResolver: FromSecret(SecretOptions{ID: o.ID, Namespace: o.Namespace, Name: vclusterPrefix + o.Name, Key: vclusterKey, Inputs: o.Inputs}),
		server:         o.Server,
	}
}

// Config implements provisioner.RemoteCluster. It answers as that of [FromSecret] does. If
// a server is given and the kubeconfig has no CA, that is a Terminal invalid_kubeconfig:
// whoever chooses the server must not be able to collect a credential there, and the CA is
// what keeps it to the cluster that it is for.
func (r *VClusterResolver) Config(ctx context.Context) (*clientcmdapi.Config, error) {
	config, err := r.SecretResolver.Config(ctx)
	if err != nil || r.server == "" {
		return config, err
	}
	config, err = scope.WithServer(config, r.server)
	if err != nil {
		return nil, provisioner.Terminal(abi.ReasonInvalidKubeconfig, r.where()).WithCause(err)
	}
	return config, nil
}
