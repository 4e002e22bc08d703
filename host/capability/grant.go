package capability

import (
	"slices"

	"github.com/caisson-dev/caisson/abi"
)

// Any stands for every namespace and for cluster-scoped kinds in [KubeRule.Namespaces],
// and for every Secret of a namespace in [SecretRule.Names]. It has no meaning anywhere
// else: not as a kind, a group, a verb or a scope.
const Any = "*"

// OwnerNamespace stands for the namespace of the owner in [SecretRule.Namespace].
const OwnerNamespace = "$(owner)"

// Grant is what an admin allows a module. The zero value allows nothing.
type Grant struct {
	// Capabilities are the host functions that the module may call.
	Capabilities []abi.Function
	// Kube are the objects that the kube_* functions may touch.
	Kube []KubeRule
	// Secrets are the Secrets that secret_read may read.
	Secrets []SecretRule
}

// KubeRule allows verbs on kinds.
type KubeRule struct {
	// APIGroup is the group; empty means the core group.
	APIGroup string
	// Kinds are the kinds, as in a manifest.
	Kinds []string
	// Verbs are out of get, list, apply and delete.
	Verbs []string
	// Namespaces are the namespaces; [Any] stands for every one and for cluster-scoped
	// kinds. Empty means none.
	Namespaces []string
	// Scopes are the clusters; empty means the current one.
	Scopes []abi.KubeScope
}

// SecretRule allows reading Secrets.
type SecretRule struct {
	// Namespace is a namespace, or [OwnerNamespace].
	Namespace string
	// Names are the Secrets; [Any] stands for every one of the namespace.
	Names []string
	// Scopes are the clusters; empty means home.
	Scopes []abi.KubeScope
	// Raw lets the module see the bytes.
	Raw bool
}

// Target says which cluster a request goes to.
type Target struct {
	// Scope is what the module asked for; empty means current.
	Scope abi.KubeScope
	// AtHome says that the current cluster is the home cluster, so that a rule for either
	// of the two is a rule for both.
	AtHome bool
}

// KubeRequest is one use of a kube_* function.
type KubeRequest struct {
	Target
	// Verb is get, list, apply or delete.
	Verb string
	// APIGroup and Kind name the kind.
	APIGroup, Kind string
	// Namespace is empty for a cluster-scoped kind and for a list of all namespaces.
	Namespace string
}

// SecretRequest is one use of secret_read.
type SecretRequest struct {
	Target
	// Namespace and Name name the Secret.
	Namespace, Name string
	// OwnerNamespace is the namespace of the owner; empty if it has none.
	OwnerNamespace string
	// Raw says that the bytes are asked for, and not a handle.
	Raw bool
}

// AllowsFunction reports whether a host function may be called at all.
func (g Grant) AllowsFunction(f abi.Function) bool {
	return f.Known() && slices.Contains(g.Capabilities, f)
}

// AllowsKube reports whether the request may be made. A Secret never may: its contents
// are for secret_read only, and a module that could write one could read another's
// through a service account token.
func (g Grant) AllowsKube(r KubeRequest) bool {
	f, known := verbFunction(r.Verb)
	if !known || !g.AllowsFunction(f) || IsSecret(r.APIGroup, r.Kind) {
		return false
	}
	return slices.ContainsFunc(g.Kube, func(rule KubeRule) bool { return rule.allows(r) })
}

// AllowsSecret reports whether the Secret may be read in the way that is asked for.
func (g Grant) AllowsSecret(r SecretRequest) bool {
	if !g.AllowsFunction(abi.SecretRead) || r.Namespace == "" || r.Name == "" {
		return false
	}
	return slices.ContainsFunc(g.Secrets, func(rule SecretRule) bool { return rule.allows(r) })
}

// IsSecret reports whether a kind is the one that kube_* never touches.
func IsSecret(apiGroup, kind string) bool { return apiGroup == "" && kind == "Secret" }

// DeclaresKube reports whether a manifest asks for what the request does. Manifests name
// no clusters, so the target does not count.
func DeclaresKube(m *abi.Manifest, r KubeRequest) bool {
	return slices.ContainsFunc(m.Kube, func(rule abi.KubeRule) bool {
		return rule.APIGroup == r.APIGroup && r.Kind != Any &&
			slices.Contains(rule.Kinds, r.Kind) && slices.Contains(rule.Verbs, r.Verb) &&
			(len(rule.Namespaces) == 0 || slices.Contains(rule.Namespaces, r.Namespace))
	})
}

func (k KubeRule) allows(r KubeRequest) bool {
	return k.APIGroup == r.APIGroup && r.Kind != Any &&
		slices.Contains(k.Kinds, r.Kind) && slices.Contains(k.Verbs, r.Verb) &&
		k.allowsNamespace(r.Namespace) && r.within(k.Scopes, abi.ScopeCurrent)
}

func (k KubeRule) allowsNamespace(namespace string) bool {
	if slices.Contains(k.Namespaces, Any) {
		return true
	}
	return namespace != "" && slices.Contains(k.Namespaces, namespace)
}

func (s SecretRule) allows(r SecretRequest) bool {
	namespace := s.Namespace
	if namespace == OwnerNamespace {
		namespace = r.OwnerNamespace
	}
	if namespace == "" || namespace != r.Namespace || (r.Raw && !s.Raw) {
		return false
	}
	named := slices.Contains(s.Names, Any) || slices.Contains(s.Names, r.Name)
	return named && r.within(s.Scopes, abi.ScopeHome)
}

// within reports whether the target is one of the scopes; without any, fallback is the
// only one.
func (t Target) within(scopes []abi.KubeScope, fallback abi.KubeScope) bool {
	asked := t.Scope
	if asked == "" {
		asked = abi.ScopeCurrent
	}
	if asked != abi.ScopeCurrent && asked != abi.ScopeHome {
		return false
	}
	if len(scopes) == 0 {
		scopes = []abi.KubeScope{fallback}
	}
	if slices.Contains(scopes, asked) {
		return true
	}
	return t.AtHome && (slices.Contains(scopes, abi.ScopeCurrent) || slices.Contains(scopes, abi.ScopeHome))
}

// verbFunction returns the host function of a verb, and whether there is one.
func verbFunction(verb string) (abi.Function, bool) {
	switch verb {
	case "get":
		return abi.KubeGet, true
	case "list":
		return abi.KubeList, true
	case "apply":
		return abi.KubeApply, true
	case "delete":
		return abi.KubeDelete, true
	default:
		return "", false
	}
}
