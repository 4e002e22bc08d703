package main

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/caisson-dev/caisson/cmd/caisson/internal/explain"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// parkedScene is the Stack of the example, waiting for its Secret.
func parkedScene() *v1alpha1.Stack {
	stack := scene("secret").DeepCopy()
	stack.Status.Inputs = []v1alpha1.InputRecord{{Scope: "home", Kind: "Secret", Namespace: "platform", Name: "cloud-config", Absent: true}}
	return stack
}

// agesOf takes the ages of an explanation out of it.
func agesOf(text string) string {
	return regexp.MustCompile(`\d+d, since`).ReplaceAllString(text, "0d, since")
}

func TestStackExplain(t *testing.T) {
	s := newSession(t)
	s.connectTo(interceptor.Funcs{}, parkedScene())
	s.golden("explain", agesOf(s.ok("stack", "explain", "platform")))
	s.golden("explain-yaml", ageless(s.ok("stack", "explain", "platform", "-o", "yaml")))

	var fromJSON, fromYAML explain.Explanation
	require.NoError(t, json.Unmarshal([]byte(s.ok("stack", "explain", "platform", "-o", "json")), &fromJSON))
	require.NoError(t, yaml.Unmarshal([]byte(s.ok("stack", "explain", "platform", "-o", "yaml")), &fromYAML))
	require.Equal(t, "secret_missing", fromJSON.Findings[0].Reason)
	require.Contains(t, fromJSON.Findings[0].Steps[0].Text, "Create the Secret cloud-config in namespace platform.")
	require.Equal(t, fromJSON.Findings[0].Steps, fromYAML.Findings[0].Steps, "both say the same")
}

func TestStackExplainHelp(t *testing.T) {
	s := newSession(t)
	s.golden("help-stack-explain", s.ok("stack", "explain", "--help"))
}

// Whoever may not read Modules is told that less is said.
func TestStackExplainWithFewRights(t *testing.T) {
	s := newSession(t)
	s.connectTo(interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			return apierrors.NewForbidden(schema.GroupResource{Group: "caisson.dev", Resource: "x"}, "", nil)
		},
	}, parkedScene())
	require.Contains(t, s.ok("stack", "explain", "platform"), "You may not read Modules and Applications, so this may say less than it could.")
}

func TestStackExplainErrors(t *testing.T) {
	named := func(namespace, name string) *v1alpha1.Stack {
		return &v1alpha1.Stack{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	stacks := schema.GroupResource{Group: "caisson.dev", Resource: "stacks"}
	forbidden := func(_ context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		options := client.ListOptions{}
		options.ApplyOptions(opts)
		if options.Namespace == "" {
			return apierrors.NewForbidden(stacks, "", nil)
		}
		return c.List(context.Background(), list, opts...)
	}
	cases := map[string]struct {
		reason  string
		name    string
		objects []client.Object
		manners interceptor.Funcs
		want    string
	}{
		"Typo":      {reason: "a similar name is offered", name: "platfomr", objects: []client.Object{named("platform", "platform")}, want: "there is no stack platform/platfomr; did you mean platform/platform?"},
		"Elsewhere": {reason: "the same name elsewhere is too", name: "web", objects: []client.Object{named("a", "web"), named("b", "web")}, want: "did you mean a/web, or b/web?"},
		"Nothing":   {reason: "nothing is alike", name: "x", want: "there is no stack platform/x; list them with: kubectl get stacks -A"},
		"OneNamespace": {
			reason: "who may list one namespace only is helped there", name: "platfomr", manners: interceptor.Funcs{List: forbidden},
			objects: []client.Object{named("platform", "platform"), named("a", "platfomr")}, want: "did you mean platform/platform?",
		},
		"Forbidden": {
			reason: "the right that is lacking is named", name: "x", want: "you may not read stack platform/x; ask for the right",
			manners: interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return apierrors.NewForbidden(stacks, "x", nil)
			}},
		},
		"Away": {
			reason: "the connection breaks in the middle", name: "platform", objects: []client.Object{named("platform", "platform")}, want: "cannot read stack platform/platform: list Modules: connection refused",
			manners: interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
				return errors.New("connection refused")
			}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newSession(t)
			s.connectTo(tc.manners, tc.objects...)
			require.Contains(t, s.fails("stack", "explain", tc.name), tc.want, tc.reason)
			require.Empty(t, s.out.String())
		})
	}
	s := newSession(t)
	require.Contains(t, s.fails("stack", "explain", "x", "-o", "table"), "must be text, json or yaml")
}
