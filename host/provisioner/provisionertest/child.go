package provisionertest

import (
	"context"
	"slices"
	"sync"

	"github.com/caisson-dev/caisson/host/provisioner"
)

// Trace is the calls of one test in their order, such as "P cni" for the provision and
// "D cni" for the deprovision of a child called cni. It is safe for concurrent use.
type Trace struct {
	mu    sync.Mutex
	calls []string
}

// Add appends a call.
func (t *Trace) Add(call string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls = append(t.calls, call)
}

// Calls returns the calls so far, and forgets them.
func (t *Trace) Calls() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	calls := t.calls
	t.calls = nil
	return calls
}

// Hook takes part in a call of a child, in place of the script.
type Hook func(ctx context.Context) error

// Child is a provisioner that answers from a script. Configure it before its first use;
// it is safe for concurrent use then.
type Child struct {
	name     string
	trace    *Trace
	upHook   Hook
	downHook Hook

	mu   sync.Mutex
	up   []error
	down []error
}

var _ provisioner.Provisioner = (*Child)(nil)

// New returns a child that is always OK. The trace may be nil.
func New(name string, trace *Trace) *Child {
	if trace == nil {
		trace = &Trace{}
	}
	return &Child{name: name, trace: trace}
}

// Up scripts the results of provisions, in order; the last one repeats.
func (c *Child) Up(results ...error) *Child {
	c.up = slices.Clone(results)
	return c
}

// Down scripts the results of deprovisions, in order; the last one repeats.
func (c *Child) Down(results ...error) *Child {
	c.down = slices.Clone(results)
	return c
}

// OnUp runs a hook in place of the script of provisions.
func (c *Child) OnUp(h Hook) *Child {
	c.upHook = h
	return c
}

// OnDown runs a hook in place of the script of deprovisions.
func (c *Child) OnDown(h Hook) *Child {
	c.downHook = h
	return c
}

// ProvisionerName implements provisioner.Provisioner.
func (c *Child) ProvisionerName() string { return c.name }

// Provision implements provisioner.Provisioner.
func (c *Child) Provision(ctx context.Context) error {
	c.trace.Add("P " + c.name)
	if c.upHook != nil {
		return c.upHook(ctx)
	}
	return c.next(&c.up)
}

// Deprovision implements provisioner.Provisioner.
func (c *Child) Deprovision(ctx context.Context) error {
	c.trace.Add("D " + c.name)
	if c.downHook != nil {
		return c.downHook(ctx)
	}
	return c.next(&c.down)
}

func (c *Child) next(script *[]error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(*script) == 0 {
		return nil
	}
	result := (*script)[0]
	if len(*script) > 1 {
		*script = (*script)[1:]
	}
	return result
}
