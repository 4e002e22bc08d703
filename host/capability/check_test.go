package capability_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/capability"
)

func TestCheck(t *testing.T) {
	services := abi.KubeRule{Kinds: []string{"Service"}, Verbs: []string{"list"}}
	cases := map[string]struct {
		reason   string
		manifest abi.Manifest
		grant    capability.Grant
		want     string
		remedy   string
	}{
		"Nothing": {reason: "who wants nothing needs nothing"},
		"Equal": {reason: "exactly what is declared is enough",
			manifest: abi.Manifest{Capabilities: []abi.Function{abi.AppEnsure}},
			grant:    capability.Grant{Capabilities: []abi.Function{abi.AppEnsure}}},
		"MoreGranted": {reason: "a wider grant does no harm", manifest: abi.Manifest{Capabilities: []abi.Function{abi.AppEnsure}}, grant: all()},
		"Function": {reason: "each missing function is named, in order",
			manifest: abi.Manifest{Capabilities: []abi.Function{abi.Event, abi.AppEnsure, abi.SecretRead}},
			grant:    capability.Grant{Capabilities: []abi.Function{abi.AppEnsure}},
			want:     "module m declares what its grant does not allow: capabilities event, secret_read",
			remedy:   "grant:\n  capabilities:\n  - event\n  - secret_read\n"},
		"Rule": {reason: "a rule without namespaces needs every namespace",
			manifest: abi.Manifest{Capabilities: []abi.Function{abi.KubeList}, Kube: []abi.KubeRule{services}},
			grant: capability.Grant{Capabilities: []abi.Function{abi.KubeList}, Kube: []capability.KubeRule{
				{Kinds: []string{"Service"}, Verbs: []string{"list"}, Namespaces: []string{"a"}}}},
			want:   "module m declares what its grant does not allow: list on Service (core) in every namespace",
			remedy: "grant:\n  kube:\n  - apiGroup: \"\"\n    kinds: [\"Service\"]\n    verbs: [\"list\"]\n    namespaces: [\"*\"]\n"},
		"RuleGranted": {reason: "* is every namespace",
			manifest: abi.Manifest{Capabilities: []abi.Function{abi.KubeList}, Kube: []abi.KubeRule{services}},
			grant: capability.Grant{Capabilities: []abi.Function{abi.KubeList}, Kube: []capability.KubeRule{
				{Kinds: []string{"Service"}, Verbs: []string{"list"}, Namespaces: []string{"*"}, Scopes: []abi.KubeScope{abi.ScopeHome}}}}},
		"RuleInPieces": {reason: "several grants may add up",
			manifest: abi.Manifest{Kube: []abi.KubeRule{{Kinds: []string{"Pod", "Service"}, Verbs: []string{"get", "list"}, Namespaces: []string{"a", "b"}}}},
			grant: capability.Grant{Kube: []capability.KubeRule{
				{Kinds: []string{"Pod"}, Verbs: []string{"get", "list"}, Namespaces: []string{"*"}},
				{Kinds: []string{"Service"}, Verbs: []string{"get", "list"}, Namespaces: []string{"a"}},
				{Kinds: []string{"Service"}, Verbs: []string{"list", "get"}, Namespaces: []string{"b"}}}}},
		"RuleReduced": {reason: "only what is missing is named, and equal lacks share a line",
			manifest: abi.Manifest{Kube: []abi.KubeRule{{APIGroup: "apps", Kinds: []string{"Deployment", "DaemonSet", "StatefulSet"}, Verbs: []string{"get", "delete"}, Namespaces: []string{"a", "b"}}}},
			grant: capability.Grant{Kube: []capability.KubeRule{
				{APIGroup: "apps", Kinds: []string{"Deployment", "DaemonSet"}, Verbs: []string{"get"}, Namespaces: []string{"a", "b"}},
				{APIGroup: "apps", Kinds: []string{"Deployment", "DaemonSet"}, Verbs: []string{"delete"}, Namespaces: []string{"a"}}}},
			want:   "module m declares what its grant does not allow: delete on Deployment, DaemonSet (apps) in b; get, delete on StatefulSet (apps) in a, b",
			remedy: "grant:\n  kube:\n  - apiGroup: \"apps\"\n    kinds: [\"Deployment\", \"DaemonSet\"]\n    verbs: [\"delete\"]\n    namespaces: [\"b\"]\n  - apiGroup: \"apps\"\n    kinds: [\"StatefulSet\"]\n    verbs: [\"get\", \"delete\"]\n    namespaces: [\"a\", \"b\"]\n"},
		"Secret": {reason: "a rule for Secrets can never be granted, and says where to go",
			manifest: abi.Manifest{Kube: []abi.KubeRule{{Kinds: []string{"Secret"}, Verbs: []string{"get"}}}},
			grant:    capability.Grant{Kube: []capability.KubeRule{{Kinds: []string{"Secret"}, Verbs: []string{"get"}, Namespaces: []string{"*"}}}},
			want:     "module m declares what its grant does not allow: kube access to Secrets, which cannot be granted (secret_read is for that)"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.manifest.Name = "m"
			err := capability.Check(&tc.manifest, tc.grant)
			if tc.want == "" {
				require.NoError(t, err, tc.reason)
				return
			}
			require.EqualError(t, err, tc.want, tc.reason)
			var missing *capability.NotGrantedError
			require.ErrorAs(t, err, &missing, tc.reason)
			require.Equal(t, tc.remedy, missing.Remedy(), tc.reason)
		})
	}
}

// A grant that is widened by the remedy must be enough: the text is meant to be pasted.
func TestCheckRemedySuffices(t *testing.T) {
	m := abi.Manifest{Name: "m", Capabilities: []abi.Function{abi.KubeGet, abi.KubeList}, Kube: []abi.KubeRule{
		{Kinds: []string{"Service", "Pod"}, Verbs: []string{"get", "list"}, Namespaces: []string{"a"}},
		{APIGroup: "apps", Kinds: []string{"Deployment"}, Verbs: []string{"get"}},
	}}
	var missing *capability.NotGrantedError
	require.ErrorAs(t, capability.Check(&m, capability.Grant{}), &missing)
	widened := capability.Grant{Capabilities: missing.Capabilities}
	for _, r := range missing.Kube {
		namespaces := r.Namespaces
		if len(namespaces) == 0 {
			namespaces = []string{capability.Any}
		}
		widened.Kube = append(widened.Kube, capability.KubeRule{APIGroup: r.APIGroup, Kinds: r.Kinds, Verbs: r.Verbs, Namespaces: namespaces})
	}
	require.NoError(t, capability.Check(&m, widened))
}

// Everything that Check accepts must be allowed when it is asked for: otherwise a module
// would load and then be denied what it declared.
func TestCheckAgreesWithAllows(t *testing.T) {
	m := abi.Manifest{Name: "m", Capabilities: abi.Functions(), Kube: []abi.KubeRule{
		{Kinds: []string{"Service"}, Verbs: []string{"get", "list", "apply", "delete"}, Namespaces: []string{"kube-system"}},
		{APIGroup: "rbac.authorization.k8s.io", Kinds: []string{"ClusterRole"}, Verbs: []string{"get"}},
	}}
	require.NoError(t, capability.Check(&m, all()))
	for _, rule := range m.Kube {
		for _, verb := range rule.Verbs {
			namespaces := rule.Namespaces
			if len(namespaces) == 0 {
				namespaces = []string{"", "any"}
			}
			for _, namespace := range namespaces {
				r := capability.KubeRequest{Verb: verb, APIGroup: rule.APIGroup, Kind: rule.Kinds[0], Namespace: namespace}
				require.True(t, capability.DeclaresKube(&m, r))
				require.True(t, all().AllowsKube(r), "%+v", r)
			}
		}
	}
}
