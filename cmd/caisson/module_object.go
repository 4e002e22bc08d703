package main

import (
	"slices"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/registry"
)

// moduleObject is a Module as a person writes it: without status.
type moduleObject struct {
	APIVersion string              `json:"apiVersion"`
	Kind       string              `json:"kind"`
	Metadata   objectName          `json:"metadata"`
	Spec       v1alpha1.ModuleSpec `json:"spec"`
}

type objectName struct {
	Name string `json:"name"`
}

// newModuleObject grants what the manifest asks for and lets no namespace use it: both
// are for an admin to decide.
func newModuleObject(ref registry.Reference, digest string, m *abi.Manifest) moduleObject {
	grant := v1alpha1.Grant{Capabilities: make([]string, 0, len(m.Capabilities))}
	for _, c := range m.Capabilities {
		grant.Capabilities = append(grant.Capabilities, string(c))
	}
	for _, rule := range m.Kube {
		namespaces := rule.Namespaces
		if len(namespaces) == 0 {
			// Nothing means every namespace in a manifest and none in a grant.
			namespaces = []string{"*"}
		}
		grant.Kube = append(grant.Kube, v1alpha1.KubeGrant{APIGroup: rule.APIGroup, Kinds: rule.Kinds, Verbs: rule.Verbs, Namespaces: namespaces})
	}
	return moduleObject{
		APIVersion: v1alpha1.GroupVersion().String(),
		Kind:       "Module",
		Metadata:   objectName{Name: m.Name},
		Spec: v1alpha1.ModuleSpec{
			Reference:         ref.String() + "@" + digest,
			Grant:             grant,
			AllowedNamespaces: []string{},
		},
	}
}

// notes are what an admin has to know about the object before applying it.
func (o moduleObject) notes() []string {
	notes := []string{
		"A Module to start from. It grants what the module asks for; take away what you do not want.",
		"No Stack may use it before its namespace is listed in allowedNamespaces.",
	}
	if slices.Contains(o.Spec.Grant.Capabilities, string(abi.SecretRead)) {
		notes = append(notes, "It wants to read Secrets: name them under grant.secrets.")
	}
	return notes
}
