package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// fieldOwner is who applies the demo's manifests.
const fieldOwner = "caisson-demo"

// placeholder stands for the registry in the manifests.
const placeholder = "registry.example.com"

// tokenSeconds is how long the tokens that the demo mints are valid: longer than it
// runs, and a working day for who keeps it.
const tokenSeconds = 8 * 3600

// cluster is a cluster that the demo administers.
type cluster struct {
	name       string
	kubeconfig string
	config     *rest.Config
	client     client.WithWatch
}

// connect makes a client for a kubeconfig file.
func connect(name, kubeconfig string) (*cluster, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig of %s: %w", name, err)
	}
	config.QPS, config.Burst = 200, 400 // a local API server; the default of 5 would be what the demo waits for
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("make scheme: %w", err)
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", name, err)
	}
	return &cluster{name: name, kubeconfig: kubeconfig, config: config, client: c}, nil
}

// apply applies manifests, with the registry in place of its placeholder.
func (c *cluster) apply(ctx context.Context, registry string, files ...string) error {
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read manifest: %w", err)
		}
		text := strings.ReplaceAll(string(raw), placeholder, registry)
		if err := c.applyText(ctx, text); err != nil {
			return fmt.Errorf("apply %s to %s: %w", filepath.Base(file), c.name, err)
		}
	}
	return nil
}

func (c *cluster) applyText(ctx context.Context, text string) error {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewBufferString(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(object.Object) == 0 {
			continue
		}
		if err := c.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(fieldOwner), client.ForceOwnership); err != nil {
			return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
}

// identity mints a token for a ServiceAccount and returns a kubeconfig that is nothing
// but that: no files, no commands.
func (c *cluster) identity(ctx context.Context, namespace, name string) ([]byte, error) {
	account := &corev1.ServiceAccount{}
	account.Namespace, account.Name = namespace, name
	seconds := int64(tokenSeconds)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	if err := c.client.SubResource("token").Create(ctx, account, request); err != nil {
		return nil, fmt.Errorf("mint a token for %s/%s on %s: %w", namespace, name, c.name, err)
	}
	config := rest.CopyConfig(c.config)
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, fmt.Errorf("read CA of %s: %w", c.name, err)
	}
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters[c.name] = &clientcmdapi.Cluster{
		Server: config.Host, CertificateAuthorityData: config.CAData, TLSServerName: config.ServerName,
	}
	kubeconfig.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: request.Status.Token}
	kubeconfig.Contexts[c.name] = &clientcmdapi.Context{Cluster: c.name, AuthInfo: name}
	kubeconfig.CurrentContext = c.name
	return clientcmd.Write(*kubeconfig)
}
