package abi

import "encoding/json"

// Manifest is what a module declares of itself. It travels in the custom section
// [ManifestSection] and is returned by the describe export; the two must be equal.
// A declaration is a request: what a module may do is decided by its grant.
type Manifest struct {
	// ABI is the version of this contract that the module was built for.
	ABI int `json:"abi"`
	// Name is a DNS label, unique among the modules of its author.
	Name string `json:"name"`
	// Version is the module's own semantic version, without a leading v.
	Version string `json:"version"`
	// Description is one sentence for the person who decides whether to grant.
	Description string `json:"description,omitempty"`
	// Capabilities are the host functions that the module may import.
	Capabilities []Function `json:"capabilities,omitempty"`
	// Kube lists the objects that the kube_* functions are wanted for.
	Kube []KubeRule `json:"kube,omitempty"`
	// Reasons are the codes that the module may return beside the host's own, each
	// with the fixed sentence that users are shown.
	Reasons []ReasonText `json:"reasons,omitempty"`
	// ConfigSchema is a JSON Schema of the config that a node passes, or absent.
	ConfigSchema json.RawMessage `json:"configSchema,omitempty"`
	// RequiresDrain asks to be deprovisioned with [Drain] whatever the scope says,
	// because the module frees things that outlive its cluster.
	RequiresDrain bool `json:"requiresDrain,omitempty"`
}

// ReasonText pairs a reason code with the sentence that the host shows for it.
type ReasonText struct {
	// Code matches [ReasonPattern].
	Code string `json:"code"`
	// Sentence is shown to users as it stands; at most 256 bytes, no line breaks.
	Sentence string `json:"sentence"`
}

// KubeRule names objects that a module wants to reach, in the words of RBAC.
type KubeRule struct {
	// APIGroup is the group of the resources; empty means the core group.
	APIGroup string `json:"apiGroup"`
	// Kinds are the kinds, as in a manifest, for instance Service.
	Kinds []string `json:"kinds"`
	// Verbs are out of get, list, apply and delete.
	Verbs []string `json:"verbs"`
	// Namespaces restricts the rule; empty means every namespace of the scope, and
	// cluster-scoped kinds.
	Namespaces []string `json:"namespaces,omitempty"`
}

// Sentence returns the sentence that the manifest declares for a reason code, and
// whether it declares one.
func (m *Manifest) Sentence(code string) (string, bool) {
	for _, r := range m.Reasons {
		if r.Code == code {
			return r.Sentence, true
		}
	}
	return "", false
}

// Declares reports whether the manifest asks for a host function.
func (m *Manifest) Declares(f Function) bool {
	for _, c := range m.Capabilities {
		if c == f {
			return true
		}
	}
	return false
}
