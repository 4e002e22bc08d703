package host_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// columns asks the API server for the table that kubectl get prints of one object: -o
// wide, without the age.
func (r *rig) columns(t *testing.T, resource string, key client.ObjectKey) map[string]string {
	t.Helper()
	path := "/apis/" + v1alpha1.GroupVersion().String()
	if key.Namespace != "" {
		path += "/namespaces/" + key.Namespace
	}
	httpClient, err := rest.HTTPClientFor(r.home.Config)
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.home.Config.Host+path+"/"+resource+"/"+key.Name, http.NoBody)
	require.NoError(t, err)
	request.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	response, err := httpClient.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	table := metav1.Table{}
	require.NoError(t, json.Unmarshal(body, &table), "%s", body)
	require.Len(t, table.Rows, 1, "%s", body)
	cells := map[string]string{}
	for i, column := range table.ColumnDefinitions {
		require.Equal(t, column.Name == "Message" || column.Name == "Digest" || column.Name == "Description", column.Priority > 0, "what is long is for -o wide: %s", column.Name)
		cells[column.Name] = fmt.Sprint(table.Rows[0].Cells[i])
	}
	require.Contains(t, cells, "Age")
	delete(cells, "Age")
	return cells
}

// kstatus is what the library makes of an object as the API server has it.
func (r *rig) kstatus(t *testing.T, kind string, key client.ObjectKey) status.Status {
	t.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind(kind))
	require.NoError(t, r.admin.Get(t.Context(), key, object))
	result, err := status.Compute(object)
	require.NoError(t, err)
	return result.Status
}

// TestWhatKubectlShows: the columns of kubectl get, and what kubectl wait and Flux go by,
// on the real API server in the phases that a person looks at.
func TestWhatKubectlShows(t *testing.T) {
	r := needRig(t)
	namespace := r.tenant(t, "columns")
	r.hostileModule(t, "in-columns")
	module := client.ObjectKey{Name: "in-columns"}
	require.Equal(t, status.CurrentStatus, r.kstatus(t, "Module", module))
	cells := r.columns(t, "modules", module)
	require.NotEmpty(t, cells["Version"])
	require.Contains(t, cells["Digest"], "sha256:")
	require.Equal(t, []string{"True", "Loaded", "The module is loaded and can be used."}, []string{cells["Ready"], cells["Reason"], cells["Message"]})

	r.module(t, "not-there", `
reference: registry.example.com/modules/hostile:not-there
allowedNamespaces: []
grant: {capabilities: []}
`)
	r.awaitModule(t, "not-there", "False/NotFound")
	require.Equal(t, status.FailedStatus, r.kstatus(t, "Module", client.ObjectKey{Name: "not-there"}), "it waits for somebody")

	key := r.stack(t, namespace, "web", hostileStack("in-columns", "secret"))
	const missing = "leaf: A Secret or a key of it that is needed does not exist; create it. (secret_missing)"
	r.awaitStack(t, key, "False/UserActionRequired")
	require.Equal(t, map[string]string{"Name": "web", "Available": "False", "Reason": "UserActionRequired", "Nodes": "0/1", "Message": missing}, r.columns(t, "stacks", key))
	require.Equal(t, status.FailedStatus, r.kstatus(t, "Stack", key))

	r.secret(t, namespace, "token", "key", []byte("ohnomysecret"))
	r.awaitStack(t, key, "True/Provisioned")
	require.Equal(t, map[string]string{"Name": "web", "Available": "True", "Reason": "Provisioned", "Nodes": "1/1", "Message": "Every node is as desired."}, r.columns(t, "stacks", key))
	require.Equal(t, status.CurrentStatus, r.kstatus(t, "Stack", key))

	suspended := r.get(t, key)
	suspended.Spec.Suspend = true
	require.NoError(t, r.admin.Update(t.Context(), suspended))
	r.awaitStack(t, key, "False/Suspended")
	require.Equal(t, "Suspended", r.columns(t, "stacks", key)["Reason"])
	require.Equal(t, status.InProgressStatus, r.kstatus(t, "Stack", key), "not as desired, and not failed")

	entry := &v1alpha1.Application{ObjectMeta: metav1.ObjectMeta{Name: "in-columns"}}
	entry.Spec.Description = "Shows itself."
	entry.Spec.Versions = []v1alpha1.ApplicationVersion{{Version: "1.2.3", Repo: "oci://registry.example.com/charts", Chart: "x"}}
	r.create(t, entry)
	require.Equal(t, map[string]string{"Name": "in-columns", "Versions": "1.2.3", "Description": "Shows itself."}, r.columns(t, "applications", client.ObjectKeyFromObject(entry)))
	require.Equal(t, status.CurrentStatus, r.kstatus(t, "Application", client.ObjectKeyFromObject(entry)), "it has no status, and is what it says")
}
