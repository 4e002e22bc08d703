package application

import (
	"context"
	"errors"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

// Catalogue finds applications by name. It must be safe for concurrent use.
type Catalogue interface {
	// Entry returns the entry of that name. An error that Is provisioner.ErrNotFound says
	// that there is none; any other says that it could not be found out.
	Entry(ctx context.Context, name string) (*Entry, error)
}

// CatalogueFunc adapts a function to [Catalogue].
type CatalogueFunc func(ctx context.Context, name string) (*Entry, error)

// Entry implements Catalogue.
func (f CatalogueFunc) Entry(ctx context.Context, name string) (*Entry, error) { return f(ctx, name) }

var _ Catalogue = CatalogueFunc(nil)

// Entry is one named application of the catalogue. Entries are shared; do not change one.
type Entry struct {
	Name string
	// Versions are in the order of the catalogue; no two may be equal as versions.
	Versions []Version
	// ResourceVersion is that of the object that the entry was read from.
	ResourceVersion string
}

// Version is one version of an application, with the catalogue's defaults.
type Version struct {
	// Version is as the repository spells it, and is what the driver asks the repository
	// for.
	Version string
	// Repo and Chart say where the chart is.
	Repo, Chart string
	// Release is the release name, or empty for a derived one.
	Release string
	// Namespace is where it goes, or empty.
	Namespace string
	// CreateNamespace makes the namespace if it is absent.
	CreateNamespace bool
	// Values are the defaults of the catalogue; a nil inside is a JSON null.
	Values map[string]any
	// Parameters come before those of the node.
	Parameters []cd.Parameter
	// AllowDegraded accepts degraded workloads.
	AllowDegraded bool
}

// Lookup returns an entry of the catalogue and records it as an input, so that a change
// of it wakes the owner; recorder may be nil. A missing entry is recorded as absent and
// is UserActionRequired application_not_found; other errors are returned as they are.
func Lookup(ctx context.Context, c Catalogue, name string, recorder provisioner.InputRecorder) (*Entry, error) {
	input := provisioner.Input{ScopeID: scope.HomeID, Kind: "Application", Name: name}
	entry, err := c.Entry(ctx, name)
	if errors.Is(err, provisioner.ErrNotFound) {
		input.Absent = true
		record(recorder, input)
		return nil, provisioner.UserActionRequired(abi.ReasonApplicationNotFound, "catalogue entry "+name)
	}
	if err != nil {
		return nil, err
	}
	input.Version = entry.ResourceVersion
	record(recorder, input)
	return entry, nil
}

func record(recorder provisioner.InputRecorder, input provisioner.Input) {
	if recorder != nil {
		recorder.RecordInput(input)
	}
}
