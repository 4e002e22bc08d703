package helm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/caisson-dev/caisson/host/scope"
)

// The default limits of client-go, 5 requests a second, are made for a person at a
// terminal: a chart of 50 objects would take 10 s to look at.
const (
	clientQPS   = 50
	clientBurst = 100
)

// maxClusters bounds the cache of clients. An operator reaches one cluster per tenant
// identity and remote; beyond this many, the ones used longest ago are made again.
const maxClusters = 256

// clusterIdle is how long the clients of a cluster are kept after their last use: over the
// resync of a converged Stack, as the connections are that they share their sockets with.
const clusterIdle = scope.DefaultIdleTimeout

// cluster is everything that reaches one cluster as one identity.
type cluster struct {
	// id tells clusters and identities apart; it changes with the credentials.
	id        string
	config    *rest.Config
	discovery discovery.CachedDiscoveryInterface
	mapper    *restmapper.DeferredDiscoveryRESTMapper
	dynamic   dynamic.Interface
	metadata  metadata.Interface
	clientset kubernetes.Interface
}

// newCluster makes the clients for a config; it sends no request.
func newCluster(id string, config *rest.Config, request time.Duration) (*cluster, error) {
	config = rest.CopyConfig(config)
	if config.QPS == 0 {
		config.QPS, config.Burst = clientQPS, clientBurst
	}
	if config.Timeout == 0 {
		config.Timeout = request
	}
	config.WarningHandler = rest.NoWarnings{}
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a dynamic client: %w", err)
	}
	watching := rest.CopyConfig(config)
	watching.Timeout = 0 // A watch is one long request.
	md, err := metadata.NewForConfig(watching)
	if err != nil {
		return nil, fmt.Errorf("making a metadata client: %w", err)
	}
	cached := memory.NewMemCacheClient(clientset.Discovery())
	return &cluster{
		id: id, config: config, discovery: cached, mapper: restmapper.NewDeferredDiscoveryRESTMapper(cached),
		dynamic: dyn, metadata: md, clientset: clientset,
	}, nil
}

// mapping finds the resource of an object's kind. A kind that is not known yet makes
// the mapper look again once: its CRD may have been installed a moment ago.
func (c *cluster) mapping(o object) (*meta.RESTMapping, error) {
	gvk := o.GroupVersionKind()
	mapping, err := c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		c.mapper.Reset()
		mapping, err = c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	}
	if err != nil {
		return nil, fmt.Errorf("finding the resource of %s: %w", gvk.Kind, err)
	}
	return mapping, nil
}

// resource returns the client for an object, in its own namespace or the release's.
func (c *cluster) resource(o object, namespace string) (dynamic.ResourceInterface, error) {
	mapping, err := c.mapping(o)
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return c.dynamic.Resource(mapping.Resource), nil
	}
	if o.Namespace != "" {
		namespace = o.Namespace
	}
	return c.dynamic.Resource(mapping.Resource).Namespace(namespace), nil
}

// read reads an object, from its own namespace or the release's. A kind that the
// cluster does not serve any more is a NoMatch error, and not an object that is absent.
func (c *cluster) read(ctx context.Context, o object, namespace string) (*unstructured.Unstructured, error) {
	resource, err := c.resource(o, namespace)
	if err != nil {
		return nil, err
	}
	live, err := resource.Get(ctx, o.Name, metav1.GetOptions{})
	if !isUnserved(err) {
		return live, err
	}
	c.mapper.Reset()
	if _, err := c.mapping(o); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("reading %s: %w", o, err)
}

// isUnserved reports whether a 404 means the whole resource: the API server has no
// details to give then.
func isUnserved(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	return status.Status().Details == nil || apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// getter gives Helm the clients of a cluster. It reads no environment and no files.
type getter struct {
	*cluster
	namespace string
}

// ToRESTConfig implements genericclioptions.RESTClientGetter.
func (g getter) ToRESTConfig() (*rest.Config, error) { return rest.CopyConfig(g.config), nil }

// ToDiscoveryClient implements genericclioptions.RESTClientGetter.
func (g getter) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	return g.discovery, nil
}

// ToRESTMapper implements genericclioptions.RESTClientGetter.
func (g getter) ToRESTMapper() (meta.RESTMapper, error) { return g.mapper, nil }

// ToRawKubeConfigLoader implements genericclioptions.RESTClientGetter; Helm asks it for
// the namespace only.
func (g getter) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	return clientcmd.NewDefaultClientConfig(clientcmdapi.Config{}, &clientcmd.ConfigOverrides{
		Context: clientcmdapi.Context{Namespace: g.namespace},
	})
}

// clusterCache keeps the clients, and with them the discovery results and connections,
// from one pass to the next.
type clusterCache struct {
	request time.Duration
	now     func() time.Time

	mu      sync.Mutex
	entries map[string]*cachedCluster
}

type cachedCluster struct {
	*cluster
	used time.Time
}

func newClusterCache(request time.Duration, now func() time.Time) *clusterCache {
	return &clusterCache{request: request, now: now, entries: map[string]*cachedCluster{}}
}

// at returns the clients for a scope, which must have a config.
func (c *clusterCache) at(s scope.Scope) (*cluster, error) {
	config := s.Config()
	id, err := fingerprint(s.ID(), config)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	entry, ok := c.entries[id]
	if !ok {
		made, err := newCluster(id, config, c.request)
		if err != nil {
			return nil, err
		}
		entry = &cachedCluster{cluster: made}
		c.entries[id] = entry
	}
	entry.used = c.now()
	c.evict()
	return entry.cluster, nil
}

// dropIdle forgets clusters that were not used for long. A watch that is open keeps its own.
func (c *clusterCache) dropIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	for id, entry := range c.entries {
		if now.Sub(entry.used) >= clusterIdle {
			delete(c.entries, id)
		}
	}
}

func (c *clusterCache) evict() {
	for len(c.entries) > maxClusters {
		var oldest string
		for id, entry := range c.entries {
			if oldest == "" || entry.used.Before(c.entries[oldest].used) {
				oldest = id
			}
		}
		delete(c.entries, oldest)
	}
}

// fingerprint identifies a cluster, an identity and its credentials without revealing
// any of them.
func fingerprint(scopeID string, config *rest.Config) (string, error) {
	raw, err := json.Marshal([]any{
		scopeID, config.Host, config.APIPath, config.Username, config.Password, config.BearerToken, config.BearerTokenFile,
		config.Impersonate, config.ServerName, config.Insecure, config.CAData, config.CAFile, config.CertData, config.CertFile,
		config.KeyData, config.KeyFile, config.QPS, config.Burst, int64(config.Timeout),
		fmt.Sprintf("%p %p %p", config.WrapTransport, config.Dial, config.Proxy),
	})
	if err != nil {
		return "", fmt.Errorf("identifying the cluster: %w", err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}
