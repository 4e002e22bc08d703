package capability_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/capability"
)

func all() capability.Grant {
	return capability.Grant{
		Capabilities: abi.Functions(),
		Kube: []capability.KubeRule{
			{Kinds: []string{"Service", "ConfigMap"}, Verbs: []string{"get", "list", "apply", "delete"}, Namespaces: []string{"kube-system"}},
			{APIGroup: "rbac.authorization.k8s.io", Kinds: []string{"ClusterRole"}, Verbs: []string{"get"}, Namespaces: []string{"*"}},
			{Kinds: []string{"Pod"}, Verbs: []string{"list"}, Namespaces: []string{"team"}, Scopes: []abi.KubeScope{abi.ScopeHome}},
		},
		Secrets: []capability.SecretRule{
			{Namespace: capability.OwnerNamespace, Names: []string{"cloud"}},
			{Namespace: "shared", Names: []string{"*"}, Scopes: []abi.KubeScope{abi.ScopeHome, abi.ScopeCurrent}},
			{Namespace: "open", Names: []string{"license"}, Raw: true},
		},
	}
}

func TestGrantAllowsFunction(t *testing.T) {
	for _, f := range abi.Functions() {
		t.Run(string(f), func(t *testing.T) {
			require.False(t, capability.Grant{}.AllowsFunction(f), "an unset grant allows nothing")
			require.False(t, capability.Grant{Capabilities: []abi.Function{}}.AllowsFunction(f), "an empty list means the same as an unset one")
			require.False(t, capability.Grant{Capabilities: []abi.Function{"*"}}.AllowsFunction(f), "there is no wildcard for functions")
			require.True(t, capability.Grant{Capabilities: []abi.Function{f}}.AllowsFunction(f), "one function can be granted alone")
			for _, other := range abi.Functions() {
				if other != f {
					require.False(t, capability.Grant{Capabilities: []abi.Function{f}}.AllowsFunction(other), "a grant of %s is none of %s", f, other)
				}
			}
		})
	}
	require.False(t, capability.Grant{Capabilities: []abi.Function{"http_get"}}.AllowsFunction("http_get"), "what is no host function cannot be granted")
}

func TestGrantAllowsKube(t *testing.T) {
	request := func(verb, group, kind, namespace string) capability.KubeRequest {
		return capability.KubeRequest{Verb: verb, APIGroup: group, Kind: kind, Namespace: namespace}
	}
	without := func(f abi.Function) capability.Grant {
		g := all()
		g.Capabilities = nil
		for _, known := range abi.Functions() {
			if known != f {
				g.Capabilities = append(g.Capabilities, known)
			}
		}
		return g
	}
	const rbac = "rbac.authorization.k8s.io"
	cases := map[string]struct {
		reason string
		grant  capability.Grant
		r      capability.KubeRequest
		want   bool
	}{
		"Get":                  {"granted as it stands", all(), request("get", "", "Service", "kube-system"), true},
		"List":                 {"granted as it stands", all(), request("list", "", "ConfigMap", "kube-system"), true},
		"Apply":                {"granted as it stands", all(), request("apply", "", "ConfigMap", "kube-system"), true},
		"Delete":               {"granted as it stands", all(), request("delete", "", "ConfigMap", "kube-system"), true},
		"GetWithoutFunction":   {"a rule without its function is worth nothing", without(abi.KubeGet), request("get", "", "Service", "kube-system"), false},
		"ListWithoutFunction":  {"a rule without its function is worth nothing", without(abi.KubeList), request("list", "", "Service", "kube-system"), false},
		"ApplyWithoutFunction": {"a rule without its function is worth nothing", without(abi.KubeApply), request("apply", "", "Service", "kube-system"), false},
		"DelWithoutFunction":   {"a rule without its function is worth nothing", without(abi.KubeDelete), request("delete", "", "Service", "kube-system"), false},
		"NoGrant":              {"nothing is the default", capability.Grant{}, request("get", "", "Service", "kube-system"), false},
		"NoRules":              {"the function alone reaches no object", capability.Grant{Capabilities: abi.Functions()}, request("get", "", "Service", "kube-system"), false},
		"OtherKind":            {"kinds are exact", all(), request("get", "", "Endpoints", "kube-system"), false},
		"KindCase":             {"kinds are exact", all(), request("get", "", "service", "kube-system"), false},
		"OtherGroup":           {"groups are exact", all(), request("get", "apps", "Service", "kube-system"), false},
		"OtherVerb":            {"verbs are exact", all(), request("delete", rbac, "ClusterRole", ""), false},
		"UnknownVerb":          {"watch is no verb of ours", all(), request("watch", "", "Service", "kube-system"), false},
		"OtherNamespace":       {"namespaces are exact", all(), request("get", "", "Service", "default"), false},
		"AllNamespaces":        {"a list over every namespace needs a grant of every namespace", all(), request("list", "", "Service", ""), false},
		"ClusterScoped":        {"* covers cluster-scoped kinds", all(), request("get", rbac, "ClusterRole", ""), true},
		"AnyNamespace":         {"* covers every namespace", all(), request("get", rbac, "ClusterRole", "any"), true},
		"EmptyNamespaces": {"no namespaces means none, also for cluster-scoped kinds",
			capability.Grant{Capabilities: abi.Functions(), Kube: []capability.KubeRule{{Kinds: []string{"Node"}, Verbs: []string{"get"}}}}, request("get", "", "Node", ""), false},
		"EmptyNamespaceEntry": {"an empty entry is not a wildcard",
			capability.Grant{Capabilities: abi.Functions(), Kube: []capability.KubeRule{{Kinds: []string{"Node"}, Verbs: []string{"get"}, Namespaces: []string{""}}}}, request("get", "", "Node", ""), false},
		"KindWildcard": {"* is no kind",
			capability.Grant{Capabilities: abi.Functions(), Kube: []capability.KubeRule{{Kinds: []string{"*"}, Verbs: []string{"get"}, Namespaces: []string{"*"}}}}, request("get", "", "Service", "a"), false},
		"KindWildcardAsked": {"asking for * gets nothing either",
			capability.Grant{Capabilities: abi.Functions(), Kube: []capability.KubeRule{{Kinds: []string{"*"}, Verbs: []string{"get"}, Namespaces: []string{"*"}}}}, request("get", "", "*", "a"), false},
		"Secret": {"a Secret is never read through kube_*, whatever the grant says",
			capability.Grant{Capabilities: abi.Functions(), Kube: []capability.KubeRule{{Kinds: []string{"Secret"}, Verbs: []string{"get"}, Namespaces: []string{"*"}}}}, request("get", "", "Secret", "a"), false},
		"ForeignSecret": {"another group's Secret is another kind",
			capability.Grant{Capabilities: abi.Functions(), Kube: []capability.KubeRule{{APIGroup: "example.com", Kinds: []string{"Secret"}, Verbs: []string{"get"}, Namespaces: []string{"*"}}}}, request("get", "example.com", "Secret", "a"), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, tc.grant.AllowsKube(tc.r), tc.reason)
		})
	}
}

func TestGrantScopes(t *testing.T) {
	// The rule that the two functions share: which clusters a rule is for.
	cases := map[string]struct {
		reason       string
		scopes       []abi.KubeScope
		target       capability.Target
		kube, secret bool
	}{
		"UnsetCurrent":  {"unset means current for objects and home for Secrets", nil, capability.Target{Scope: abi.ScopeCurrent}, true, false},
		"UnsetDefault":  {"an empty scope is current", nil, capability.Target{}, true, false},
		"UnsetHome":     {"unset means current for objects and home for Secrets", nil, capability.Target{Scope: abi.ScopeHome}, false, true},
		"UnsetAtHome":   {"at home both are the same cluster", nil, capability.Target{AtHome: true}, true, true},
		"EmptyCurrent":  {"empty is unset", []abi.KubeScope{}, capability.Target{Scope: abi.ScopeCurrent}, true, false},
		"Home":          {"exactly home", []abi.KubeScope{abi.ScopeHome}, capability.Target{Scope: abi.ScopeHome}, true, true},
		"HomeOnRemote":  {"home is not the remote", []abi.KubeScope{abi.ScopeHome}, capability.Target{Scope: abi.ScopeCurrent}, false, false},
		"HomeAtHome":    {"the current cluster is home", []abi.KubeScope{abi.ScopeHome}, capability.Target{Scope: abi.ScopeCurrent, AtHome: true}, true, true},
		"CurrentAtHome": {"home is the current cluster", []abi.KubeScope{abi.ScopeCurrent}, capability.Target{Scope: abi.ScopeHome, AtHome: true}, true, true},
		"Both":          {"two clusters can be listed", []abi.KubeScope{abi.ScopeHome, abi.ScopeCurrent}, capability.Target{Scope: abi.ScopeCurrent}, true, true},
		"UnknownAsked":  {"there are two scopes and no more", []abi.KubeScope{"elsewhere"}, capability.Target{Scope: "elsewhere", AtHome: true}, false, false},
		"UnknownRule":   {"an unknown scope in a rule is none", []abi.KubeScope{"*"}, capability.Target{Scope: abi.ScopeHome, AtHome: true}, false, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := capability.Grant{
				Capabilities: abi.Functions(),
				Kube:         []capability.KubeRule{{Kinds: []string{"Pod"}, Verbs: []string{"get"}, Namespaces: []string{"a"}, Scopes: tc.scopes}},
				Secrets:      []capability.SecretRule{{Namespace: "a", Names: []string{"s"}, Scopes: tc.scopes}},
			}
			require.Equal(t, tc.kube, g.AllowsKube(capability.KubeRequest{Target: tc.target, Verb: "get", Kind: "Pod", Namespace: "a"}), tc.reason)
			require.Equal(t, tc.secret, g.AllowsSecret(capability.SecretRequest{Target: tc.target, Namespace: "a", Name: "s"}), tc.reason)
		})
	}
}

func TestGrantAllowsSecret(t *testing.T) {
	home := capability.Target{Scope: abi.ScopeHome}
	cases := map[string]struct {
		reason string
		change func(g *capability.Grant)
		r      capability.SecretRequest
		want   bool
	}{
		"Owner":          {"$(owner) is the namespace of the owner", nil, capability.SecretRequest{Target: home, Namespace: "team", Name: "cloud", OwnerNamespace: "team"}, true},
		"OtherOwner":     {"another owner's namespace is another namespace", nil, capability.SecretRequest{Target: home, Namespace: "team", Name: "cloud", OwnerNamespace: "other"}, false},
		"LiteralOwner":   {"the placeholder is no namespace that could be asked for", nil, capability.SecretRequest{Target: home, Namespace: "$(owner)", Name: "cloud", OwnerNamespace: "team"}, false},
		"NoOwner":        {"a cluster-scoped owner has no namespace", nil, capability.SecretRequest{Target: home, Name: "cloud"}, false},
		"OtherName":      {"names are exact", nil, capability.SecretRequest{Target: home, Namespace: "team", Name: "clouds", OwnerNamespace: "team"}, false},
		"AnyName":        {"* stands for every name", nil, capability.SecretRequest{Target: home, Namespace: "shared", Name: "x"}, true},
		"AnyNameEmpty":   {"no name is no name", nil, capability.SecretRequest{Target: home, Namespace: "shared"}, false},
		"Current":        {"the scopes of the rule count", nil, capability.SecretRequest{Namespace: "shared", Name: "x"}, true},
		"CurrentOpen":    {"without scopes a rule is for home", nil, capability.SecretRequest{Namespace: "open", Name: "license"}, false},
		"Raw":            {"the bytes need a grant of their own", nil, capability.SecretRequest{Target: home, Namespace: "open", Name: "license", Raw: true}, true},
		"HandleOfRaw":    {"who may see the bytes may have a handle", nil, capability.SecretRequest{Target: home, Namespace: "open", Name: "license"}, true},
		"RawNotGranted":  {"a handle is not the bytes", nil, capability.SecretRequest{Target: home, Namespace: "shared", Name: "x", Raw: true}, false},
		"NoFunction":     {"rules without the function are worth nothing", func(g *capability.Grant) { g.Capabilities = []abi.Function{abi.KubeGet} }, capability.SecretRequest{Target: home, Namespace: "shared", Name: "x"}, false},
		"NoRules":        {"the function alone reads nothing", func(g *capability.Grant) { g.Secrets = nil }, capability.SecretRequest{Target: home, Namespace: "shared", Name: "x"}, false},
		"NoNames":        {"no names means none", func(g *capability.Grant) { g.Secrets[1].Names = nil }, capability.SecretRequest{Target: home, Namespace: "shared", Name: "x"}, false},
		"EmptyNamespace": {"an unset namespace of a rule is none", func(g *capability.Grant) { g.Secrets[1].Namespace = "" }, capability.SecretRequest{Target: home, Name: "x"}, false},
		"AnyNamespace":   {"there is no wildcard for namespaces of Secrets", func(g *capability.Grant) { g.Secrets[1].Namespace = "*" }, capability.SecretRequest{Target: home, Namespace: "shared", Name: "x"}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := all()
			if tc.change != nil {
				tc.change(&g)
			}
			require.Equal(t, tc.want, g.AllowsSecret(tc.r), tc.reason)
		})
	}
}

func TestDeclaresKube(t *testing.T) {
	m := &abi.Manifest{Kube: []abi.KubeRule{
		{Kinds: []string{"Service"}, Verbs: []string{"list"}},
		{APIGroup: "apps", Kinds: []string{"Deployment"}, Verbs: []string{"get"}, Namespaces: []string{"a"}},
	}}
	cases := map[string]struct {
		reason string
		r      capability.KubeRequest
		want   bool
	}{
		"Every":          {"no namespaces means every one", capability.KubeRequest{Verb: "list", Kind: "Service", Namespace: "x"}, true},
		"All":            {"and all of them at once", capability.KubeRequest{Verb: "list", Kind: "Service"}, true},
		"Namespace":      {"a listed namespace", capability.KubeRequest{Verb: "get", APIGroup: "apps", Kind: "Deployment", Namespace: "a"}, true},
		"OtherNamespace": {"a namespace that is not listed", capability.KubeRequest{Verb: "get", APIGroup: "apps", Kind: "Deployment", Namespace: "b"}, false},
		"AllOfOne":       {"a list over all is more than one namespace", capability.KubeRequest{Verb: "get", APIGroup: "apps", Kind: "Deployment"}, false},
		"Verb":           {"a verb that is not declared", capability.KubeRequest{Verb: "get", Kind: "Service"}, false},
		"Group":          {"a group that is not declared", capability.KubeRequest{Verb: "list", APIGroup: "x", Kind: "Service"}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, capability.DeclaresKube(m, tc.r), tc.reason)
		})
	}
}

// Each verb needs its own function, and no other function stands in for it.
func TestVerbsAndFunctions(t *testing.T) {
	functions := map[string]abi.Function{"get": abi.KubeGet, "list": abi.KubeList, "apply": abi.KubeApply, "delete": abi.KubeDelete}
	for verb, own := range functions {
		for _, f := range abi.Functions() {
			g := capability.Grant{
				Capabilities: []abi.Function{f},
				Kube:         []capability.KubeRule{{Kinds: []string{"Pod"}, Verbs: []string{"get", "list", "apply", "delete"}, Namespaces: []string{"a"}}},
			}
			r := capability.KubeRequest{Verb: verb, Kind: "Pod", Namespace: "a"}
			require.Equal(t, f == own, g.AllowsKube(r), "%s with %s granted", verb, f)
		}
	}
}

// FuzzGrant looks for a request that gets more than any rule says.
func FuzzGrant(f *testing.F) {
	f.Add("get", "", "Secret", "kube-system", "current", true)
	f.Add("list", "", "*", "*", "home", false)
	f.Add("apply", "rbac.authorization.k8s.io", "ClusterRole", "", "", false)
	f.Add("get", "", "Service", "", "*", true)
	f.Fuzz(func(t *testing.T, verb, group, kind, namespace, where string, atHome bool) {
		target := capability.Target{Scope: abi.KubeScope(where), AtHome: atHome}
		r := capability.KubeRequest{Target: target, Verb: verb, APIGroup: group, Kind: kind, Namespace: namespace}
		require.False(t, capability.Grant{}.AllowsKube(r), "nothing is granted")
		if all().AllowsKube(r) {
			require.False(t, capability.IsSecret(group, kind))
			require.Contains(t, []string{"Service", "ConfigMap", "ClusterRole", "Pod"}, kind)
			require.Contains(t, []string{"", "current", "home"}, where)
			require.True(t, namespace != "" || kind == "ClusterRole", "only one rule is for all namespaces")
		}
		s := capability.SecretRequest{Target: target, Namespace: namespace, Name: kind, OwnerNamespace: group, Raw: atHome}
		if all().AllowsSecret(s) {
			require.NotEmpty(t, namespace)
			require.True(t, namespace == group || namespace == "shared" || namespace == "open")
			require.True(t, !s.Raw || namespace == "open", "raw is granted in one place")
		}
	})
}
