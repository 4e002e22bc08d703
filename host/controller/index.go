package controller

import (
	"cmp"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/scope"
)

// InputIndex finds the Stacks that have read an object. It is kept in memory and filled
// before a status is written, so that no event falls between a read and its record. It
// is safe for concurrent use.
type InputIndex struct {
	mu      sync.RWMutex
	readers map[inputKey]map[types.NamespacedName]bool
	inputs  map[types.NamespacedName][]inputKey
}

// NewInputIndex returns an empty index.
func NewInputIndex() *InputIndex {
	return &InputIndex{
		readers: map[inputKey]map[types.NamespacedName]bool{},
		inputs:  map[types.NamespacedName][]inputKey{},
	}
}

// Set replaces what a Stack has read. Objects on remotes are left out: their changes
// are not seen.
func (x *InputIndex) Set(name types.NamespacedName, records []v1alpha1.InputRecord) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, key := range x.inputs[name] {
		delete(x.readers[key], name)
		if len(x.readers[key]) == 0 {
			delete(x.readers, key)
		}
	}
	delete(x.inputs, name)
	for _, record := range records {
		if !watched(record) {
			continue
		}
		key := keyOf(record)
		if x.readers[key] == nil {
			x.readers[key] = map[types.NamespacedName]bool{}
		}
		x.readers[key][name] = true
		x.inputs[name] = append(x.inputs[name], key)
	}
}

// Readers returns the Stacks that have read an object at home, sorted.
func (x *InputIndex) Readers(kind, namespace, name string) []types.NamespacedName {
	x.mu.RLock()
	defer x.mu.RUnlock()
	readers := x.readers[inputKey{scope: scope.HomeID, kind: kind, namespace: namespace, name: name}]
	names := make([]types.NamespacedName, 0, len(readers))
	for n := range readers {
		names = append(names, n)
	}
	slices.SortFunc(names, func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return names
}
