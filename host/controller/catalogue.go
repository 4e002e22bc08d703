package controller

import (
	"context"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/application"
)

// Catalogue serves Application objects from a cache.
type Catalogue struct {
	reader client.Reader
}

// NewCatalogue returns a catalogue that reads from a cache.
func NewCatalogue(reader client.Reader) *Catalogue { return &Catalogue{reader: reader} }

// Entry implements application.Catalogue. The error of an entry that does not exist Is
// provisioner.ErrNotFound.
func (c *Catalogue) Entry(ctx context.Context, name string) (*application.Entry, error) {
	object := &v1alpha1.Application{}
	if err := c.reader.Get(ctx, types.NamespacedName{Name: name}, object); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("application %s: %w", name, provisioner.ErrNotFound)
		}
		return nil, provisioner.Retry(abi.ReasonUnexpected, "read application "+name).WithCause(err)
	}
	entry := &application.Entry{Name: name, ResourceVersion: catalogueVersion(object)}
	for _, v := range object.Spec.Versions {
		version := application.Version{
			Version: v.Version, Repo: v.Repo, Chart: v.Chart, Release: v.Release, Namespace: v.Namespace,
			CreateNamespace: v.CreateNamespace, AllowDegraded: v.AllowDegraded,
		}
		if v.Values != nil {
			var err error
			if version.Values, err = application.DecodeValues(v.Values.Raw); err != nil {
				return nil, provisioner.Terminal(abi.ReasonInvalidConfig, "values of application "+name+" version "+v.Version).WithCause(err)
			}
		}
		for _, p := range v.Parameters {
			version.Parameters = append(version.Parameters, cd.Parameter{Name: p.Name, Value: p.Value})
		}
		entry.Versions = append(entry.Versions, version)
	}
	return entry, nil
}

// catalogueVersion changes with the spec only.
func catalogueVersion(object *v1alpha1.Application) string {
	return string(object.UID) + "/" + strconv.FormatInt(object.Generation, 10)
}
