package abi_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
)

func validManifest() abi.Manifest {
	return abi.Manifest{
		ABI:          abi.Version,
		Name:         "cilium",
		Version:      "1.2.3-rc.1+build.5",
		Description:  "Installs Cilium with values computed from the cluster's address.",
		Capabilities: []abi.Function{abi.AppEnsure, abi.AppRemove, abi.KubeGet, abi.KubeList},
		Kube: []abi.KubeRule{
			{APIGroup: "", Kinds: []string{"Service"}, Verbs: []string{"get", "list"}},
			{APIGroup: "gateway.networking.k8s.io", Kinds: []string{"Gateway"}, Verbs: []string{"list"}, Namespaces: []string{"kube-system"}},
		},
		Reasons:      []abi.ReasonText{{Code: "pool_exhausted", Sentence: "No address is left in the pool; enlarge podCIDR."}},
		ConfigSchema: json.RawMessage(`{"type":"object"}`),
	}
}

func TestManifestValidate(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(m *abi.Manifest)
		want   string
	}{
		"Valid":   {reason: "a complete manifest is accepted", change: func(*abi.Manifest) {}},
		"Minimal": {reason: "everything but abi, name and version may be left out", change: func(m *abi.Manifest) { *m = abi.Manifest{ABI: 1, Name: "a", Version: "0.0.0"} }},
		"OtherABI": {reason: "a module of another contract is refused by number", change: func(m *abi.Manifest) { m.ABI = 2 },
			want: "field abi: is 2 and this is ABI version 1"},
		"NoName": {reason: "a module needs a name", change: func(m *abi.Manifest) { m.Name = "" }, want: "field name"},
		"NameCase": {reason: "names end up in Kubernetes names", change: func(m *abi.Manifest) { m.Name = "Cilium" },
			want: `field name: "Cilium" is not a DNS label`},
		"NamePath": {reason: "a name must never work as a path", change: func(m *abi.Manifest) { m.Name = "../x" }, want: "field name"},
		"NameLong": {reason: "a label has 63 characters", change: func(m *abi.Manifest) { m.Name = strings.Repeat("a", 64) }, want: "field name"},
		"VersionV": {reason: "the leading v is the usual mistake", change: func(m *abi.Manifest) { m.Version = "v1.2.3" }, want: "without a leading v"},
		"VersionShort": {reason: "two numbers are no semantic version", change: func(m *abi.Manifest) { m.Version = "1.2" },
			want: "field version"},
		"VersionPath":      {reason: "a version must never work as a path (CVE-2026-35204)", change: func(m *abi.Manifest) { m.Version = "1.0.0/../../x" }, want: "field version"},
		"VersionHuge":      {reason: "a version is short", change: func(m *abi.Manifest) { m.Version = "1.0.0-" + strings.Repeat("a", 200) }, want: "field version"},
		"DescriptionLines": {reason: "the description is shown on one line", change: func(m *abi.Manifest) { m.Description = "a\nb" }, want: "field description: holds the character U+000A"},
		"UnknownCapability": {reason: "an unknown function can never be granted", change: func(m *abi.Manifest) { m.Capabilities[1] = "http_get" },
			want: `field capabilities[1]: "http_get" is no host function`},
		"DoubleCapability": {reason: "a set has no duplicates", change: func(m *abi.Manifest) { m.Capabilities[1] = abi.AppEnsure }, want: "capabilities[1]: app_ensure is listed twice"},
		"RuleWithoutFunction": {reason: "a verb without its function could never be used", change: func(m *abi.Manifest) { m.Kube[0].Verbs = []string{"delete"} },
			want: "field kube[0].verbs: delete needs the capability kube_delete"},
		"RuleUnknownVerb":   {reason: "watch is no verb of the ABI", change: func(m *abi.Manifest) { m.Kube[0].Verbs = []string{"watch"} }, want: `kube[0].verbs: "watch" is no verb`},
		"RuleNoVerb":        {reason: "a rule without verbs says nothing", change: func(m *abi.Manifest) { m.Kube[0].Verbs = nil }, want: "kube[0].verbs: has 0 entries"},
		"RuleNoKind":        {reason: "a rule without kinds must not mean all kinds", change: func(m *abi.Manifest) { m.Kube[1].Kinds = nil }, want: "kube[1].kinds: has 0 entries"},
		"RuleWildcardKind":  {reason: "wildcards are not in the contract", change: func(m *abi.Manifest) { m.Kube[1].Kinds = []string{"*"} }, want: `kube[1].kinds: "*" is not a kind`},
		"RuleGroupVersion":  {reason: "the group has no version", change: func(m *abi.Manifest) { m.Kube[1].APIGroup = "apps/v1" }, want: "kube[1].apiGroup"},
		"RuleNamespaceGlob": {reason: "patterns are not supported", change: func(m *abi.Manifest) { m.Kube[1].Namespaces = []string{"team-*"} }, want: "kube[1].namespaces"},
		"RuleNamespaceMany": {reason: "lists are bounded", change: func(m *abi.Manifest) { m.Kube[1].Namespaces = make([]string, abi.MaxRuleEntries+1) }, want: "has 65 entries and 64 are allowed"},
		"RulesMany":         {reason: "lists are bounded", change: func(m *abi.Manifest) { m.Kube = make([]abi.KubeRule, abi.MaxKubeRules+1) }, want: "has 65 rules and 64 are allowed"},
		"ReasonPattern":     {reason: "codes share one pattern", change: func(m *abi.Manifest) { m.Reasons[0].Code = "Pool-Exhausted" }, want: "reasons[0].code"},
		"ReasonHostOwn": {reason: "a module must not give a host's reason another sentence", change: func(m *abi.Manifest) { m.Reasons[0].Code = abi.ReasonTimeout },
			want: "timeout is one of the host's own reasons"},
		"ReasonTwice":     {reason: "one code has one sentence", change: func(m *abi.Manifest) { m.Reasons = append(m.Reasons, m.Reasons[0]) }, want: "reasons[1].code: pool_exhausted is declared twice"},
		"ReasonsMany":     {reason: "lists are bounded", change: func(m *abi.Manifest) { m.Reasons = make([]abi.ReasonText, abi.MaxReasons+1) }, want: "has 257 entries and 256 are allowed"},
		"SentenceEmpty":   {reason: "users are shown the sentence and nothing else", change: func(m *abi.Manifest) { m.Reasons[0].Sentence = " " }, want: "sentence: is empty"},
		"SentenceLong":    {reason: "both numbers are said", change: func(m *abi.Manifest) { m.Reasons[0].Sentence = strings.Repeat("a", 257) }, want: "has 257 bytes and 256 are allowed"},
		"SentenceLines":   {reason: "a condition message is one line", change: func(m *abi.Manifest) { m.Reasons[0].Sentence = "a\r\nb" }, want: "U+000D"},
		"SentenceBidi":    {reason: "invisible characters can turn a sentence around", change: func(m *abi.Manifest) { m.Reasons[0].Sentence = "a\u202eb" }, want: "U+202E"},
		"SentenceNotUTF8": {reason: "JSON to Kubernetes is UTF-8", change: func(m *abi.Manifest) { m.Reasons[0].Sentence = "a\xff" }, want: "is not UTF-8"},
		"SchemaNoObject":  {reason: "a JSON Schema of a config is an object", change: func(m *abi.Manifest) { m.ConfigSchema = json.RawMessage(`true`) }, want: "configSchema"},
		"SchemaBroken":    {reason: "it must be JSON", change: func(m *abi.Manifest) { m.ConfigSchema = json.RawMessage(`{`) }, want: "configSchema"},
		"SchemaBlank":     {reason: "white space is not a document", change: func(m *abi.Manifest) { m.ConfigSchema = json.RawMessage(` `) }, want: "configSchema"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := validManifest()
			tc.change(&m)
			err := m.Validate()
			if tc.want == "" {
				require.NoError(t, err, tc.reason)
				return
			}
			require.ErrorContains(t, err, tc.want, tc.reason)
			require.Less(t, len(err.Error()), 400, "hostile text must not fill the message")
			require.NotContains(t, err.Error(), "\n", "an error is one line")
		})
	}
}

func TestManifestValidateClipsHostileText(t *testing.T) {
	m := validManifest()
	m.Name = strings.Repeat("é", 5000)
	err := m.Validate()
	require.ErrorContains(t, err, "field name")
	require.Less(t, len(err.Error()), 300)
}

func FuzzManifestValidate(f *testing.F) {
	valid, err := json.Marshal(validManifest())
	require.NoError(f, err)
	f.Add(valid)
	f.Add([]byte(`{"abi":1,"name":"a","version":"0.0.0","configSchema":""}`))
	f.Add([]byte(`{"abi":1,"name":"a","version":"0.0.0","kube":[{"kinds":[""],"verbs":["get"]}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var m abi.Manifest
		if json.Unmarshal(raw, &m) != nil {
			return
		}
		if m.Validate() != nil {
			return
		}
		// What validates must survive the way into the custom section and back.
		again, err := json.Marshal(m)
		require.NoError(t, err)
		var back abi.Manifest
		require.NoError(t, json.Unmarshal(again, &back))
		require.NoError(t, back.Validate())
	})
}
