package scope_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// keyPair returns a self-signed certificate and its key, as PEM.
func keyPair(tb testing.TB, commonName string) (certPEM, keyPEM []byte) {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(tb, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: commonName},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(tb, err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	require.NoError(tb, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
}

// kubeconfig returns a kubeconfig with a token, whose names are somebody's own.
func kubeconfig(server string) *clientcmdapi.Config {
	config := clientcmdapi.NewConfig()
	config.Clusters["their-cluster"] = &clientcmdapi.Cluster{Server: server}
	config.AuthInfos["their-user"] = &clientcmdapi.AuthInfo{Token: "s3cr3t"}
	config.Contexts["their-context"] = &clientcmdapi.Context{Cluster: "their-cluster", AuthInfo: "their-user", Namespace: "their-namespace"}
	config.CurrentContext = "their-context"
	return config
}

// apiServer is a TLS server that answers /version and counts.
type apiServer struct {
	*httptest.Server

	asked  atomic.Int64
	status atomic.Int64
	body   atomic.Value
	token  atomic.Value
}

func newAPIServer(tb testing.TB) *apiServer {
	tb.Helper()
	s := &apiServer{}
	s.status.Store(http.StatusOK)
	s.body.Store(`{"major":"1","minor":"37","gitVersion":"v1.37.2"}`)
	s.token.Store("")
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/version" {
			http.NotFound(w, r)
			return
		}
		s.asked.Add(1)
		s.token.Store(r.Header.Get("Authorization"))
		w.WriteHeader(int(s.status.Load()))
		_, _ = w.Write([]byte(s.body.Load().(string)))
	}))
	tb.Cleanup(s.Close)
	return s
}

// kubeconfig returns one that trusts the server.
func (s *apiServer) kubeconfig() *clientcmdapi.Config {
	config := kubeconfig(s.URL)
	config.Clusters["their-cluster"].CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return config
}

var configMapKey = client.ObjectKey{Namespace: "a", Name: "b"}

func configMap() *corev1.ConfigMap { return &corev1.ConfigMap{} }

// connections counts the open sockets of a server.
type connections struct {
	mu   sync.Mutex
	open map[net.Conn]bool
}

func (c *connections) note(connection net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew, http.StateActive, http.StateIdle:
		c.open[connection] = true
	case http.StateClosed, http.StateHijacked:
		delete(c.open, connection)
	}
}

func (c *connections) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}

// countedServer is an API server with TLS whose sockets are counted.
func countedServer(tb testing.TB) (*apiServer, *connections) {
	tb.Helper()
	s, c := &apiServer{}, &connections{open: map[net.Conn]bool{}}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"gitVersion":"v1.37.2"}`))
	}))
	s.Config.ConnState = c.note
	s.EnableHTTP2 = true
	s.StartTLS()
	tb.Cleanup(s.Close)
	return s, c
}
