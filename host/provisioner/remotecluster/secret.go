package remotecluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

// DefaultKey is the key that Cluster API, and those who follow it, keep kubeconfigs at.
const DefaultKey = "value"

// SecretOptions say where a kubeconfig is kept.
type SecretOptions struct {
	// ID identifies the remote by its owner and declared name.
	ID scope.ResourceIdentifier
	// Namespace and Name are those of the Secret, in the enclosing scope.
	Namespace string
	Name      string
	// Key is the key that holds it; [DefaultKey] if empty.
	Key string
	// Inputs takes note of the Secret, so that its change wakes the owner; may be nil.
	Inputs provisioner.InputRecorder
}

// SecretResolver finds a remote through a kubeconfig in a Secret.
type SecretResolver struct {
	options SecretOptions
}

var _ provisioner.RemoteCluster = (*SecretResolver)(nil)

// FromSecret returns the resolver for a Secret.
func FromSecret(o SecretOptions) *SecretResolver {
	if o.Key == "" {
		o.Key = DefaultKey
	}
	if o.Inputs == nil {
		o.Inputs = provisioner.InputRecorderFunc(func(provisioner.Input) {})
	}
	return &SecretResolver{options: o}
}

// ID implements provisioner.RemoteCluster.
func (r *SecretResolver) ID() *scope.ResourceIdentifier {
	id := r.options.ID
	return &id
}

// Config implements provisioner.RemoteCluster. The Secret is read with the client, and
// so as the identity, of the scope in the context. An absent Secret is a Yield
// remote_pending: it never means that the cluster is gone. An absent key is a
// UserActionRequired secret_missing, a Secret that the identity may not read a
// UserActionRequired forbidden, and what is no kubeconfig, or has no current context, a
// Terminal invalid_kubeconfig, which a change of the Secret revives. The kubeconfig is
// decoded and not yet sanitised.
func (r *SecretResolver) Config(ctx context.Context) (*clientcmdapi.Config, error) {
	enclosing, err := enclosingScope(ctx)
	if err != nil {
		return nil, err
	}
	if enclosing.Client() == nil {
		return nil, provisioner.Yield(abi.ReasonRemoteUnreachable, "the cluster that keeps "+r.where()+" cannot be reached")
	}
	secret, err := r.read(ctx, enclosing)
	if err != nil {
		return nil, err
	}
	raw, ok := secret.Data[r.options.Key]
	if !ok || len(raw) == 0 {
		return nil, provisioner.UserActionRequired(abi.ReasonSecretMissing, r.where()+" has no key "+r.options.Key)
	}
	config, err := scope.ParseKubeconfig(raw)
	if err != nil {
		return nil, provisioner.Terminal(abi.ReasonInvalidKubeconfig, r.where()).WithCause(err)
	}
	return config, nil
}

func (r *SecretResolver) read(ctx context.Context, enclosing scope.Scope) (*corev1.Secret, error) {
	input := provisioner.Input{ScopeID: enclosing.ID(), Kind: "Secret", Namespace: r.options.Namespace, Name: r.options.Name}
	var secret corev1.Secret
	err := enclosing.Client().Get(ctx, client.ObjectKey{Namespace: r.options.Namespace, Name: r.options.Name}, &secret)
	switch {
	case err == nil:
		input.Version = secret.ResourceVersion
		r.options.Inputs.RecordInput(input)
		return &secret, nil
	case apierrors.IsNotFound(err):
		input.Absent = true
		r.options.Inputs.RecordInput(input)
		return nil, provisioner.Yield(abi.ReasonRemotePending, r.where()+" does not exist")
	case apierrors.IsForbidden(err):
		// Not recorded: whether it exists is not known, and a wrong record would be taken
		// for a change as soon as the operator itself looks.
		return nil, provisioner.UserActionRequired(abi.ReasonForbidden, "").WithCause(err)
	default:
		return nil, fmt.Errorf("read %s: %w", r.where(), err)
	}
}

func (r *SecretResolver) where() string {
	return "kubeconfig secret " + r.options.Namespace + "/" + r.options.Name
}
