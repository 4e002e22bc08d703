package plan

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// newBlueprint is one of one module, with these parameters.
func newBlueprint(parameters map[string]string) *v1alpha1.Blueprint {
	b := &v1alpha1.Blueprint{Spec: v1alpha1.BlueprintSpec{
		Resource: v1alpha1.ResourceKind{Group: "example.com", Kind: "Cluster"}, ServiceAccountName: "builder", Root: "leaf",
		Provisioners: []v1alpha1.Node{{Name: "leaf", Module: &v1alpha1.ModuleNode{Ref: "cni", Config: &apiextensionsv1.JSON{Raw: []byte(`{"cidr":"${resource.spec.cidr}"}`)}}}},
	}}
	for name, raw := range parameters {
		if b.Spec.Parameters == nil {
			b.Spec.Parameters = map[string]apiextensionsv1.JSON{}
		}
		b.Spec.Parameters[name] = apiextensionsv1.JSON{Raw: []byte(raw)}
	}
	return b
}

const theCluster = `{"apiVersion":"example.com/v1","kind":"Cluster","metadata":{"name":"prod","uid":"u","labels":{"team":"blue"}},"spec":{"cidr":"10.0.0.0/8","nodes":3,"big":9007199254740993,"paused":true}}`

func TestCompileBlueprint(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(*v1alpha1.Blueprint)
		want   string
	}{
		"valid":            {reason: "as it is", change: func(*v1alpha1.Blueprint) {}},
		"syntax":           {reason: "a template names its path", change: func(b *v1alpha1.Blueprint) { *b = *newBlueprint(map[string]string{"net": `{"cidr":["${resource.}"]}`}) }, want: "parameters.net.cidr[0]: "},
		"other variable":   {reason: "parameters are what is being made", change: func(b *v1alpha1.Blueprint) { *b = *newBlueprint(map[string]string{"a": `"${facts.x}"`}) }, want: "parameters.a: at character 1: undeclared reference to 'facts'"},
		"suspend":          {reason: "it is a condition", change: func(b *v1alpha1.Blueprint) { b.Spec.Suspend = "'yes'" }, want: "suspend: the expression must be true or false"},
		"suspend syntax":   {reason: "it does not compile", change: func(b *v1alpha1.Blueprint) { b.Spec.Suspend = "resource." }, want: "suspend: at character"},
		"root":             {reason: "the tree is checked as that of a Stack is", change: func(b *v1alpha1.Blueprint) { b.Spec.Root = "other" }, want: `root: there is no provisioner named "other"`},
		"node expression":  {reason: "so are its expressions", change: func(b *v1alpha1.Blueprint) { b.Spec.Provisioners[0].Module.Config.Raw = []byte(`{"a":"${1 +}"}`) }, want: "provisioners[leaf].config.a: "},
		"secrets":          {reason: "their contents must not be copied", change: func(b *v1alpha1.Blueprint) { b.Spec.Resource = v1alpha1.ResourceKind{Kind: "Secret"} }, want: "resource: Secrets cannot be owners"},
		"secret of others": {reason: "near miss: a kind of the same name", change: func(b *v1alpha1.Blueprint) { b.Spec.Resource.Kind = "Secret" }},
		"stacks": {reason: "they would have no end", change: func(b *v1alpha1.Blueprint) {
			b.Spec.Resource = v1alpha1.ResourceKind{Group: "caisson.dev", Kind: "Stack"}
		}, want: "resource: the kinds of caisson.dev cannot be owners"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBlueprint(nil)
			c.change(b)
			_, err := CompileBlueprint(b)
			if c.want == "" {
				require.NoError(t, err, c.reason)
				return
			}
			invalid := &InvalidError{}
			require.ErrorAs(t, err, &invalid, c.reason)
			require.Contains(t, err.Error(), c.want, c.reason)
		})
	}
}

func TestBlueprintStack(t *testing.T) {
	cases := map[string]struct {
		reason     string
		parameters map[string]string
		suspend    string
		owner      string
		want       map[string]string
		suspended  bool
		invalid    string
	}{
		"typed":        {reason: "a whole expression keeps its type", parameters: map[string]string{"n": `"${resource.spec.nodes}"`}, want: map[string]string{"n": "3"}},
		"large":        {reason: "integers stay what they are", parameters: map[string]string{"n": `"${resource.spec.big}"`}, want: map[string]string{"n": "9007199254740993"}},
		"embedded":     {reason: "interpolation", parameters: map[string]string{"s": `"${resource.metadata.labels.team}-${resource.metadata.name}"`}, want: map[string]string{"s": `"blue-prod"`}},
		"nested":       {reason: "documents", parameters: map[string]string{"d": `{"l":["${resource.spec.cidr}",null,1]}`}, want: map[string]string{"d": `{"l":["10.0.0.0/8",null,1]}`}},
		"escaped":      {reason: "as everywhere", parameters: map[string]string{"s": `"$${x}"`}, want: map[string]string{"s": `"${x}"`}},
		"injection":    {reason: "what the owner says is not evaluated again", parameters: map[string]string{"s": `"${resource.spec.cidr}"`}, owner: strings.ReplaceAll(theCluster, "10.0.0.0/8", "${1 + 1}"), want: map[string]string{"s": `"${1 + 1}"`}},
		"absent":       {reason: "a missing field is told by its place", parameters: map[string]string{"s": `"${resource.spec.region}"`}, invalid: "parameters.s: no such key: region"},
		"absent deep":  {reason: "within a document too", parameters: map[string]string{"d": `{"l":["${resource.spec.region}"]}`}, invalid: "parameters.d.l[0]: no such key: region"},
		"optional":     {reason: "near miss: it may be missing", parameters: map[string]string{"s": `"${resource.spec.?region.orValue('eu')}"`}, want: map[string]string{"s": `"eu"`}},
		"suspend":      {reason: "the owner says so", suspend: "resource.spec.paused", suspended: true},
		"awake":        {reason: "near miss", suspend: "!resource.spec.paused"},
		"suspend text": {reason: "the type is known only now", suspend: "resource.spec.cidr", invalid: "suspend: the result is of type string"},
		"suspend none": {reason: "nothing is guessed", suspend: "resource.spec.sleep", invalid: "suspend: no such key: sleep"},
		"too large":    {reason: "etcd has a limit", owner: `{"spec":"` + strings.Repeat("x", MaxResourceBytes) + `"}`, invalid: "resource: it has 262155 bytes and 262144 are allowed"},
		"no object":    {reason: "hostile input", owner: `[]`, invalid: "resource: it is not an object"},
		"no JSON":      {reason: "hostile input", owner: `{`, invalid: "resource: it is not JSON"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			object := newBlueprint(c.parameters)
			object.Spec.Suspend = c.suspend
			b, err := CompileBlueprint(object)
			require.NoError(t, err)
			owner := c.owner
			if owner == "" {
				owner = theCluster
			}
			spec, err := b.Stack(t.Context(), json.RawMessage(owner))
			if c.invalid != "" {
				invalid := &InvalidError{}
				require.ErrorAs(t, err, &invalid, c.reason)
				require.Contains(t, err.Error(), c.invalid, c.reason)
				require.Len(t, invalid.Findings, 1)
				require.NotContains(t, invalid.Findings[0].Problem, invalid.Findings[0].Path, "the place is told once")
				return
			}
			require.NoError(t, err, c.reason)
			require.Equal(t, c.suspended, spec.Suspend, c.reason)
			require.Len(t, spec.Parameters, len(c.want))
			for key, want := range c.want {
				require.JSONEq(t, want, string(spec.Parameters[key].Raw), c.reason)
				require.Equal(t, want, string(spec.Parameters[key].Raw), c.reason)
			}
			require.Equal(t, "builder", spec.ServiceAccountName)
			require.Equal(t, object.Spec.Provisioners, spec.Provisioners)
			require.JSONEq(t, owner, string(spec.Resource.Raw))
		})
	}
}

// TestBlueprintStackIsFresh: Stacks of several owners share nothing.
func TestBlueprintStackIsFresh(t *testing.T) {
	b, err := CompileBlueprint(newBlueprint(nil))
	require.NoError(t, err)
	first, err := b.Stack(t.Context(), json.RawMessage(theCluster))
	require.NoError(t, err)
	first.Provisioners[0].Module.Ref = "changed"
	second, err := b.Stack(t.Context(), json.RawMessage(theCluster))
	require.NoError(t, err)
	require.Equal(t, "cni", second.Provisioners[0].Module.Ref)
}

// TestBlueprintStackCancelled: the end of a pass says nothing of the owner.
func TestBlueprintStackCancelled(t *testing.T) {
	b, err := CompileBlueprint(newBlueprint(map[string]string{"s": `"${[1, 2, 3].map(x, x * 2)}"`}))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = b.Stack(ctx, json.RawMessage(theCluster))
	require.ErrorIs(t, err, context.Canceled)
	invalid := &InvalidError{}
	require.NotErrorAs(t, err, &invalid)
}

// TestStackSeesGivenResource: expressions of a Stack see what its spec says is the
// resource, in conditions and documents, and the Stack itself if it does not.
func TestStackSeesGivenResource(t *testing.T) {
	stack := &v1alpha1.Stack{Spec: v1alpha1.StackSpec{
		Root: "leaf", Resource: &apiextensionsv1.JSON{Raw: []byte(theCluster)},
		Provisioners: []v1alpha1.Node{{Name: "leaf", Module: &v1alpha1.ModuleNode{Ref: "cni"}}},
	}}
	c, err := compile(stack)
	require.NoError(t, err)
	require.Equal(t, "Cluster", c.resource["kind"])
	require.Equal(t, int64(9007199254740993), c.resource["spec"].(map[string]any)["big"])

	stack.Spec.Resource = nil
	c, err = compile(stack)
	require.NoError(t, err)
	require.Equal(t, "Stack", c.resource["kind"])

	for _, raw := range []string{`[]`, `"x"`, `null`, `{"a":"` + strings.Repeat("x", MaxResourceBytes) + `"}`} {
		stack.Spec.Resource = &apiextensionsv1.JSON{Raw: []byte(raw)}
		c, err = compile(stack)
		require.NoError(t, err)
		require.ErrorContains(t, c.found.terminal(), "resource: it ")
	}
}
