package blueprint

import (
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// list is how the schema of a kind treats status.conditions.
type list int

const (
	// listNone has no room for conditions.
	listNone list = iota
	// listKeyed is a list with the key type, in which each entry has owners of its own.
	listKeyed
	// listPlain is one value, which is replaced as a whole.
	listPlain
)

// shape is what a kind's schema says of its conditions.
type shape struct {
	list list
	// fields are those that an entry may have; nil means any.
	fields map[string]bool
	// subresource says that the status is written through its own path, where it does not
	// change the generation.
	subresource bool
}

// observes says whether an entry can carry the generation that it is about. Without the
// subresource a write of conditions is itself a new generation, so that the number would
// never be right.
func (s shape) observes() bool { return s.subresource && s.allows("observedGeneration") }

func (s shape) allows(field string) bool { return s.fields == nil || s.fields[field] }

// shapeOf reads the schema of one version. Kinds without a CRD have no shape here: their
// conditions belong to the controllers that Kubernetes or an aggregated API has for them.
func shapeOf(crd *apiextensionsv1.CustomResourceDefinition, version string) shape {
	i := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == version })
	if i < 0 {
		return shape{}
	}
	v := crd.Spec.Versions[i]
	s := shape{subresource: v.Subresources != nil && v.Subresources.Status != nil}
	if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
		return s
	}
	at, open := v.Schema.OpenAPIV3Schema, false
	for _, field := range []string{"status", "conditions"} {
		open = open || preserves(at)
		next, declared := at.Properties[field]
		if !declared {
			if open {
				s.list = listPlain
			}
			return s
		}
		at = &next
	}
	return s.ofConditions(at)
}

func (s shape) ofConditions(at *apiextensionsv1.JSONSchemaProps) shape {
	if at.Type == "" && preserves(at) {
		s.list = listPlain
		return s
	}
	if at.Type != "array" || at.Items == nil || at.Items.Schema == nil {
		return s
	}
	s.list = listPlain
	if at.XListType != nil && *at.XListType == "map" && slices.Equal(at.XListMapKeys, []string{"type"}) {
		s.list = listKeyed
	}
	item := at.Items.Schema
	if preserves(item) {
		return s
	}
	s.fields = map[string]bool{}
	for field := range item.Properties {
		s.fields[field] = true
	}
	if !s.fields["type"] || !s.fields["status"] {
		return shape{subresource: s.subresource}
	}
	return s
}

func preserves(at *apiextensionsv1.JSONSchemaProps) bool {
	return at.XPreserveUnknownFields != nil && *at.XPreserveUnknownFields
}
