package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/module"
)

// maxFactsBytes is what all facts of a Stack may take together, since they are kept in
// its status (DESIGN.md §9).
const maxFactsBytes = 16 << 10

// facts are what nodes publish for each other: those that earlier passes left, and over
// them those of this pass. It is safe for concurrent use.
type facts struct {
	mu sync.RWMutex
	// values is replaced as a whole and never changed.
	values map[string]json.RawMessage
}

var _ module.Facts = (*facts)(nil)

func newFacts(given map[string]json.RawMessage) *facts {
	values := maps.Clone(given)
	if values == nil {
		values = map[string]json.RawMessage{}
	}
	return &facts{values: values}
}

// Snapshot implements module.Facts.
func (f *facts) Snapshot() map[string]json.RawMessage {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.values
}

// Publish implements module.Facts. Two nodes that publish a fact of the same name
// overwrite each other. Facts that do not fit are a Retry output_too_large, and none of
// them is published.
func (f *facts) Publish(_ context.Context, node string, published map[string]json.RawMessage) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	values := maps.Clone(f.values)
	maps.Copy(values, published)
	size := 0
	for name, value := range values {
		size += len(name) + len(value)
	}
	if size > maxFactsBytes {
		return provisioner.Retry(abi.ReasonOutputTooLarge,
			fmt.Sprintf("with those of %s the facts of the Stack have %d bytes and %d are allowed", node, size, maxFactsBytes))
	}
	f.values = values
	return nil
}

// variable returns the facts as expressions see them. A fact that is not JSON is absent.
func (f *facts) variable() map[string]any {
	values := f.Snapshot()
	object := make(map[string]any, len(values))
	for name, raw := range values {
		if value, err := plainDocument(raw); err == nil {
			object[name] = value
		}
	}
	return object
}
