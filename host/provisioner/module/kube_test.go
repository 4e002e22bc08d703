package module_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/capability"
	"github.com/caisson-dev/caisson/host/scope"
)

// mapper knows a few kinds, as a fresh discovery would.
func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper([]schema.GroupVersion{{Version: "v1"}})
	for _, kind := range []string{"Service", "ConfigMap", "Secret", "Pod"} {
		m.Add(schema.GroupVersionKind{Version: "v1", Kind: kind}, meta.RESTScopeNamespace)
	}
	for _, kind := range []string{"Node", "Namespace"} {
		m.Add(schema.GroupVersionKind{Version: "v1", Kind: kind}, meta.RESTScopeRoot)
	}
	return m
}

func configMap(namespace, name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": "x"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl", Operation: "Update", APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:data":{}}`)}}}},
		Data:       map[string]string{"k": value},
	}
}

// cluster is a fake API server; every call fails with failure if that is set.
func cluster(failure error, objects ...client.Object) client.Client {
	return fake.NewClientBuilder().WithRESTMapper(mapper()).WithReturnManagedFields().WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			return first(failure, func() error { return c.Get(ctx, key, obj, opts...) })
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			return first(failure, func() error { return c.List(ctx, list, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return first(failure, func() error { return c.Delete(ctx, obj, opts...) })
		},
	}).Build()
}

func first(err error, then func() error) error {
	if err != nil {
		return err
	}
	return then()
}

// kubeWorld is a world that may do everything with ConfigMaps and Nodes, at home and away.
func kubeWorld(home, away client.Client) *world {
	w := newWorld(nil)
	w.scope = scope.NewHome(owner(), nil, home)
	if away != nil {
		w.remote(away, abi.ScopeReady, abi.Drain)
	}
	both := []abi.KubeScope{abi.ScopeCurrent, abi.ScopeHome}
	verbs := []string{"get", "list", "apply", "delete"}
	kinds := []string{"ConfigMap", "Node", "Secret", "Unserved"}
	w.manifest.Kube = []abi.KubeRule{{Kinds: kinds, Verbs: verbs}}
	w.grant.Kube = []capability.KubeRule{{Kinds: kinds, Verbs: verbs, Namespaces: []string{"*"}, Scopes: both}}
	return w
}

func cmRef(where abi.KubeScope, name string) abi.ObjectRef {
	return abi.ObjectRef{Scope: where, APIVersion: "v1", Kind: "ConfigMap", Namespace: "kube-system", Name: name}
}

func valueOf(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	var object struct {
		Metadata map[string]any    `json:"metadata"`
		Data     map[string]string `json:"data"`
	}
	require.NoError(t, json.Unmarshal(raw, &object))
	require.NotContains(t, object.Metadata, "managedFields")
	return object.Data["k"]
}

func TestCase079HomeAndCurrent(t *testing.T) {
	w := kubeWorld(cluster(nil, configMap("kube-system", "who", "home")), cluster(nil, configMap("kube-system", "who", "away")))
	w.once(t, func(ctx context.Context, host hostFunc) {
		for where, want := range map[abi.KubeScope]string{abi.ScopeHome: "home", abi.ScopeCurrent: "away", "": "away"} {
			var result abi.KubeGetResult
			require.Nil(t, ask(t, ctx, host, abi.KubeGet, abi.KubeGetRequest{ObjectRef: cmRef(where, "who")}, &result))
			require.Equal(t, want, valueOf(t, result.Object))
		}
		require.Equal(t, abi.CodeInvalid, ask(t, ctx, host, abi.KubeGet, abi.KubeGetRequest{ObjectRef: cmRef("elsewhere", "who")}, nil).Code)
	})
	w.grant.Kube[0].Scopes = nil
	w.once(t, func(ctx context.Context, host hostFunc) {
		require.Equal(t, abi.CodeDenied, ask(t, ctx, host, abi.KubeGet, abi.KubeGetRequest{ObjectRef: cmRef(abi.ScopeHome, "who")}, nil).Code, "home needs a grant of home")
		require.Nil(t, ask(t, ctx, host, abi.KubeGet, abi.KubeGetRequest{ObjectRef: cmRef("", "who")}, nil))
	})
	w.grant.Capabilities = []abi.Function{abi.KubeList}
	w.once(t, func(ctx context.Context, host hostFunc) {
		require.Equal(t, abi.CodeDenied, ask(t, ctx, host, abi.KubeGet, abi.KubeGetRequest{ObjectRef: cmRef("", "who")}, nil).Code, "no capability")
	})
}

func TestKubeScopeWithoutClient(t *testing.T) {
	for _, state := range []abi.ScopeState{abi.ScopePending, abi.ScopeGone} {
		w := kubeWorld(cluster(nil, configMap("kube-system", "who", "home")), nil).remote(nil, state, abi.Drain)
		w.once(t, func(ctx context.Context, host hostFunc) {
			require.Equal(t, abi.CodeUnavailable, ask(t, ctx, host, abi.KubeGet, abi.KubeGetRequest{ObjectRef: cmRef("", "who")}, nil).Code)
			require.Equal(t, abi.CodeUnavailable, ask(t, ctx, host, abi.KubeList, abi.KubeListRequest{ObjectRef: cmRef("", "")}, nil).Code)
			require.Equal(t, abi.CodeUnavailable, ask(t, ctx, host, abi.KubeDelete, abi.KubeDeleteRequest{ObjectRef: cmRef("", "who")}, nil).Code, "gone for good is not gone from here")
			require.Nil(t, ask(t, ctx, host, abi.KubeGet, abi.KubeGetRequest{ObjectRef: cmRef(abi.ScopeHome, "who")}, nil), "home is there all the same")
		})
	}
}

// Each kube function, with each way of lacking a right or a sane request.
func TestKubeRefusals(t *testing.T) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "s"}}
	cases := map[string]struct {
		reason string
		change func(w *world, ref *abi.ObjectRef)
		code   abi.ErrorCode
	}{
		"Secret":            {"Secrets are not reached, whatever the grant says", func(_ *world, r *abi.ObjectRef) { r.Kind, r.Name = "Secret", "s" }, abi.CodeDenied},
		"NotDeclared":       {"effective power is declared and granted", func(w *world, _ *abi.ObjectRef) { w.manifest.Kube = nil }, abi.CodeDenied},
		"NotGranted":        {"effective power is declared and granted", func(w *world, _ *abi.ObjectRef) { w.grant.Kube = nil }, abi.CodeDenied},
		"OtherKind":         {"a kind that is in neither", func(_ *world, r *abi.ObjectRef) { r.Kind = "Pod" }, abi.CodeDenied},
		"OtherGroup":        {"a group that is in neither", func(_ *world, r *abi.ObjectRef) { r.APIVersion = "apps/v1" }, abi.CodeDenied},
		"OtherNamespace":    {"a namespace that is not granted", func(w *world, _ *abi.ObjectRef) { w.grant.Kube[0].Namespaces = []string{"default"} }, abi.CodeDenied},
		"OtherVerb":         {"a verb that is not granted", func(w *world, _ *abi.ObjectRef) { w.grant.Kube[0].Verbs = []string{"watch"} }, abi.CodeDenied},
		"FunctionGranted":   {"the function itself", func(w *world, _ *abi.ObjectRef) { w.grant.Capabilities = nil }, abi.CodeDenied},
		"FunctionDeclared":  {"the function itself", func(w *world, _ *abi.ObjectRef) { w.manifest.Capabilities = nil }, abi.CodeDenied},
		"APIVersion":        {"three parts are no version", func(_ *world, r *abi.ObjectRef) { r.APIVersion = "a/b/c" }, abi.CodeInvalid},
		"APIVersionEmpty":   {"an object has a version", func(_ *world, r *abi.ObjectRef) { r.APIVersion = "" }, abi.CodeInvalid},
		"APIVersionHostile": {"a group must not work as a path", func(_ *world, r *abi.ObjectRef) { r.APIVersion = "../v1" }, abi.CodeInvalid},
		"Kind":              {"a kind is a word", func(_ *world, r *abi.ObjectRef) { r.Kind = "configmaps/../secrets" }, abi.CodeInvalid},
		"Namespace":         {"a namespace must not work as a path", func(_ *world, r *abi.ObjectRef) { r.Namespace = "../kube-system" }, abi.CodeInvalid},
		"ClusterScoped":     {"a namespace on a kind without one would sidestep the grant", func(_ *world, r *abi.ObjectRef) { r.Kind = "Node" }, abi.CodeInvalid},
	}
	single := map[string]struct {
		reason string
		change func(w *world, ref *abi.ObjectRef)
		code   abi.ErrorCode
	}{
		"NoName":      {"one object has a name", func(_ *world, r *abi.ObjectRef) { r.Name = "" }, abi.CodeInvalid},
		"NamePath":    {"a name must not work as a path", func(_ *world, r *abi.ObjectRef) { r.Name = "a/../../secrets/s" }, abi.CodeInvalid},
		"NameDots":    {"nor climb", func(_ *world, r *abi.ObjectRef) { r.Name = ".." }, abi.CodeInvalid},
		"NameLines":   {"nor break a line", func(_ *world, r *abi.ObjectRef) { r.Name = "a\nb" }, abi.CodeInvalid},
		"NameLong":    {"253 characters", func(_ *world, r *abi.ObjectRef) { r.Name = strings.Repeat("a", 254) }, abi.CodeInvalid},
		"NoNamespace": {"an object of a namespace has one", func(_ *world, r *abi.ObjectRef) { r.Namespace = "" }, abi.CodeInvalid},
	}
	functions := map[abi.Function]func(r abi.ObjectRef) any{
		abi.KubeGet:    func(r abi.ObjectRef) any { return abi.KubeGetRequest{ObjectRef: r} },
		abi.KubeDelete: func(r abi.ObjectRef) any { return abi.KubeDeleteRequest{ObjectRef: r} },
		abi.KubeList:   func(r abi.ObjectRef) any { r.Name = ""; return abi.KubeListRequest{ObjectRef: r} },
		abi.KubeApply: func(r abi.ObjectRef) any {
			object, err := json.Marshal(map[string]any{"apiVersion": r.APIVersion, "kind": r.Kind, "metadata": map[string]any{"namespace": r.Namespace, "name": r.Name}})
			require.NoError(t, err)
			return abi.KubeApplyRequest{Scope: r.Scope, Object: object}
		},
	}
	for f, request := range functions {
		for name, tc := range cases {
			t.Run(string(f)+name, func(t *testing.T) {
				refused(t, f, request, tc.change, tc.code, tc.reason, secret)
			})
		}
		if f == abi.KubeList {
			continue
		}
		for name, tc := range single {
			t.Run(string(f)+name, func(t *testing.T) {
				refused(t, f, request, tc.change, tc.code, tc.reason, secret)
			})
		}
	}
}

func refused(t *testing.T, f abi.Function, request func(abi.ObjectRef) any, change func(*world, *abi.ObjectRef), code abi.ErrorCode, reason string, objects ...client.Object) {
	t.Helper()
	w := kubeWorld(cluster(nil, append(objects, configMap("kube-system", "who", "home"))...), nil)
	ref := cmRef("", "who")
	change(w, &ref)
	w.once(t, func(ctx context.Context, host hostFunc) {
		callError := ask(t, ctx, host, f, request(ref), nil)
		require.NotNil(t, callError, reason)
		require.Equal(t, code, callError.Code, reason)
	})
}

// Case 117 and weakness 39: a failure to find out must never read as absence.
func TestCase117KubeErrors(t *testing.T) {
	gr := schema.GroupResource{Resource: "configmaps"}
	cases := map[string]struct {
		reason string
		err    error
		code   abi.ErrorCode
		gone   bool
	}{
		"NotFound":     {"the API server says so", apierrors.NewNotFound(gr, "who"), abi.CodeAbsent, true},
		"NoMatch":      {"the kind is not served", &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "ConfigMap"}}, abi.CodeAbsent, true},
		"Bare404":      {"a load balancer says nothing about objects", apierrors.NewGenericServerResponse(404, "get", gr, "who", "<html>", 0, true), abi.CodeUnavailable, false},
		"Forbidden":    {"the tenant lacks a right", apierrors.NewForbidden(gr, "who", errors.New("rbac")), abi.CodeForbidden, false},
		"Unauthorized": {"the credential is refused", apierrors.NewUnauthorized("expired"), abi.CodeForbidden, false},
		"Conflict":     {"somebody else was faster", apierrors.NewConflict(gr, "who", errors.New("rv")), abi.CodeConflict, false},
		"Expired":      {"a cursor is void", apierrors.NewResourceExpired("old"), abi.CodeConflict, false},
		"Invalid":      {"the request is wrong", apierrors.NewBadRequest("bad"), abi.CodeInvalid, false},
		"TooLarge":     {"the request is too large", apierrors.NewRequestEntityTooLargeError("big"), abi.CodeTooLarge, false},
		"Timeout":      {"the server was slow", apierrors.NewServerTimeout(gr, "get", 1), abi.CodeUnavailable, false},
		"Internal":     {"the server is broken", apierrors.NewInternalError(errors.New("etcd")), abi.CodeUnavailable, false},
		"TooMany":      {"the server is busy", apierrors.NewTooManyRequests("slow", 1), abi.CodeUnavailable, false},
		"Network":      {"there is no server", errDial, abi.CodeUnavailable, false},
		"Deadline":     {"there was no time", context.DeadlineExceeded, abi.CodeUnavailable, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := kubeWorld(cluster(tc.err), nil)
			w.once(t, func(ctx context.Context, host hostFunc) {
				got := ask(t, ctx, host, abi.KubeGet, abi.KubeGetRequest{ObjectRef: cmRef("", "who")}, nil)
				require.Equal(t, tc.code, got.Code, tc.reason)
				require.NotContains(t, got.Message, "10.0.0.7", "addresses are not for guests")
				require.Equal(t, tc.code, ask(t, ctx, host, abi.KubeList, abi.KubeListRequest{ObjectRef: cmRef("", "")}, nil).Code, tc.reason)
				var result abi.KubeDeleteResult
				deleted := ask(t, ctx, host, abi.KubeDelete, abi.KubeDeleteRequest{ObjectRef: cmRef("", "who")}, &result)
				require.Equal(t, tc.gone, deleted == nil, tc.reason)
				require.Equal(t, tc.gone, result.Gone, tc.reason)
			})
		})
	}
	t.Run("Unserved", func(t *testing.T) {
		w := kubeWorld(cluster(nil), nil)
		w.once(t, func(ctx context.Context, host hostFunc) {
			ref := cmRef("", "who")
			ref.Kind = "Unserved"
			require.Equal(t, abi.CodeAbsent, ask(t, ctx, host, abi.KubeGet, abi.KubeGetRequest{ObjectRef: ref}, nil).Code)
			var result abi.KubeDeleteResult
			require.Nil(t, ask(t, ctx, host, abi.KubeDelete, abi.KubeDeleteRequest{ObjectRef: ref}, &result))
			require.True(t, result.Gone, "what cannot exist is gone")
		})
	})
}

func TestKubeList(t *testing.T) {
	w := kubeWorld(cluster(nil, configMap("kube-system", "a", "1"), configMap("kube-system", "b", "2"), configMap("default", "c", "3")), nil)
	w.once(t, func(ctx context.Context, host hostFunc) {
		var result abi.KubeListResult
		require.Nil(t, ask(t, ctx, host, abi.KubeList, abi.KubeListRequest{ObjectRef: cmRef("", ""), LabelSelector: "app=x"}, &result))
		require.Len(t, result.Items, 2)
		require.Equal(t, "1", valueOf(t, result.Items[0]))
		require.Nil(t, ask(t, ctx, host, abi.KubeList, abi.KubeListRequest{ObjectRef: cmRef("", ""), LabelSelector: "app=y"}, &result))
		require.Empty(t, result.Items)
		all := cmRef("", "")
		all.Namespace = ""
		require.Nil(t, ask(t, ctx, host, abi.KubeList, abi.KubeListRequest{ObjectRef: all}, &result))
		require.Len(t, result.Items, 3)
		for reason, bad := range map[string]abi.KubeListRequest{
			"a list has no name":       {ObjectRef: cmRef("", "a")},
			"a selector has a syntax":  {ObjectRef: cmRef("", ""), LabelSelector: "a in ("},
			"pages are bounded":        {ObjectRef: cmRef("", ""), Limit: 501},
			"and not negative":         {ObjectRef: cmRef("", ""), Limit: -1},
			"a selector is bounded":    {ObjectRef: cmRef("", ""), LabelSelector: strings.Repeat("a", 5000)},
			"a cursor is bounded, too": {ObjectRef: cmRef("", ""), Continue: strings.Repeat("a", 5000)},
		} {
			require.NotNil(t, ask(t, ctx, host, abi.KubeList, bad, nil), reason)
		}
	})
}

func TestKubeListPages(t *testing.T) {
	var seen []client.ListOptions
	c := fake.NewClientBuilder().WithRESTMapper(mapper()).WithInterceptorFuncs(interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			options := client.ListOptions{}
			options.ApplyOptions(opts)
			seen = append(seen, options)
			list.SetContinue("next")
			return nil
		},
	}).Build()
	w := kubeWorld(c, nil)
	w.once(t, func(ctx context.Context, host hostFunc) {
		var result abi.KubeListResult
		require.Nil(t, ask(t, ctx, host, abi.KubeList, abi.KubeListRequest{ObjectRef: cmRef("", "")}, &result))
		require.Equal(t, "next", result.Continue)
		require.Nil(t, ask(t, ctx, host, abi.KubeList, abi.KubeListRequest{ObjectRef: cmRef("", ""), Limit: 7, Continue: result.Continue}, &result))
	})
	require.Equal(t, int64(100), seen[0].Limit, "a page is bounded although nobody asked")
	require.Equal(t, int64(7), seen[1].Limit)
	require.Equal(t, "next", seen[1].Continue)
	require.Equal(t, "kube-system", seen[1].Namespace)
}

func TestAnswerTooLarge(t *testing.T) {
	var objects []client.Object
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		objects = append(objects, configMap("kube-system", name, strings.Repeat("x", 1<<20)))
	}
	w := kubeWorld(cluster(nil, objects...), nil)
	w.once(t, func(ctx context.Context, host hostFunc) {
		require.Equal(t, abi.CodeTooLarge, ask(t, ctx, host, abi.KubeList, abi.KubeListRequest{ObjectRef: cmRef("", "")}, nil).Code)
		require.Nil(t, ask(t, ctx, host, abi.KubeGet, abi.KubeGetRequest{ObjectRef: cmRef("", "a")}, nil))
	})
}

func TestKubeApplyAndDelete(t *testing.T) {
	c := cluster(nil)
	w := kubeWorld(c, nil)
	apply := func(object string) abi.KubeApplyRequest { return abi.KubeApplyRequest{Object: json.RawMessage(object)} }
	w.once(t, func(ctx context.Context, host hostFunc) {
		var result abi.KubeApplyResult
		require.Nil(t, ask(t, ctx, host, abi.KubeApply, apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"made","namespace":"kube-system","managedFields":[{"manager":"x"}]},"data":{"k":"v"}}`), &result))
		require.Equal(t, "v", valueOf(t, result.Object))
		for reason, bad := range map[string]string{
			"generateName would make one in each call": `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"x-","namespace":"kube-system"}}`,
			"also beside a name":                       `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","generateName":"x-","namespace":"kube-system"}}`,
			"an object has metadata":                   `{"apiVersion":"v1","kind":"ConfigMap"}`,
			"that is an object":                        `{"apiVersion":"v1","kind":"ConfigMap","metadata":[]}`,
			"a name is text":                           `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":1,"namespace":"kube-system"}}`,
			"an object is one":                         `[]`,
			"and not null":                             `null`,
		} {
			require.Equal(t, abi.CodeInvalid, ask(t, ctx, host, abi.KubeApply, apply(bad), nil).Code, reason)
		}
		large := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"kube-system"},"data":{"k":"` + strings.Repeat("x", 2<<20) + `"}}`
		require.Equal(t, abi.CodeTooLarge, ask(t, ctx, host, abi.KubeApply, apply(large), nil).Code)
	})
	var made corev1.ConfigMap
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "made"}, &made))
	require.Equal(t, "caisson", made.ManagedFields[0].Manager, "the host is the field manager, not the guest")

	w.once(t, func(ctx context.Context, host hostFunc) {
		var result abi.KubeDeleteResult
		ref := cmRef("", "made")
		require.Equal(t, abi.CodeInvalid, ask(t, ctx, host, abi.KubeDelete, abi.KubeDeleteRequest{ObjectRef: ref, UID: strings.Repeat("u", 200)}, nil).Code)
		require.Nil(t, ask(t, ctx, host, abi.KubeDelete, abi.KubeDeleteRequest{ObjectRef: ref}, &result))
		require.False(t, result.Gone, "triggered is not gone")
		require.Nil(t, ask(t, ctx, host, abi.KubeDelete, abi.KubeDeleteRequest{ObjectRef: ref}, &result))
		require.True(t, result.Gone)
	})
}

func TestKubeDeletePassesPreconditions(t *testing.T) {
	var got client.DeleteOptions
	c := fake.NewClientBuilder().WithRESTMapper(mapper()).WithInterceptorFuncs(interceptor.Funcs{
		Delete: func(_ context.Context, _ client.WithWatch, _ client.Object, opts ...client.DeleteOption) error {
			got.ApplyOptions(opts)
			return apierrors.NewConflict(schema.GroupResource{}, "who", errors.New("uid"))
		},
	}).Build()
	w := kubeWorld(c, nil)
	w.once(t, func(ctx context.Context, host hostFunc) {
		require.Equal(t, abi.CodeConflict, ask(t, ctx, host, abi.KubeDelete, abi.KubeDeleteRequest{ObjectRef: cmRef("", "who"), UID: "u-1"}, nil).Code)
	})
	require.Equal(t, "u-1", string(*got.Preconditions.UID))
	require.Equal(t, metav1.DeletePropagationBackground, *got.PropagationPolicy)
}
