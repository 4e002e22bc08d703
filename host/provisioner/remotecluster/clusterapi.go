package remotecluster

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

// clusterAPISuffix is what Cluster API appends to a Cluster's name to name the Secret with
// its kubeconfig, which is at [DefaultKey].
const clusterAPISuffix = "-kubeconfig"

// ClusterAPIOptions name a Cluster of Cluster API.
type ClusterAPIOptions struct {
	// ID identifies the remote by its owner and declared name.
	ID scope.ResourceIdentifier
	// Namespace and Name are those of the Cluster, in the enclosing scope.
	Namespace string
	Name      string
	// Inputs takes note of the Secret, so that its change wakes the owner; may be nil.
	Inputs provisioner.InputRecorder
}

// ClusterAPIResolver finds a remote that Cluster API has made.
type ClusterAPIResolver struct {
	*SecretResolver

	cluster client.ObjectKey
}

var (
	_ provisioner.RemoteCluster = (*ClusterAPIResolver)(nil)
	_ Witness                   = (*ClusterAPIResolver)(nil)
)

// FromClusterAPI returns the resolver for a Cluster. Config goes by its Secret alone, and
// answers as that of [FromSecret] does.
func FromClusterAPI(o ClusterAPIOptions) *ClusterAPIResolver {
	return &ClusterAPIResolver{
		SecretResolver: FromSecret(SecretOptions{ID: o.ID, Namespace: o.Namespace, Name: o.Name + clusterAPISuffix, Inputs: o.Inputs}),
		cluster:        client.ObjectKey{Namespace: o.Namespace, Name: o.Name},
	}
}

// Vanished implements Witness. It needs the right to get the Cluster, in any version that
// is served. An API server that does not know the kind is no witness: a restore may have
// lost the CRD, or the enclosing cluster may be another one by now.
func (r *ClusterAPIResolver) Vanished(ctx context.Context) bool {
	enclosing, ok := scope.FromContext(ctx)
	if !ok || enclosing.Client() == nil {
		return false
	}
	kind := schema.GroupKind{Group: "cluster.x-k8s.io", Kind: "Cluster"}
	mapping, err := enclosing.Client().RESTMapper().RESTMapping(kind)
	if err != nil {
		return false
	}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(mapping.GroupVersionKind)
	return isAbsent(enclosing.Client().Get(ctx, r.cluster, object), r.cluster.Name)
}

// isAbsent reports whether an API server said that this object does not exist. A 404 of
// something in between, or of a whole resource, does not name it.
func isAbsent(err error, name string) bool {
	if !apierrors.IsNotFound(err) || apierrors.IsUnexpectedServerError(err) {
		return false
	}
	status, ok := err.(apierrors.APIStatus) // The client returns it as it is.
	if !ok || status.Status().Details == nil {
		return false
	}
	return status.Status().Details.Name == name
}
