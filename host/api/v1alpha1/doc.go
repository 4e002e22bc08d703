// Package v1alpha1 holds the API objects of the group caisson.dev: Stack, a tree of
// provisioners; Module, a Wasm leaf and what it may do; Application, a catalogue entry;
// and Blueprint, a tree for every object of another kind.
//
// The types are plain data with structural validation. What CEL in the schema cannot
// express (cycles, second parents) is found by host/plan.
//
// +kubebuilder:object:generate=true
// +groupName=caisson.dev
package v1alpha1
