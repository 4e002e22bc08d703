package application_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/application"
	"github.com/caisson-dev/caisson/host/scope"
)

const password = "hunter2: [never shown"

func cluster(get error) client.Client {
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "team", Name: name, ResourceVersion: "5"}
	}
	return fake.NewClientBuilder().WithObjects(
		&corev1.ConfigMap{ObjectMeta: meta("plain"), Data: map[string]string{"values.yaml": "a: 1\nb: {c: null}\n", "other": "a: 2", "empty": "# nothing\n", "list": "- 1", "broken": "a: [", "blank": ""},
			BinaryData: map[string][]byte{"binary": []byte("z: 9")}},
		&corev1.Secret{ObjectMeta: meta("hidden"), Data: map[string][]byte{"values.yaml": []byte("password: x"), "broken": []byte(password), "scalar": []byte("hunter2")}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "foreign"}, Data: map[string]string{"values.yaml": "a: 1"}},
	).WithInterceptorFuncs(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
		if get != nil {
			return get
		}
		return c.Get(ctx, key, obj, opts...)
	}}).Build()
}

func TestReadValues(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "hidden", errors.New("no"))
	input := func(kind, name, version string) provisioner.Input {
		return provisioner.Input{ScopeID: "home", Kind: kind, Namespace: "team", Name: name, Version: version, Absent: version == ""}
	}
	ref := func(kind, name, key string) application.ValuesReference {
		return application.ValuesReference{Kind: kind, Name: name, Key: key}
	}
	optional := func(r application.ValuesReference) application.ValuesReference {
		r.Optional = true
		return r
	}
	cases := map[string]struct {
		reason string
		refs   []application.ValuesReference
		get    error
		want   string
		class  abi.Disposition
		code   string
		inputs []provisioner.Input
	}{
		"None":          {reason: "nothing to read", want: `null`},
		"ConfigMap":     {reason: "values.yaml is the default key, null is kept", refs: []application.ValuesReference{ref("ConfigMap", "plain", "")}, want: `[{"a":1,"b":{"c":null}}]`, inputs: []provisioner.Input{input("ConfigMap", "plain", "5")}},
		"InOrder":       {reason: "the order of the references is the order of the layers", refs: []application.ValuesReference{ref("ConfigMap", "plain", "other"), ref("Secret", "hidden", ""), ref("ConfigMap", "plain", "binary")}, want: `[{"a":2},{"password":"x"},{"z":9}]`, inputs: []provisioner.Input{input("ConfigMap", "plain", "5"), input("Secret", "hidden", "5"), input("ConfigMap", "plain", "5")}},
		"OnlyComments":  {reason: "an empty document is no values", refs: []application.ValuesReference{ref("ConfigMap", "plain", "empty")}, want: `[]`, inputs: []provisioner.Input{input("ConfigMap", "plain", "5")}},
		"EmptyText":     {reason: "an empty text is no values, and not an absent key", refs: []application.ValuesReference{ref("ConfigMap", "plain", "blank")}, want: `[]`, inputs: []provisioner.Input{input("ConfigMap", "plain", "5")}},
		"Absent":        {reason: "somebody must create it; that wakes the owner", refs: []application.ValuesReference{ref("ConfigMap", "nope", "")}, class: abi.UserActionRequired, code: abi.ReasonValuesMissing, inputs: []provisioner.Input{input("ConfigMap", "nope", "")}},
		"AbsentOption":  {reason: "optional tolerates absence and still records it", refs: []application.ValuesReference{optional(ref("Secret", "nope", ""))}, want: `[]`, inputs: []provisioner.Input{input("Secret", "nope", "")}},
		"KeyAbsent":     {reason: "a missing key is missing values", refs: []application.ValuesReference{ref("Secret", "hidden", "nope")}, class: abi.UserActionRequired, code: abi.ReasonValuesMissing, inputs: []provisioner.Input{input("Secret", "hidden", "5")}},
		"KeyOptional":   {reason: "optional covers the key", refs: []application.ValuesReference{optional(ref("ConfigMap", "plain", "nope"))}, want: `[]`, inputs: []provisioner.Input{input("ConfigMap", "plain", "5")}},
		"Foreign":       {reason: "only the owner's namespace is read", refs: []application.ValuesReference{ref("ConfigMap", "foreign", "")}, class: abi.UserActionRequired, code: abi.ReasonValuesMissing, inputs: []provisioner.Input{input("ConfigMap", "foreign", "")}},
		"Forbidden":     {reason: "the tenant lacks a right; optional does not hide that", refs: []application.ValuesReference{optional(ref("Secret", "hidden", ""))}, get: forbidden, class: abi.UserActionRequired, code: abi.ReasonForbidden},
		"Unreachable":   {reason: "a failure to find out is no absence", refs: []application.ValuesReference{optional(ref("Secret", "hidden", ""))}, get: errors.New("dial"), class: abi.Retry, code: abi.ReasonUnexpected},
		"List":          {reason: "values are a map", refs: []application.ValuesReference{ref("ConfigMap", "plain", "list")}, class: abi.Terminal, code: abi.ReasonInvalidConfig, inputs: []provisioner.Input{input("ConfigMap", "plain", "5")}},
		"Scalar":        {reason: "values are a map", refs: []application.ValuesReference{ref("Secret", "hidden", "scalar")}, class: abi.Terminal, code: abi.ReasonInvalidConfig, inputs: []provisioner.Input{input("Secret", "hidden", "5")}},
		"BrokenYAML":    {reason: "values are YAML", refs: []application.ValuesReference{ref("ConfigMap", "plain", "broken")}, class: abi.Terminal, code: abi.ReasonInvalidConfig, inputs: []provisioner.Input{input("ConfigMap", "plain", "5")}},
		"BrokenSecret":  {reason: "a parser's complaint would quote the secret", refs: []application.ValuesReference{ref("Secret", "hidden", "broken")}, class: abi.Terminal, code: abi.ReasonInvalidConfig, inputs: []provisioner.Input{input("Secret", "hidden", "5")}},
		"OtherKind":     {reason: "values come from two kinds", refs: []application.ValuesReference{ref("Pod", "x", "")}, class: abi.Terminal, code: abi.ReasonInvalidConfig},
		"StopsAtFirst":  {reason: "the first failure is the answer", refs: []application.ValuesReference{ref("ConfigMap", "nope", ""), ref("ConfigMap", "plain", "")}, class: abi.UserActionRequired, code: abi.ReasonValuesMissing, inputs: []provisioner.Input{input("ConfigMap", "nope", "")}},
		"SecretLayered": {reason: "two keys of one object", refs: []application.ValuesReference{ref("ConfigMap", "plain", ""), ref("ConfigMap", "plain", "other")}, want: `[{"a":1,"b":{"c":null}},{"a":2}]`, inputs: []provisioner.Input{input("ConfigMap", "plain", "5"), input("ConfigMap", "plain", "5")}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			// The scope of the pass is a remote without a client: values come from home all the same.
			s := scope.NewHome(owner(), nil, cluster(tc.get)).Remote(scope.RemoteCluster{ID: identity(), State: abi.ScopePending})
			var inputs []provisioner.Input
			recorder := provisioner.InputRecorderFunc(func(i provisioner.Input) { inputs = append(inputs, i) })
			got, err := application.ReadValues(t.Context(), s, tc.refs, recorder)
			outcome := provisioner.OutcomeOf(err)
			require.Equal(t, tc.class, outcome.Class, tc.reason)
			require.Equal(t, tc.code, outcome.Headline.Reason, tc.reason)
			require.Equal(t, tc.inputs, inputs, tc.reason)
			if err == nil {
				require.Equal(t, tc.want, render(t, got), tc.reason)
				return
			}
			require.NotContains(t, err.Error(), "hunter2", "no contents in errors")
			require.NotContains(t, outcome.Headline.Why, "hunter2", "no contents in logs")
		})
	}
}
