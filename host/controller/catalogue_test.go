package controller

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/application"
	"github.com/caisson-dev/caisson/host/scope"
)

func newCatalogue(t *testing.T, funcs interceptor.Funcs, values string) *Catalogue {
	t.Helper()
	object := &v1alpha1.Application{
		ObjectMeta: metav1.ObjectMeta{Name: "metrics", UID: "app-uid", Generation: 4},
		Spec: v1alpha1.ApplicationSpec{Versions: []v1alpha1.ApplicationVersion{
			{
				Version: "3.13.0", Repo: "oci://registry.example.com/charts", Chart: "metrics-server", Release: "metrics", Namespace: "kube-system",
				CreateNamespace: true, AllowDegraded: true, Values: &apiextensionsv1.JSON{Raw: []byte(values)},
				Parameters: []v1alpha1.Parameter{{Name: "b", Value: "2"}, {Name: "a", Value: "1"}},
			},
			{Version: "3.12.0", Repo: "oci://registry.example.com/charts", Chart: "metrics-server"},
		}},
	}
	base := fake.NewClientBuilder().WithScheme(testScheme(t)).WithObjects(object).Build()
	return NewCatalogue(interceptor.NewClient(base, funcs))
}

func TestCatalogueEntry(t *testing.T) {
	entry, err := newCatalogue(t, interceptor.Funcs{}, `{"replicas": 2000000, "tolerations": null}`).Entry(t.Context(), "metrics")
	require.NoError(t, err)
	require.Equal(t, &application.Entry{
		Name: "metrics", ResourceVersion: "app-uid/4",
		Versions: []application.Version{
			{
				Version: "3.13.0", Repo: "oci://registry.example.com/charts", Chart: "metrics-server", Release: "metrics", Namespace: "kube-system",
				CreateNamespace: true, AllowDegraded: true, Values: map[string]any{"replicas": int64(2000000), "tolerations": nil},
				Parameters: []cd.Parameter{{Name: "b", Value: "2"}, {Name: "a", Value: "1"}},
			},
			{Version: "3.12.0", Repo: "oci://registry.example.com/charts", Chart: "metrics-server"},
		},
	}, entry, "parameters keep their order, nulls are kept, and no template prints 2e+06")
}

func TestCatalogueFailures(t *testing.T) {
	away := interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return errors.New("the cache is not there")
	}}
	cases := map[string]struct {
		reason      string
		name        string
		values      string
		funcs       interceptor.Funcs
		disposition abi.Disposition
		code        string
	}{
		"unreadable": {reason: "not knowing is not the same as not found", name: "metrics", values: `{}`, funcs: away, disposition: abi.Retry, code: abi.ReasonUnexpected},
		"no object":  {reason: "values are a map", name: "metrics", values: `[1]`, disposition: abi.Terminal, code: abi.ReasonInvalidConfig},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := newCatalogue(t, c.funcs, c.values).Entry(t.Context(), c.name)
			o := provisioner.OutcomeOf(err)
			require.Equal(t, c.disposition, o.Class, c.reason)
			require.Equal(t, c.code, o.Headline.Reason, c.reason)
		})
	}
}

// TestCatalogueUnknown: what does not exist is told from what could not be read, and is
// recorded, so that creating it wakes the Stack.
func TestCatalogueUnknown(t *testing.T) {
	c := newCatalogue(t, interceptor.Funcs{}, `{}`)
	_, err := c.Entry(t.Context(), "nowhere")
	require.ErrorIs(t, err, provisioner.ErrNotFound)

	inputs := newInputSet(nil)
	_, err = application.Lookup(t.Context(), c, "nowhere", inputs)
	o := provisioner.OutcomeOf(err)
	require.Equal(t, abi.UserActionRequired, o.Class)
	require.Equal(t, abi.ReasonApplicationNotFound, o.Headline.Reason)
	require.Equal(t, []v1alpha1.InputRecord{{Scope: scope.HomeID, Kind: inputApplication, Name: "nowhere", Absent: true}}, inputs.sorted())
}

// TestCatalogueVersion changes with the spec, and with another object of the same name.
func TestCatalogueVersion(t *testing.T) {
	object := &v1alpha1.Application{ObjectMeta: metav1.ObjectMeta{UID: "a", Generation: 1, ResourceVersion: "7"}}
	before := catalogueVersion(object)
	object.ResourceVersion, object.Labels = "8", map[string]string{"touched": "yes"}
	require.Equal(t, before, catalogueVersion(object))
	object.Generation = 2
	require.NotEqual(t, before, catalogueVersion(object))
	object.Generation, object.UID = 1, "b"
	require.NotEqual(t, before, catalogueVersion(object))
}
