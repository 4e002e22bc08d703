package testenv

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// roleVariable makes the test binary start a cluster, pause it, and hang.
	roleVariable = "TESTENV_TEST_ROLE"
	rolePauser   = "pauser"

	patience  = 60 * time.Second
	pollEvery = 50 * time.Millisecond
)

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) == rolePauser {
		pauseAndHang()
	}
	os.Exit(m.Run())
}

func pauseAndHang() {
	cluster, err := StartMain()
	if err == nil {
		err = cluster.Pause()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(cluster.Path)
	select {}
}

const widgets = `
# Out of order: the widget comes before the kind that it is of, and the config before its namespace.
apiVersion: example.com/v1
kind: Widget
metadata: {name: first}
spec: {size: 3}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: widgets}
data: {a: b}
---
apiVersion: v1
kind: Namespace
metadata: {name: widgets}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {size: {type: integer}}}}
`

const web = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: NAMESPACE}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: example.invalid/web}]}
`

// TestCluster uses one cluster for all that a test would do with it, and ends it.
func TestCluster(t *testing.T) {
	t.Parallel()

	cluster := Start(t)
	admin, err := cluster.Client(nil)
	require.NoError(t, err)
	file, err := os.ReadFile(cluster.Path)
	require.NoError(t, err)
	require.Equal(t, cluster.Kubeconfig, file)

	objects, err := Apply(t.Context(), admin, widgets)
	require.NoError(t, err)
	require.Len(t, objects, 4)
	require.Equal(t, "Namespace", objects[0].GetKind())
	require.NotEmpty(t, objects[3].GetUID(), "what is returned is what the API answered")
	widget := &unstructured.Unstructured{}
	widget.SetAPIVersion("example.com/v1")
	widget.SetKind("Widget")
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Name: "first"}, widget))

	_, err = Apply(t.Context(), admin, strings.ReplaceAll(web, "NAMESPACE", "nowhere"))
	require.True(t, apierrors.IsNotFound(err), "at once, as waiting would not help: %v", err)
	_, err = Apply(t.Context(), admin, strings.Replace(widgets, "size: 3", "size: big", 1))
	require.ErrorContains(t, err, "apply Widget /first", "the error names the object")
	require.ErrorContains(t, err, "expected numeric", "and has the API's reason")

	namespace := Namespace(t, admin, "web")
	require.True(t, strings.HasPrefix(namespace, "web-"))
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "web.yaml"), strings.ReplaceAll(web, "NAMESPACE", namespace))
	_, err = ApplyPath(t.Context(), admin, dir)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		deployment := &appsv1.Deployment{}
		err := admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "web"}, deployment)

		return err == nil && deployment.Status.AvailableReplicas == 1
	}, patience, pollEvery)

	// A paused cluster does not answer; a resumed one answers as if nothing had been.
	require.NoError(t, cluster.Pause())
	impatient, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, admin.Get(impatient, client.ObjectKey{Name: namespace}, &corev1.Namespace{}), context.DeadlineExceeded)
	require.NoError(t, cluster.Resume())
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Name: namespace}, &corev1.Namespace{}))

	require.NoError(t, cluster.Pause())
	cluster.Stop()
	cluster.Stop()
	require.NoDirExists(t, filepath.Dir(cluster.Path), "stopped although paused, and nothing left")
	require.ErrorIs(t, cluster.Pause(), os.ErrProcessDone)
	require.Error(t, admin.Get(t.Context(), client.ObjectKey{Name: namespace}, &corev1.Namespace{}))
}

func TestKill(t *testing.T) {
	t.Parallel()

	cluster := Start(t)
	require.DirExists(t, filepath.Dir(cluster.Path))
	cluster.Kill()
	require.NoDirExists(t, filepath.Dir(cluster.Path))
	require.ErrorIs(t, cluster.Resume(), os.ErrProcessDone)
}
