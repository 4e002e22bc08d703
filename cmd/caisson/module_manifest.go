package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/abi/wasmfile"
)

// readManifest parses and validates a manifest. A field that the ABI does not know is
// an error, because it is a misspelt one that would silently do nothing.
func readManifest(raw []byte) (*abi.Manifest, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	var m abi.Manifest
	if err := decoder.Decode(&m); err != nil {
		return nil, failure("return the JSON of a manifest from describe, see abi/SPEC.md", "read the manifest: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, failure("return one JSON object from describe", "read the manifest: something follows the JSON object")
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	return &m, nil
}

// sameJSON reports whether two documents say the same, whatever their layout.
func sameJSON(a, b []byte) bool {
	var left, right any
	if json.Unmarshal(a, &left) != nil || json.Unmarshal(b, &right) != nil {
		return false
	}
	return reflect.DeepEqual(left, right)
}

// surface is what a module's file shows of it without running it.
type surface struct {
	// functions are the imported host functions of Caisson, sorted.
	functions []abi.Function
	// others counts the imports from everywhere else.
	others map[string]int
	// exports are the exported functions, sorted.
	exports []string
}

// readSurface lists imports and exports.
func readSurface(wasm []byte) (surface, error) {
	imports, err := wasmfile.Imports(wasm)
	if err != nil {
		return surface{}, fmt.Errorf("read the imports: %w", err)
	}
	exports, err := wasmfile.Exports(wasm)
	if err != nil {
		return surface{}, fmt.Errorf("read the exports: %w", err)
	}
	s := surface{others: map[string]int{}}
	for _, i := range imports {
		if i.Module == abi.ImportUser && i.Kind == wasmfile.KindFunc {
			s.functions = append(s.functions, abi.Function(i.Name))
			continue
		}
		s.others[i.Module]++
	}
	for _, e := range exports {
		if e.Kind == wasmfile.KindFunc {
			s.exports = append(s.exports, e.Name)
		}
	}
	slices.Sort(s.functions)
	s.functions = slices.Compact(s.functions)
	slices.Sort(s.exports)
	return s, nil
}

// undeclared are the imports that the manifest does not ask for: a host refuses them.
func (s surface) undeclared(m *abi.Manifest) []abi.Function {
	return slices.DeleteFunc(slices.Clone(s.functions), m.Declares)
}

// unused are the capabilities that the module cannot use: a grant would be for nothing.
func (s surface) unused(m *abi.Manifest) []abi.Function {
	return slices.DeleteFunc(slices.Clone(m.Capabilities), func(f abi.Function) bool { return slices.Contains(s.functions, f) })
}

// checkDeclared fails if the module imports what its manifest does not declare.
func (s surface) checkDeclared(m *abi.Manifest) error {
	if missing := s.undeclared(m); len(missing) > 0 {
		return failure("add them to the capabilities of the manifest, or do not call them",
			"the module %s imports %s without declaring it", m.Name, join(missing))
	}
	return nil
}
