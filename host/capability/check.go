package capability

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/caisson-dev/caisson/abi"
)

// NotGrantedError says that a module declares more than it was granted. The module must
// not be loaded before an admin widens the grant or the author narrows the manifest.
type NotGrantedError struct {
	// Module is the name in the manifest.
	Module string
	// Capabilities are the declared functions that are not granted, in the manifest's
	// order.
	Capabilities []abi.Function
	// Kube are the declared rules that are not granted, each reduced to what is missing.
	Kube []abi.KubeRule
	// Secrets are declared rules for the kind Secret, which no grant can allow.
	Secrets []abi.KubeRule
}

// Error implements error in one line. [NotGrantedError.Remedy] says what to add.
func (e *NotGrantedError) Error() string {
	var parts []string
	if len(e.Capabilities) > 0 {
		names := make([]string, len(e.Capabilities))
		for i, c := range e.Capabilities {
			names[i] = string(c)
		}
		parts = append(parts, "capabilities "+strings.Join(names, ", "))
	}
	for _, r := range e.Kube {
		parts = append(parts, describe(r))
	}
	if len(e.Secrets) > 0 {
		parts = append(parts, "kube access to Secrets, which cannot be granted (secret_read is for that)")
	}
	return fmt.Sprintf("module %s declares what its grant does not allow: %s", e.Module, strings.Join(parts, "; "))
}

// Remedy returns the YAML that spec.grant of the Module needs in addition, or "" when
// no grant would help.
func (e *NotGrantedError) Remedy() string {
	var b strings.Builder
	if len(e.Capabilities) > 0 {
		b.WriteString("  capabilities:\n")
		for _, c := range e.Capabilities {
			b.WriteString("  - " + string(c) + "\n")
		}
	}
	if len(e.Kube) > 0 {
		b.WriteString("  kube:\n")
		for _, r := range e.Kube {
			namespaces := r.Namespaces
			if len(namespaces) == 0 {
				namespaces = []string{Any}
			}
			b.WriteString("  - apiGroup: " + strconv.Quote(r.APIGroup) + "\n")
			b.WriteString("    kinds: " + flow(r.Kinds) + "\n")
			b.WriteString("    verbs: " + flow(r.Verbs) + "\n")
			b.WriteString("    namespaces: " + flow(namespaces) + "\n")
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "grant:\n" + b.String()
}

// Check returns nil if everything that the manifest declares is granted, and otherwise a
// [*NotGrantedError]. A declared rule is granted if each of its kinds, verbs and
// namespaces is, in whichever scope; a rule without namespaces needs a grant of every
// namespace. The manifest must have passed its own Validate.
func Check(m *abi.Manifest, g Grant) error {
	missing := &NotGrantedError{Module: m.Name}
	for _, c := range m.Capabilities {
		if !g.AllowsFunction(c) {
			missing.Capabilities = append(missing.Capabilities, c)
		}
	}
	for _, declared := range m.Kube {
		missing.addRule(declared, g)
	}
	if len(missing.Capabilities) == 0 && len(missing.Kube) == 0 && len(missing.Secrets) == 0 {
		return nil
	}
	return missing
}

// addRule notes what of a declared rule is not granted. Kinds that lack the same verbs
// in the same namespaces share a rule, so that the remedy stays short.
func (e *NotGrantedError) addRule(declared abi.KubeRule, g Grant) {
	for _, kind := range declared.Kinds {
		if IsSecret(declared.APIGroup, kind) {
			e.Secrets = append(e.Secrets, abi.KubeRule{Kinds: []string{kind}, Verbs: declared.Verbs, Namespaces: declared.Namespaces})
			continue
		}
		lacking := abi.KubeRule{APIGroup: declared.APIGroup, Kinds: []string{kind}}
		for _, verb := range declared.Verbs {
			without := g.ungranted(declared, kind, verb)
			if without == nil {
				continue
			}
			lacking.Verbs = append(lacking.Verbs, verb)
			for _, namespace := range without {
				if namespace != Any && !slices.Contains(lacking.Namespaces, namespace) {
					lacking.Namespaces = append(lacking.Namespaces, namespace)
				}
			}
		}
		if len(lacking.Verbs) > 0 {
			e.merge(lacking)
		}
	}
}

func (e *NotGrantedError) merge(lacking abi.KubeRule) {
	for i := range e.Kube {
		known := &e.Kube[i]
		if known.APIGroup == lacking.APIGroup && slices.Equal(known.Verbs, lacking.Verbs) && slices.Equal(known.Namespaces, lacking.Namespaces) {
			if !slices.Contains(known.Kinds, lacking.Kinds[0]) {
				known.Kinds = append(known.Kinds, lacking.Kinds[0])
			}
			return
		}
	}
	e.Kube = append(e.Kube, lacking)
}

// ungranted returns the namespaces, [Any] among them, in which a verb on a kind is
// declared but granted in no scope.
func (g Grant) ungranted(declared abi.KubeRule, kind, verb string) []string {
	namespaces := declared.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{Any}
	}
	var without []string
	for _, namespace := range namespaces {
		granted := slices.ContainsFunc(g.Kube, func(rule KubeRule) bool {
			return rule.APIGroup == declared.APIGroup && slices.Contains(rule.Kinds, kind) && slices.Contains(rule.Verbs, verb) &&
				(slices.Contains(rule.Namespaces, namespace) || slices.Contains(rule.Namespaces, Any))
		})
		if !granted {
			without = append(without, namespace)
		}
	}
	return without
}

func describe(r abi.KubeRule) string {
	where := "in every namespace"
	if len(r.Namespaces) > 0 {
		where = "in " + strings.Join(r.Namespaces, ", ")
	}
	group := r.APIGroup
	if group == "" {
		group = "core"
	}
	return fmt.Sprintf("%s on %s (%s) %s", strings.Join(r.Verbs, ", "), strings.Join(r.Kinds, ", "), group, where)
}

func flow(items []string) string {
	quoted := make([]string, len(items))
	for i, item := range items {
		quoted[i] = strconv.Quote(item)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
