package controller

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// callerKey is the key of the owner of a pass in the pass's context.
type callerKey struct{}

// calledBy says for whom the calls of a pass are made.
func calledBy(ctx context.Context, owner types.UID) context.Context {
	return context.WithValue(ctx, callerKey{}, owner)
}

// hangs remembers for whom a module hung, and in which export. It may do so for some
// configs only, and hang in one export and not in the other: those whose calls end must not
// stand in line with those whose calls do not. It is safe for concurrent use.
type hangs struct {
	mu     sync.Mutex
	owners map[types.UID]string
}

// of reports whether the owner's last call hung, if it was one of this export.
func (h *hangs) of(ctx context.Context, export string) bool {
	owner, ok := ctx.Value(callerKey{}).(types.UID)
	if !ok {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.owners[owner] == export
}

// note takes down how the owner's call of an export ended.
func (h *hangs) note(ctx context.Context, export string, err error) {
	owner, ok := ctx.Value(callerKey{}).(types.UID)
	if !ok {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !timedOut(err) {
		delete(h.owners, owner)
		return
	}
	if h.owners == nil {
		h.owners = map[types.UID]string{}
	}
	h.owners[owner] = export
}
