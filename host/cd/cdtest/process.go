package cdtest

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/scope"
)

// Process is an operator process that can be killed: from then on nothing that its driver
// does reaches the cluster, and nothing that it waits for comes. It is safe for
// concurrent use.
type Process struct {
	// Operator is the client that the process's driver gets.
	Operator client.Client

	life context.Context //nolint:containedctx // It is the life of the process, which all of its requests share.
	end  context.CancelFunc

	mu   sync.Mutex
	fate func(*http.Request) bool
}

// errKilled is what a dead process sees, if anybody asked it.
var errKilled = errors.New("the process was killed")

// NewProcess starts a process. fate is asked about every request that was carried out,
// before its answer is delivered, one at a time; if it reports true, the process is
// killed and never sees the answer.
func (e *Env) NewProcess(t *testing.T, fate func(*http.Request) bool) *Process {
	t.Helper()
	p := &Process{fate: fate}
	p.life, p.end = context.WithCancel(t.Context())
	var err error
	p.Operator, err = client.New(p.mortal(e.counted(e.Config)), client.Options{})
	require.NoError(t, err)
	return p
}

// KilledAtWrite is the fate of a process that is killed when its nth write was carried
// out. The process must ask it about one request at a time.
func KilledAtWrite(nth int) func(*http.Request) bool {
	writes := 0
	return func(r *http.Request) bool {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			writes++
		}
		return writes >= nth
	}
}

// Kill kills the process.
func (p *Process) Kill() { p.end() }

// Dead reports whether the process was killed.
func (p *Process) Dead() bool { return p.life.Err() != nil }

// Scope is the tenant's home as the process reaches it.
func (p *Process) Scope(t *testing.T, tn *Tenant) scope.Scope {
	t.Helper()
	config := p.mortal(tn.config)
	c, err := client.New(config, client.Options{})
	require.NoError(t, err)
	return scope.NewHome(tn.owner, config, c)
}

func (p *Process) mortal(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) { return p.pass(next, r) })
	})
	return config
}

// pass sends a request as long as the process lives, which ends open watches as well.
func (p *Process) pass(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	if p.Dead() {
		return nil, errKilled
	}
	ctx, cancel := context.WithCancel(r.Context())
	context.AfterFunc(p.life, cancel)
	response, err := next.RoundTrip(r.WithContext(ctx))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Dead() || p.fate(r) {
		p.end()
		if err == nil {
			_ = response.Body.Close() // Nobody is there any more to read it.
		}
		return nil, errKilled
	}
	return response, err
}
