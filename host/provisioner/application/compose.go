package application

import (
	"context"
	"slices"

	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

// defaultNamespace is where a release goes when nobody says.
const defaultNamespace = "default"

// Node is what a node asks for, over the defaults of the catalogue.
type Node struct {
	// Version is an exact version or a range; the newest if empty.
	Version string
	// Release and Namespace override the catalogue's unless they are empty.
	Release, Namespace string
	// CreateNamespace and AllowDegraded can only be switched on.
	CreateNamespace bool
	AllowDegraded   bool
	// ValuesFrom come before Values.
	ValuesFrom []ValuesReference
	// Values are the node's own; a nil inside is a JSON null.
	Values map[string]any
	// Parameters come after the catalogue's, so that they win.
	Parameters []cd.Parameter
}

// Compose merges a version of the catalogue, what was read for valuesFrom, and the node.
// Values: the chart's own < the catalogue's < valuesFrom in order < the node's; parameters
// win over all values. Namespace: the node's, else the catalogue's, else "default". An
// unfit release name is Terminal invalid_release.
//
// Equal arguments give equal applications: nothing depends on the order of a map.
func Compose(id scope.ResourceIdentifier, version *Version, valuesFrom []map[string]any, node Node) (*cd.Application, error) {
	release, err := cd.ReleaseName(first(node.Release, version.Release), id)
	if err != nil {
		return nil, err
	}
	layers := slices.Concat([]map[string]any{version.Values}, valuesFrom, []map[string]any{node.Values})
	return &cd.Application{
		ID:              id,
		Repo:            version.Repo,
		Chart:           version.Chart,
		Version:         version.Version,
		Release:         release,
		Namespace:       first(node.Namespace, version.Namespace, defaultNamespace),
		CreateNamespace: node.CreateNamespace || version.CreateNamespace,
		Values:          Merge(layers...),
		Parameters:      slices.Concat(version.Parameters, node.Parameters),
		AllowDegraded:   node.AllowDegraded || version.AllowDegraded,
	}, nil
}

// Build looks up, resolves, reads and composes, in that order, and returns the error of
// the first step that fails. s is the scope of the pass.
func Build(ctx context.Context, c Catalogue, recorder provisioner.InputRecorder, s scope.Scope, id scope.ResourceIdentifier, ref string, node Node) (*cd.Application, error) {
	entry, err := Lookup(ctx, c, ref, recorder)
	if err != nil {
		return nil, err
	}
	version, err := Resolve(entry, node.Version)
	if err != nil {
		return nil, err
	}
	valuesFrom, confidential, err := readValues(ctx, s, node.ValuesFrom, recorder)
	if err != nil {
		return nil, err
	}
	app, err := Compose(id, version, valuesFrom, node)
	if err != nil {
		return nil, err
	}
	app.Confidential = confidential
	return app, nil
}

func first(candidates ...string) string {
	for _, candidate := range candidates {
		if candidate != "" {
			return candidate
		}
	}
	return ""
}
