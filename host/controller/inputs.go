package controller

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

// The kinds of inputs.
const (
	inputSecret      = "Secret"
	inputConfigMap   = "ConfigMap"
	inputModule      = "Module"
	inputApplication = "Application"
)

// inputSet collects what one pass reads. It is safe for concurrent use.
type inputSet struct {
	// version returns the version of a record whose kind this package defines; nil keeps
	// what was recorded.
	version func(v1alpha1.InputRecord) string

	mu      sync.Mutex
	records map[inputKey]v1alpha1.InputRecord
}

// inputKey identifies an object.
type inputKey struct{ scope, kind, namespace, name string }

func newInputSet(version func(v1alpha1.InputRecord) string) *inputSet {
	return &inputSet{version: version, records: map[inputKey]v1alpha1.InputRecord{}}
}

// RecordInput implements provisioner.InputRecorder. An object that is read twice keeps
// the first version: if it changed in between, the next wake sees the difference.
func (s *inputSet) RecordInput(i provisioner.Input) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := inputKey{scope: i.ScopeID, kind: i.Kind, namespace: i.Namespace, name: i.Name}
	if _, ok := s.records[key]; ok {
		return
	}
	record := v1alpha1.InputRecord{
		Scope: i.ScopeID, Kind: i.Kind, Namespace: i.Namespace, Name: i.Name,
		Absent: i.Absent, ResourceVersion: i.Version,
	}
	if s.version != nil && watched(record) && (i.Kind == inputModule || i.Kind == inputApplication) {
		record.ResourceVersion = s.version(record)
	}
	s.records[key] = record
}

// sorted returns the records in a stable order.
func (s *inputSet) sorted() []v1alpha1.InputRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	records := make([]v1alpha1.InputRecord, 0, len(s.records))
	for _, r := range s.records {
		records = append(records, r)
	}
	sortInputs(records)
	return records
}

func sortInputs(records []v1alpha1.InputRecord) {
	slices.SortFunc(records, func(a, b v1alpha1.InputRecord) int {
		return cmp.Or(cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

// mergeInputs returns the inputs of a pass together with those that only the previous
// one read: a node that was answered from memory, or not reached, still depends on them.
func mergeInputs(previous, read []v1alpha1.InputRecord) []v1alpha1.InputRecord {
	merged := slices.Clone(read)
	seen := map[inputKey]bool{}
	for _, r := range read {
		seen[keyOf(r)] = true
	}
	for _, r := range previous {
		if !seen[keyOf(r)] {
			merged = append(merged, r)
		}
	}
	sortInputs(merged)
	return merged
}

// inputsDigest identifies a list of records. It holds names and versions, never values.
func inputsDigest(records []v1alpha1.InputRecord) string {
	h := sha256.New()
	for _, r := range records {
		_, _ = fmt.Fprintf(h, "%q %q %q %q %t %q\n", r.Scope, r.Kind, r.Namespace, r.Name, r.Absent, r.ResourceVersion)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

func keyOf(r v1alpha1.InputRecord) inputKey {
	return inputKey{scope: r.Scope, kind: r.Kind, namespace: r.Namespace, name: r.Name}
}

// watched reports whether a change of the object is seen: those at home are, those on
// remotes are not.
func watched(r v1alpha1.InputRecord) bool { return r.Scope == scope.HomeID }
