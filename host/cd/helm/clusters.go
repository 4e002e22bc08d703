package helm

import (
	"bytes"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

const (
	registrationPrefix = "caisson-cluster-"
	registrationKey    = "kubeconfig"
)

// registrations keeps one Secret for each remote cluster, named by its identity.
type registrations struct {
	client    client.Client
	namespace string
}

func (r registrations) key(id scope.ResourceIdentifier) client.ObjectKey {
	return client.ObjectKey{Namespace: r.namespace, Name: registrationPrefix + id.Hash()}
}

// register writes the kubeconfig unless it is there already. One that would run a
// program or read a file is refused, even though it should have been sanitised before.
func (r registrations) register(ctx context.Context, id scope.ResourceIdentifier, config *clientcmdapi.Config) error {
	raw, err := encodeKubeconfig(config)
	if err != nil {
		return err
	}
	labels := map[string]string{labelManagedBy: managedByCaisson, labelOwnerUID: labelValue(id.Owner.UID)}
	err = retry.OnError(conflictBackoff(), retriable, func() error {
		secret := &corev1.Secret{}
		err := r.client.Get(ctx, r.key(id), secret)
		if apierrors.IsNotFound(err) {
			key := r.key(id)
			return r.client.Create(ctx, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: labels},
				Data:       map[string][]byte{registrationKey: raw},
			})
		}
		if err != nil || bytes.Equal(secret.Data[registrationKey], raw) {
			return err
		}
		secret.Data = map[string][]byte{registrationKey: raw}
		return r.client.Update(ctx, secret)
	})
	if err != nil {
		return provisioner.Retry(abi.ReasonRegistrationFailed, "registering remote "+id.Path).WithCause(err)
	}
	return nil
}

// registered reads what register wrote.
func (r registrations) registered(ctx context.Context, id scope.ResourceIdentifier) (*clientcmdapi.Config, error) {
	secret := &corev1.Secret{}
	err := r.client.Get(ctx, r.key(id), secret)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("registration of remote %s: %w", id.Path, provisioner.ErrNotFound)
	}
	if err != nil {
		return nil, provisioner.Retry(abi.ReasonUnexpected, "reading the registration of remote "+id.Path).WithCause(err)
	}
	config, err := clientcmd.Load(secret.Data[registrationKey])
	if err != nil {
		return nil, provisioner.UserActionRequired(abi.ReasonInvalidKubeconfig, "the registration of remote "+id.Path+" cannot be read")
	}
	return config, nil
}

// deregister deletes the Secret; none is fine.
func (r registrations) deregister(ctx context.Context, id scope.ResourceIdentifier) error {
	key := r.key(id)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	if err := r.client.Delete(ctx, secret); client.IgnoreNotFound(err) != nil {
		return provisioner.Retry(abi.ReasonRegistrationFailed, "deregistering remote "+id.Path).WithCause(err)
	}
	return nil
}

// encodeKubeconfig writes the one context that is used. The errors quote nothing of it.
func encodeKubeconfig(config *clientcmdapi.Config) ([]byte, error) {
	invalid := func(why string) error { return provisioner.Terminal(abi.ReasonInvalidKubeconfig, why) }
	if config == nil {
		return nil, invalid("there is no kubeconfig")
	}
	minimal := config.DeepCopy()
	if err := clientcmdapi.MinifyConfig(minimal); err != nil {
		return nil, invalid("the current context is missing or incomplete")
	}
	for _, user := range minimal.AuthInfos {
		switch {
		case user.Exec != nil, user.AuthProvider != nil:
			return nil, invalid("a user that runs a program is not allowed")
		case user.TokenFile != "", user.ClientCertificate != "", user.ClientKey != "":
			return nil, invalid("a user that reads files is not allowed")
		}
	}
	for _, c := range minimal.Clusters {
		if c.CertificateAuthority != "" {
			return nil, invalid("a cluster that reads files is not allowed")
		}
	}
	raw, err := clientcmd.Write(*minimal)
	if err != nil {
		return nil, invalid("the kubeconfig cannot be written")
	}
	return raw, nil
}
