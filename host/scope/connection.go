package scope

import (
	"fmt"
	"net/http"
	"net/url"

	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Connection reaches one cluster with one identity. It is immutable and shared: any
// number of passes may hold the same one, also after the cache has dropped it.
type Connection struct {
	key        string
	config     *rest.Config
	kubeconfig *clientcmdapi.Config
	http       *http.Client
	client     client.Client
	host       string
	port       int
	probes     *probe
}

// Client reaches the cluster. Its mapping of kinds to resources is looked up lazily.
func (c *Connection) Client() client.Client { return c.client }

// Config returns a copy of the client configuration.
func (c *Connection) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Kubeconfig returns a copy of the sanitised kubeconfig; nil for a tenant at home.
func (c *Connection) Kubeconfig() *clientcmdapi.Config { return c.kubeconfig.DeepCopy() }

// Address is the API server's host and port.
func (c *Connection) Address() (string, int) { return c.host, c.port }

// open builds the clients. It makes no request.
func (c *Connection) open(config *rest.Config, scheme *runtime.Scheme) error {
	shared, err := rest.HTTPClientFor(config)
	if err != nil {
		return fmt.Errorf("build HTTP client: %w", err)
	}
	// client-go may hand out http.DefaultClient, so what follows changes a copy.
	httpClient := *shared
	// An API server does not redirect its clients. One that does would make the operator
	// send a request, with the credential, to an address of the kubeconfig's choice.
	httpClient.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	mapper, err := apiutil.NewDynamicRESTMapper(config, &httpClient)
	if err != nil {
		return fmt.Errorf("build REST mapper: %w", err)
	}
	made, err := client.New(config, client.Options{HTTPClient: &httpClient, Scheme: scheme, Mapper: mapper})
	if err != nil {
		return fmt.Errorf("build client: %w", err)
	}
	c.config, c.http, c.client = config, &httpClient, made
	c.host, c.port = addressOf(config)
	return nil
}

// close drops the idle sockets. Requests in flight and holders are not disturbed.
func (c *Connection) close() { utilnet.CloseIdleConnectionsFor(c.http.Transport) }

func addressOf(config *rest.Config) (string, int) {
	u, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return "", 0
	}
	return hostAndPort(u)
}

func hostAndPort(u *url.URL) (string, int) {
	port, err := portOf(u)
	if err != nil {
		return "", 0
	}
	return u.Hostname(), port
}
