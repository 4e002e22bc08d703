package demo

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestExcused(t *testing.T) {
	retained := []string{"Namespace/ingress", "CustomResourceDefinition/a.example.com"}
	cases := map[string]struct {
		reason string
		object string
		want   bool
	}{
		"Retained":        {reason: "it was announced", object: "Namespace/ingress", want: true},
		"RetainedCRD":     {reason: "it was announced", object: "CustomResourceDefinition/a.example.com", want: true},
		"DefaultAccount":  {reason: "every namespace has it", object: "ServiceAccount/ingress/default", want: true},
		"RootCA":          {reason: "every namespace has it", object: "ConfigMap/ingress/kube-root-ca.crt", want: true},
		"InTheNamespace":  {reason: "what else is in a retained namespace is left over", object: "Deployment/ingress/controller"},
		"OtherAccount":    {reason: "an account that somebody made", object: "ServiceAccount/ingress/controller"},
		"OtherNamespace":  {reason: "that namespace was not announced", object: "ServiceAccount/other/default"},
		"OtherKind":       {reason: "a CRD is not a namespace", object: "ServiceAccount/a.example.com/default"},
		"SimilarlyNamed":  {reason: "a name is compared whole", object: "Namespace/ingress-2"},
		"NothingReported": {reason: "an object without a report", object: "Secret/kube-system/x"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, excused(tc.object, retained), tc.reason)
			require.False(t, excused(tc.object, nil), "without a report nothing is excused")
		})
	}
}

func TestTransient(t *testing.T) {
	for _, kind := range []string{"Event", "Lease", "ComponentStatus"} {
		require.True(t, transient("", kind), kind)
	}
	require.True(t, transient("metrics.k8s.io", "PodMetrics"))
	for _, kind := range []string{"Pod", "Secret", "Namespace", "CustomResourceDefinition"} {
		require.False(t, transient("", kind), kind)
	}
}

func TestOrNone(t *testing.T) {
	require.Equal(t, "nothing", orNone(nil))
	require.Equal(t, "a, b", orNone([]string{"a", "b"}))
}

func event(name, stack, reason, note string) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: stackNamespace, Name: name},
		Regarding:  corev1.ObjectReference{Kind: "Stack", Name: stack}, Reason: reason, Note: note,
	}
}

func TestRetained(t *testing.T) {
	cases := map[string]struct {
		reason string
		events []client.Object
		want   []string
		err    string
	}{
		"Some": {
			reason: "the list is behind the colon",
			events: []client.Object{
				event("a", stackName, "Provisioned", "Namespace: x."),
				event("b", "other", "Deprovisioned", "Everything is gone, except what is kept on purpose: Namespace/y."),
				event("c", stackName, "Deprovisioned", "Everything that the Stack made is gone, except what is kept on purpose: CustomResourceDefinition/a.b, Namespace/x."),
			},
			want: []string{"CustomResourceDefinition/a.b", "Namespace/x"},
		},
		"Nothing": {reason: "no colon, no list", events: []client.Object{event("a", stackName, "Deprovisioned", "Everything that the Stack made is gone.")}},
		"NoEvent": {reason: "an operator that says nothing has not done its work", events: []client.Object{event("a", stackName, "Provisioned", "")}, err: "recorded no event Deprovisioned"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := &demo{home: fakeCluster(t, "home", interceptor.Funcs{}, tc.events...)}
			got, err := d.retained(t.Context())
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err, tc.reason)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, got, tc.reason)
		})
	}
}

// discoverable gives a cluster an API server that says which kinds there are.
func discoverable(t *testing.T, c *cluster) *cluster {
	t.Helper()
	answers := map[string]any{
		"/api":  metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}},
		"/apis": metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}},
		"/api/v1": metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "namespaces", Kind: "Namespace", Verbs: []string{"get", "list"}},
			{Name: "configmaps", Kind: "ConfigMap", Namespaced: true, Verbs: []string{"list"}},
			{Name: "events", Kind: "Event", Namespaced: true, Verbs: []string{"list"}},
			{Name: "bindings", Kind: "Binding", Namespaced: true, Verbs: []string{"create"}},
		}},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	c.config = &rest.Config{Host: server.URL}
	return c
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func configMap(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func TestEverything(t *testing.T) {
	c := discoverable(t, fakeCluster(t, "home", interceptor.Funcs{}, namespace("a"), configMap("a", "x"), configMap("b", "y"),
		&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "e"}}))
	got, err := c.everything(t.Context())
	require.NoError(t, err)
	require.Equal(t, inventory{"Namespace/a": true, "ConfigMap/a/x": true, "ConfigMap/b/y": true}, got)

	c.config = &rest.Config{Host: "http://127.0.0.1:1"}
	_, err = c.everything(t.Context())
	require.ErrorContains(t, err, "discover home: ")
}

func TestNothingLeft(t *testing.T) {
	var out strings.Builder
	farewell := event("e", stackName, "Deprovisioned", "Everything that the Stack made is gone, except what is kept on purpose: Namespace/kept.")
	d := &demo{
		home:     discoverable(t, fakeCluster(t, "home", interceptor.Funcs{}, farewell, namespace("before"))),
		workload: discoverable(t, fakeCluster(t, "workload", interceptor.Funcs{})),
		show:     &show{out: &out, start: time.Now()},
	}
	require.NoError(t, d.snapshot(t.Context()))
	require.NoError(t, d.home.client.Delete(t.Context(), namespace("before")), "who takes more away leaves nothing")
	for _, o := range []client.Object{namespace("kept"), configMap("kept", "kube-root-ca.crt")} {
		require.NoError(t, d.workload.client.Create(t.Context(), o))
	}
	require.NoError(t, d.nothingLeft(t.Context()))
	require.Contains(t, out.String(), "except what is reported as retained: Namespace/kept\n")

	for _, o := range []client.Object{configMap("kept", "values"), namespace("lost")} {
		require.NoError(t, d.workload.client.Create(t.Context(), o))
	}
	left, err := d.left(t.Context(), []string{"Namespace/kept"})
	require.NoError(t, err)
	require.Equal(t, []string{"workload: ConfigMap/kept/values", "workload: Namespace/lost"}, left)

	// The garbage collector may still be at work.
	done := make(chan error, 1)
	go func() { done <- d.nothingLeft(t.Context()) }()
	for _, o := range []client.Object{configMap("kept", "values"), namespace("lost")} {
		require.NoError(t, d.workload.client.Delete(t.Context(), o))
	}
	require.NoError(t, <-done)
}
