package abi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// MaxSentenceBytes bounds a reason's sentence, so that a condition message with
	// its node path stays readable in a terminal.
	MaxSentenceBytes = 256
	// MaxReasons bounds the reasons of a manifest. Like the next two it is far above what a
	// person would read before granting.
	MaxReasons = 256
	// MaxKubeRules bounds the rules of a manifest.
	MaxKubeRules = 64
	// MaxRuleEntries bounds each list of a rule.
	MaxRuleEntries = 64
)

// Validate reports the first thing that is wrong with a manifest, or nil. The error
// names the field and says what to write instead; it is meant for the author of the
// module, and for the host, which must not load what does not validate.
func (m *Manifest) Validate() error {
	if m.ABI != Version {
		return fmt.Errorf("manifest field abi: is %d and this is ABI version %d; build the module with an SDK of that version", m.ABI, Version)
	}
	if !isLabel(m.Name) {
		return fmt.Errorf("manifest field name: %q is not a DNS label; use at most 63 lower-case letters, digits and dashes", clip(m.Name))
	}
	if len(m.Version) > 128 || !isSemver(m.Version) {
		return fmt.Errorf("manifest field version: %q is not a semantic version; write it like 1.2.3, without a leading v", clip(m.Version))
	}
	if m.Description != "" {
		if err := validateLine(m.Description, 2*MaxSentenceBytes); err != nil {
			return fmt.Errorf("manifest field description: %w", err)
		}
	}
	if err := m.validateCapabilities(); err != nil {
		return err
	}
	if err := m.validateKube(); err != nil {
		return err
	}
	if err := m.validateReasons(); err != nil {
		return err
	}
	return m.validateConfigSchema()
}

func (m *Manifest) validateCapabilities() error {
	seen := make(map[Function]struct{}, len(m.Capabilities))
	for i, c := range m.Capabilities {
		if !c.Known() {
			return fmt.Errorf("manifest field capabilities[%d]: %q is no host function of ABI version %d; use one of %s",
				i, clip(string(c)), Version, joinFunctions())
		}
		if _, twice := seen[c]; twice {
			return fmt.Errorf("manifest field capabilities[%d]: %s is listed twice; remove one", i, c)
		}
		seen[c] = struct{}{}
	}
	return nil
}

func (m *Manifest) validateKube() error {
	if len(m.Kube) > MaxKubeRules {
		return fmt.Errorf("manifest field kube: has %d rules and %d are allowed; merge some", len(m.Kube), MaxKubeRules)
	}
	for i := range m.Kube {
		if err := m.validateRule(&m.Kube[i]); err != nil {
			return fmt.Errorf("manifest field kube[%d].%w", i, err)
		}
	}
	return nil
}

// validateRule returns errors that start with the field's name, for the caller to
// put the rule's index before.
func (m *Manifest) validateRule(r *KubeRule) error {
	if r.APIGroup != "" && !isGroup(r.APIGroup) {
		return fmt.Errorf("apiGroup: %q is not an API group; write it without a version, for instance apps", clip(r.APIGroup))
	}
	if len(r.Kinds) == 0 || len(r.Kinds) > MaxRuleEntries {
		return fmt.Errorf("kinds: has %d entries; list 1 to %d kinds", len(r.Kinds), MaxRuleEntries)
	}
	for _, kind := range r.Kinds {
		if !isKind(kind) {
			return fmt.Errorf("kinds: %q is not a kind; write it as in a manifest, for instance ConfigMap", clip(kind))
		}
	}
	if len(r.Verbs) == 0 || len(r.Verbs) > MaxRuleEntries {
		return fmt.Errorf("verbs: has %d entries; list some of get, list, apply and delete", len(r.Verbs))
	}
	for _, verb := range r.Verbs {
		need, known := verbFunction(verb)
		if !known {
			return fmt.Errorf("verbs: %q is no verb of kube rules; use get, list, apply or delete", clip(verb))
		}
		if !m.Declares(need) {
			return fmt.Errorf("verbs: %s needs the capability %s; add it to capabilities or drop the verb", verb, need)
		}
	}
	if len(r.Namespaces) > MaxRuleEntries {
		return fmt.Errorf("namespaces: has %d entries and %d are allowed; leave it empty for every namespace", len(r.Namespaces), MaxRuleEntries)
	}
	for _, namespace := range r.Namespaces {
		if !isLabel(namespace) {
			return fmt.Errorf("namespaces: %q is not the name of a namespace; patterns are not supported", clip(namespace))
		}
	}
	return nil
}

func (m *Manifest) validateReasons() error {
	if len(m.Reasons) > MaxReasons {
		return fmt.Errorf("manifest field reasons: has %d entries and %d are allowed; merge some", len(m.Reasons), MaxReasons)
	}
	seen := make(map[string]struct{}, len(m.Reasons))
	for i, r := range m.Reasons {
		if !ValidReason(r.Code) {
			return fmt.Errorf("manifest field reasons[%d].code: %q does not match %s; write it like quota_exceeded", i, clip(r.Code), ReasonPattern)
		}
		if _, own := HostSentence(r.Code); own {
			return fmt.Errorf("manifest field reasons[%d].code: %s is one of the host's own reasons; return it without declaring it, or choose another code", i, r.Code)
		}
		if _, twice := seen[r.Code]; twice {
			return fmt.Errorf("manifest field reasons[%d].code: %s is declared twice; remove one", i, r.Code)
		}
		seen[r.Code] = struct{}{}
		if err := validateLine(r.Sentence, MaxSentenceBytes); err != nil {
			return fmt.Errorf("manifest field reasons[%d].sentence: %w", i, err)
		}
	}
	return nil
}

func (m *Manifest) validateConfigSchema() error {
	if len(m.ConfigSchema) == 0 {
		return nil
	}
	schema := bytes.TrimSpace(m.ConfigSchema)
	if !json.Valid(schema) || schema[0] != '{' {
		return fmt.Errorf("manifest field configSchema: is not a JSON object; write a JSON Schema or leave it out")
	}
	return nil
}

// validateLine accepts one line of readable text of at most max bytes.
func validateLine(s string, limit int) error {
	if strings.TrimSpace(s) == "" {
		return fmt.Errorf("is empty; write one sentence for the person who will read it")
	}
	if len(s) > limit {
		return fmt.Errorf("has %d bytes and %d are allowed; shorten it", len(s), limit)
	}
	if !utf8.ValidString(s) {
		return fmt.Errorf("is not UTF-8; write it as text")
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return fmt.Errorf("holds the character %U; use one line of printable text", r)
		}
	}
	return nil
}

// verbFunction returns the host function that a verb of a kube rule is for, and
// whether there is one.
func verbFunction(verb string) (Function, bool) {
	switch verb {
	case "get":
		return KubeGet, true
	case "list":
		return KubeList, true
	case "apply":
		return KubeApply, true
	case "delete":
		return KubeDelete, true
	default:
		return "", false
	}
}

func joinFunctions() string {
	names := make([]string, 0, len(Functions()))
	for _, f := range Functions() {
		names = append(names, string(f))
	}
	return strings.Join(names, ", ")
}

// clip keeps a hostile manifest from filling an error message.
func clip(s string) string {
	const enough = 80
	if len(s) <= enough {
		return s
	}
	return strings.ToValidUTF8(s[:enough], "") + "…"
}
