package host_test

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/caisson-dev/caisson/host/internal/testenv"
)

// road is a way to a control plane that one scenario has for itself, so that it can be
// cut without a scenario beside it noticing.
type road struct {
	to      string
	address string

	mu       sync.Mutex
	listener net.Listener
	open     map[net.Conn]bool
}

// newRoad returns a way to a cluster that is closed: its address refuses connections.
func newRoad(t *testing.T, c *testenv.Cluster) *road {
	t.Helper()
	u, err := url.Parse(c.Config.Host)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &road{to: u.Host, address: listener.Addr().String(), open: map[net.Conn]bool{}}
	require.NoError(t, listener.Close())
	t.Cleanup(r.cut)
	return r
}

// clear opens the road, at the address that it always had.
func (r *road) clear(t *testing.T) {
	t.Helper()
	var listener net.Listener
	eventually(t, "listening at "+r.address, func() (bool, string) {
		var err error
		if listener, err = net.Listen("tcp", r.address); err != nil {
			return false, err.Error()
		}
		return true, ""
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listener = listener
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			go r.carry(near)
		}
	}()
}

func (r *road) carry(near net.Conn) {
	far, err := net.Dial("tcp", r.to)
	if err != nil {
		_ = near.Close()
		return
	}
	r.mu.Lock()
	r.open[near], r.open[far] = true, true
	closed := r.listener == nil
	r.mu.Unlock()
	if !closed {
		go func() { _, _ = io.Copy(far, near); _ = far.Close() }()
		_, _ = io.Copy(near, far)
	}
	_ = near.Close()
	_ = far.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, near)
	delete(r.open, far)
}

// cut closes the road and breaks what is on it.
func (r *road) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.listener != nil {
		_ = r.listener.Close()
		r.listener = nil
	}
	for c := range r.open {
		_ = c.Close()
	}
}

// server is its URL.
func (r *road) server() string { return "https://" + r.address }

// kubeconfigVia is a kubeconfig of a cluster with another server, and another token unless
// that is empty.
func kubeconfigVia(t *testing.T, c *testenv.Cluster, server, token string) []byte {
	t.Helper()
	config, err := clientcmd.Load(c.Kubeconfig)
	require.NoError(t, err)
	current := config.Contexts[config.CurrentContext]
	config.Clusters[current.Cluster].Server = server
	if token != "" {
		user := config.AuthInfos[current.AuthInfo]
		user.Token, user.ClientCertificateData, user.ClientKeyData = token, nil, nil
	}
	raw, err := clientcmd.Write(*config)
	require.NoError(t, err)
	return raw
}
