package registrytest

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// TB is what this package needs of testing.TB, so that a program that serves a
// registry does not link the testing package.
type TB interface {
	Helper()
	Cleanup(f func())
	Fatalf(format string, args ...any)
}

// Registry is a registry on a loopback port that ends with its test. It is safe for
// concurrent use.
type Registry struct {
	// Host is the address, 127.0.0.1:port.
	Host string
	// URL is http:// and the host.
	URL string

	gate *gate
	base http.Handler

	mu       sync.Mutex
	faults   []Fault
	requests []string
}

// New starts an empty registry that behaves well.
func New(t TB) *Registry {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen for the test registry: %v", err)
	}
	r := &Registry{
		Host: listener.Addr().String(),
		URL:  "http://" + listener.Addr().String(),
		gate: &gate{Listener: listener, open: map[net.Conn]struct{}{}},
		base: NewHandler(""),
	}
	server := &http.Server{Handler: r, ReadHeaderTimeout: readHeaderTimeout, ErrorLog: log.New(io.Discard, "", 0)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(r.gate)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return r
}

// Ref returns the reference of something in this registry, for instance of "a/b:1".
func (r *Registry) Ref(path string) string { return r.Host + "/" + path }

// ServeHTTP implements http.Handler. It records the request before any fault acts.
func (r *Registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	r.requests = append(r.requests, req.Method+" "+req.URL.Path)
	handler := r.base
	for _, fault := range r.faults {
		handler = fault(handler)
	}
	r.mu.Unlock()
	handler.ServeHTTP(w, req)
}

// Inject makes the registry misbehave from now on; the last fault acts first.
func (r *Registry) Inject(f Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, f)
}

// Heal removes every fault.
func (r *Registry) Heal() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = nil
}

// Requests counts the requests so far whose "METHOD /path" contains every one of parts.
func (r *Registry) Requests(parts ...string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, request := range r.requests {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(request, part) }) {
			n++
		}
	}
	return n
}

// Down makes every connection, open or new, end with a reset. The port stays taken, so
// that nobody else can answer on it.
func (r *Registry) Down() { r.gate.close() }

// Up ends Down.
func (r *Registry) Up() { r.gate.reopen() }

// gate is a listener that can turn everybody away.
type gate struct {
	net.Listener

	mu   sync.Mutex
	shut bool
	open map[net.Conn]struct{}
}

// Accept implements net.Listener.
func (g *gate) Accept() (net.Conn, error) {
	for {
		conn, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		g.mu.Lock()
		shut := g.shut
		if !shut {
			g.open[conn] = struct{}{}
		}
		g.mu.Unlock()
		if !shut {
			return &gatedConn{Conn: conn, gate: g}, nil
		}
		reset(conn)
	}
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
	for conn := range g.open {
		reset(conn)
	}
	clear(g.open)
}

func (g *gate) reopen() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = false
}

// reset closes a connection so that the peer sees it fail and not end.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// gatedConn tells its gate when it closes.
type gatedConn struct {
	net.Conn
	gate *gate
}

// Close implements net.Conn.
func (c *gatedConn) Close() error {
	c.gate.mu.Lock()
	delete(c.gate.open, c.Conn)
	c.gate.mu.Unlock()
	return c.Conn.Close()
}
