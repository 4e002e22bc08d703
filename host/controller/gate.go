package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
)

const (
	// gateWidth is how many passes one module may hold up at a time: half of those that
	// run, so that one that hangs until its deadline leaves the other half to the Stacks
	// that do without it.
	gateWidth = stackWorkers / 2
	// gatePatience is how long a pass waits for a module none of whose calls comes to an
	// end. Calls take milliseconds; one whose calls do end is waited for, however many wait.
	gatePatience = time.Second
	// busyPause is when a pass that was sent away asks again.
	busyPause = 5 * time.Second
)

// gate bounds how many calls of one module are under way, and sends the others away when
// none of those comes to an end: a pass that waited would hold up Stacks that have nothing
// to do with the module. It is safe for concurrent use.
type gate struct {
	slots    chan struct{}
	patience time.Duration

	mu sync.Mutex
	// moved is when a slot was taken or given back last.
	moved time.Time
}

func newGate(width int, patience time.Duration) *gate {
	return &gate{slots: make(chan struct{}, max(width, 1)), patience: patience}
}

// enter takes a slot, which leave gives back. It reports false when the module has all of
// its slots in use and has not given one back for the length of the patience, or when the
// context has ended.
func (g *gate) enter(ctx context.Context) bool {
	for {
		select {
		case g.slots <- struct{}{}:
			g.move()
			return true
		default:
		}
		left := g.patience - g.still()
		if left <= 0 {
			return false
		}
		timer := time.NewTimer(left)
		select {
		case g.slots <- struct{}{}:
			timer.Stop()
			g.move()
			return true
		case <-timer.C:
			// Meanwhile others may have come and gone.
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
}

// width is how many slots there are.
func (g *gate) width() int { return cap(g.slots) }

func (g *gate) leave() {
	<-g.slots
	g.move()
}

func (g *gate) move() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.moved = time.Now()
}

// still is for how long no slot has been taken or given back.
func (g *gate) still() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Since(g.moved)
}

// enter takes what a call of an export needs besides a worker; leave gives it back.
func (c *countedRuntime) enter(ctx context.Context, export string) (leave func(), err error) {
	// The narrowest comes first: whoever waits for it takes nothing from the others.
	var gates []*gate
	again := c.entry.hangs.of(ctx, export)
	if again {
		gates = append(gates, c.modules.again)
	}
	if again || c.entry.hung.Load() {
		gates = append(gates, c.modules.slow)
	}
	gates = append(gates, c.entry.gate)
	for i, g := range gates {
		if g.enter(ctx) {
			continue
		}
		why := fmt.Sprintf("module %s has all of the %d calls under way that it may have, and none comes to an end", c.name, g.width())
		if g != c.entry.gate {
			why = fmt.Sprintf("module %s hung when it was called last, and modules that do have all of the %d calls under way that they may have together", c.name, g.width())
		}
		for _, entered := range gates[:i] {
			entered.leave()
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("wait for module %s: %w", c.name, context.Cause(ctx))
		}
		reason := abi.ReasonModuleBusy
		if inside := c.modules.inside.Load(); g == c.entry.gate && inside > int64(c.modules.workers) {
			// It is not the module that does not come to an end: it waits for others.
			reason = abi.ReasonWorkerBusy
			why = fmt.Sprintf("%d calls of all modules share %d workers, and none of module %s comes to an end", inside, c.modules.workers, c.name)
		}
		return nil, provisioner.Yield(reason, why).WithRetryAfter(jitter(busyPause))
	}
	return func() {
		for _, g := range gates {
			g.leave()
		}
	}, nil
}

// notCalled spreads what waits for a worker over some time, so that it does not come back
// all at once.
func (c *countedRuntime) notCalled(err error) error {
	var busy interface {
		error
		Reason() string
	}
	if !errors.As(err, &busy) {
		return err
	}
	return provisioner.Yield(abi.ReasonWorkerBusy, "call module "+c.name).WithCause(err).WithRetryAfter(jitter(busyPause))
}

// happened reports whether a module was called at all. What comes of a caller who has gone,
// or of workers that are busy with others, says nothing of it.
func happened(err error) bool {
	if err == nil {
		return true
	}
	var reasoned interface {
		error
		Reason() string
	}
	return errors.As(err, &reasoned) && reasoned.Reason() != abi.ReasonWorkerBusy
}

// timedOut reports whether a call ended at its deadline, or at the end of the processor
// time that is there to be used up before it.
func timedOut(err error) bool {
	var reasoned interface {
		error
		Reason() string
	}
	return errors.As(err, &reasoned) && (reasoned.Reason() == abi.ReasonTimeout || reasoned.Reason() == abi.ReasonCPUExceeded)
}
