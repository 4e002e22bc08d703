package host_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/capability"
	"github.com/caisson-dev/caisson/host/internal/testenv"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/application"
	"github.com/caisson-dev/caisson/host/provisioner/concurrent"
)

// garden is a kind of an embedder's own.
type garden struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Status            struct {
		ObservedGeneration int64              `json:"observedGeneration,omitempty"`
		Conditions         []metav1.Condition `json:"conditions,omitempty"`
	} `json:"status,omitzero"`
}

// DeepCopyObject implements runtime.Object.
func (g *garden) DeepCopyObject() runtime.Object {
	c := *g
	g.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	c.Status.Conditions = slices.Clone(g.Status.Conditions)
	return &c
}

type gardenList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []garden `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *gardenList) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = nil
	for i := range l.Items {
		c.Items = append(c.Items, *l.Items[i].DeepCopyObject().(*garden)) //nolint:forcetypeassert // It is one.
	}
	return &c
}

// value is a kind that is no pointer, and unknown one that the scheme has not heard of.
type (
	value   struct{ *garden }
	unknown struct{ garden }
)

// library is an embedder in this process, with a kind whose objects are gardens.
type library struct {
	*foreign
	host      *host.Host
	manager   ctrl.Manager
	namespace string
	log       *syncBuffer
}

func (r *rig) library(t *testing.T) *library {
	t.Helper()
	status := strings.Replace(keyedStatus, "properties: {", "properties: {observedGeneration: {type: integer}, ", 1)
	l := &library{
		foreign: r.foreign(t, "Garden", "Namespaced", status, "{status: {}}"), log: &syncBuffer{},
		namespace: testenv.Namespace(t, r.admin, "library"),
	}
	scheme := runtime.NewScheme()
	require.NoError(t, host.AddToScheme(scheme))
	scheme.AddKnownTypeWithName(l.gvk, &garden{})
	scheme.AddKnownTypeWithName(l.gvk.GroupVersion().WithKind("GardenList"), &gardenList{})
	metav1.AddToGroupVersion(scheme, l.gvk.GroupVersion())
	logger := funcr.New(func(prefix, args string) { _, _ = l.log.Write([]byte(prefix + " " + args + "\n")) }, funcr.Options{})
	access := rest.CopyConfig(r.home.Config)
	access.QPS = -1
	mgr, err := ctrl.NewManager(access, ctrl.Options{
		Scheme: scheme, Logger: logger, Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	require.NoError(t, err)
	l.manager = mgr
	l.host, err = host.Embed(t.Context(), mgr, host.Options{
		Namespace: l.namespace, CacheDir: t.TempDir(), Worker: []string{r.worker}, DefaultServiceAccount: "builder",
		Metrics: prometheus.NewRegistry(), Logger: logger,
	})
	require.NoError(t, err)
	return l
}

// run runs the manager until the test ends.
func (l *library) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- l.manager.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
		if t.Failed() {
			t.Logf("the end of the embedder's log:\n%s", l.log.tail(8<<10))
		}
	})
}

// everything grants what the prober declares.
func everything() capability.Grant {
	verbs, everywhere := []string{"get", "list", "apply", "delete"}, []string{capability.Any}
	scopes := []abi.KubeScope{abi.ScopeCurrent, abi.ScopeHome}
	return capability.Grant{
		Capabilities: []abi.Function{abi.AppEnsure, abi.AppRemove, abi.AppList, abi.KubeGet, abi.KubeList, abi.KubeApply, abi.KubeDelete, abi.SecretRead, abi.Event},
		Kube: []capability.KubeRule{
			{Kinds: []string{"ConfigMap", "ServiceAccount", "Pod", "Namespace"}, Verbs: verbs, Namespaces: everywhere, Scopes: scopes},
			{APIGroup: "caisson.dev", Kinds: []string{"Stack", "Module"}, Verbs: verbs, Namespaces: everywhere, Scopes: scopes},
			{APIGroup: "rbac.authorization.k8s.io", Kinds: []string{"RoleBinding", "ClusterRoleBinding"}, Verbs: verbs, Namespaces: everywhere, Scopes: scopes},
		},
	}
}

// plants is the config of a prober that makes a ConfigMap at home and publishes that.
func plants(namespace, name string) map[string]any {
	return map[string]any{"fact": name, "probes": []any{map[string]any{"name": "planted", "function": "kube_apply", "request": map[string]any{
		"scope": "home", "object": map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": namespace, "name": name}, "data": map[string]any{"by": name},
		},
	}}}}
}

// TestLibraryRefuses: what a program gets wrong is said when it starts, and in words.
func TestLibraryRefuses(t *testing.T) {
	r := needRig(t)
	l := r.library(t)
	tree := func(*host.Pass, *garden) (provisioner.Provisioner, error) { return nil, errors.New("not called") }
	for name, c := range map[string]struct {
		manage func() error
		want   string
	}{
		"NoTree":     {func() error { return host.Manage(l.host, host.Kind[*garden]{Name: "a.example.com/garden"}) }, "needs a tree"},
		"NoName":     {func() error { return host.Manage(l.host, host.Kind[*garden]{Tree: tree}) }, "qualified"},
		"PlainName":  {func() error { return host.Manage(l.host, host.Kind[*garden]{Name: "garden", Tree: tree}) }, `"garden" is not`},
		"LongerName": {func() error { return host.Manage(l.host, host.Kind[*garden]{Name: "a/b/c", Tree: tree}) }, `"a/b/c" is not`},
		"NoPointer": {func() error {
			return host.Manage(l.host, host.Kind[value]{Name: "a.example.com/garden", Tree: func(*host.Pass, value) (provisioner.Provisioner, error) { return nil, nil }})
		}, "pointer"},
		"Unregistered": {func() error {
			return host.Manage(l.host, host.Kind[*unknown]{Name: "a.example.com/garden", Tree: func(*host.Pass, *unknown) (provisioner.Provisioner, error) { return nil, nil }})
		}, "in the scheme"},
	} {
		t.Run("Manage "+name, func(t *testing.T) { require.ErrorContains(t, c.manage(), c.want) })
	}

	prober := r.wasm["prober"]
	for name, c := range map[string]struct {
		options host.ModuleOptions
		want    string
		reason  string
	}{
		"NoName":      {options: host.ModuleOptions{Wasm: prober}, want: "needs a name"},
		"Nothing":     {options: host.ModuleOptions{Name: "a"}, want: "needs a reference or the Wasm itself"},
		"Both":        {options: host.ModuleOptions{Name: "a", Wasm: prober, Reference: "r/m:1"}, want: "not both"},
		"Garbage":     {options: host.ModuleOptions{Name: "a", Wasm: []byte("\x00asm or not")}, reason: v1alpha1.ModuleReasonLoadFailed},
		"NoManifest":  {options: host.ModuleOptions{Name: "a", Wasm: []byte("\x00asm\x01\x00\x00\x00")}, reason: v1alpha1.ModuleReasonLoadFailed},
		"NotGranted":  {options: host.ModuleOptions{Name: "a", Wasm: prober}, reason: v1alpha1.ModuleReasonNotGranted},
		"NoReference": {options: host.ModuleOptions{Name: "a", Reference: "NOT A REFERENCE"}, reason: v1alpha1.ModuleReasonInvalidReference},
		"NoRegistry":  {options: host.ModuleOptions{Name: "a", Reference: "127.0.0.1:1/m:1"}, reason: v1alpha1.ModuleReasonRegistryUnavailable},
		"NoArtifact":  {options: host.ModuleOptions{Name: "a", Reference: r.registry.Ref("modules/nobody:1")}, reason: v1alpha1.ModuleReasonNotFound},
	} {
		t.Run("LoadModule "+name, func(t *testing.T) {
			m, err := l.host.LoadModule(t.Context(), c.options)
			require.Nil(t, m)
			require.ErrorContains(t, err, c.want)
			var typed *host.ModuleError
			require.Equal(t, c.reason != "", errors.As(err, &typed), "%v", err)
			if typed != nil {
				require.Equal(t, c.reason, typed.Reason)
				require.NotEmpty(t, typed.Message)
			}
		})
	}
	// What failed has not taken the name.
	_, err := l.host.LoadModule(t.Context(), host.ModuleOptions{Name: "a", Wasm: prober, Grant: everything()})
	require.NoError(t, err)
	_, err = l.host.LoadModule(t.Context(), host.ModuleOptions{Name: "a", Wasm: prober, Grant: everything()})
	require.ErrorContains(t, err, "another module named a")
	l.run(t) // which ends its workers
}

// TestLibrary runs a tree with all that a program can put into one: a module out of bytes,
// one that an admin installs, and applications of the catalogue, at home and on a remote.
func TestLibrary(t *testing.T) {
	r := needRig(t)
	l := r.library(t)
	home := l.foreign.namespace
	r.empower(t, home)
	r.publishChart(t, "library", "library-plain", map[string]string{
		"values.yaml":      "text: first\n",
		"templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {text: {{ .Values.text }}}\n",
	})
	bytes, err := l.host.LoadModule(t.Context(), host.ModuleOptions{Name: "bytes", Wasm: r.wasm["prober"], Grant: everything()})
	require.NoError(t, err)
	require.NoError(t, l.host.UseObjects())
	require.NoError(t, host.Manage(l.host, host.Kind[*garden]{
		Name: "library.example.com/garden",
		Remotes: func(g *garden) []v1alpha1.Remote {
			return []v1alpha1.Remote{{Name: "field", Owned: true, KubeconfigSecret: &v1alpha1.SecretKeyReference{Name: g.Name + "-kubeconfig"}}}
		},
		Tree: func(pass *host.Pass, g *garden) (provisioner.Provisioner, error) {
			node := func(release string) application.Node {
				return application.Node{Version: "1.0.0", Release: release, Namespace: g.Namespace, CreateNamespace: true}
			}
			return concurrent.New("all", concurrent.Options{},
				pass.Module("bytes", bytes, plants(g.Namespace, "bytes")),
				pass.Module("object", l.host.ModuleObject("library-object"), plants(g.Namespace, "object")),
				pass.ApplicationObject("near", "library-plain", node("near")),
				pass.On("field", pass.ApplicationObject("far", "library-plain", node("far"))),
			), nil
		},
	}))
	l.run(t)

	g := &garden{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "eden"}}
	object := l.owner(t, g.Name, "{}")
	key := client.ObjectKeyFromObject(object)
	l.awaitGarden(t, key, "False/UserActionRequired", "object: The node names a Module that does not exist")
	r.module(t, "library-object", strings.ReplaceAll(probesSpec, "SECRETS", ""))
	l.awaitGarden(t, key, "False/Provisioning", "The remote cluster's kubeconfig is not there yet.")
	r.secret(t, home, g.Name+"-kubeconfig", "value", r.workload.Kubeconfig)
	l.awaitGarden(t, key, "True/Provisioned", "")
	require.Equal(t, "bytes", text(t, r.admin, home, "bytes", "by"))
	require.Equal(t, "object", text(t, r.admin, home, "object", "by"))
	require.Equal(t, "first", text(t, r.admin, home, "near", "text"))
	require.Equal(t, "first", text(t, r.workloadAdmin, home, "far", "text"))
	require.Empty(t, text(t, r.admin, home, "far", "text"), "what is on a remote is not at home")

	entry := &v1alpha1.Application{}
	require.NoError(t, r.admin.Get(t.Context(), client.ObjectKey{Name: "library-plain"}, entry))
	decode(t, `{"text": "second"}`, &entry.Spec.Versions[0].Values)
	require.NoError(t, r.admin.Update(t.Context(), entry))
	eventually(t, "what the catalogue says", func() (bool, string) {
		near, far := text(t, r.admin, home, "near", "text"), text(t, r.workloadAdmin, home, "far", "text")
		return near == "second" && far == "second", near + " " + far
	})
	l.awaitGarden(t, key, "True/Provisioned", "")

	require.NoError(t, r.admin.Delete(t.Context(), object))
	eventually(t, "the end of the garden", func() (bool, string) {
		err := r.admin.Get(t.Context(), key, object)
		if apierrors.IsNotFound(err) {
			return true, ""
		}
		require.NoError(t, err)
		return false, fmt.Sprint(object.Object["status"])
	})
	require.Empty(t, text(t, r.admin, home, "near", "text"))
	require.Empty(t, text(t, r.workloadAdmin, home, "far", "text"))
	left := &corev1.SecretList{}
	require.NoError(t, r.admin.List(t.Context(), left, client.InNamespace(l.namespace), client.HasLabels{"caisson.dev/owner-uid"}))
	require.Empty(t, names(left), "neither record nor inventory nor registration")
}

// TestLibraryWithoutObjects: a program that has forgotten UseObjects is told so, once for
// each leaf, and what it made itself works. Its objects can be deleted.
func TestLibraryWithoutObjects(t *testing.T) {
	r := needRig(t)
	l := r.library(t)
	r.empower(t, l.foreign.namespace)
	bytes, err := l.host.LoadModule(t.Context(), host.ModuleOptions{Name: "bytes", Wasm: r.wasm["prober"], Grant: everything()})
	require.NoError(t, err)
	require.NoError(t, host.Manage(l.host, host.Kind[*garden]{
		Name: "library.example.com/garden",
		Tree: func(pass *host.Pass, g *garden) (provisioner.Provisioner, error) {
			return concurrent.New("all", concurrent.Options{},
				pass.Module("bytes", bytes, plants(g.Namespace, "bytes")),
				pass.Module("object", l.host.ModuleObject("nobody"), nil),
				pass.ApplicationObject("near", "nothing", application.Node{}),
			), nil
		},
	}))
	l.run(t)
	object := l.owner(t, "eden", "{}")
	key := client.ObjectKeyFromObject(object)
	l.awaitGarden(t, key, "False/Retrying", abi.ReasonUnexpected)
	require.Equal(t, "bytes", text(t, r.admin, key.Namespace, "bytes", "by"))
	eventually(t, "the reason in the log", func() (bool, string) {
		log := l.log.String()
		return strings.Contains(log, "see UseObjects"), log
	})
	require.NoError(t, r.admin.Delete(t.Context(), object))
	l.awaitNoOwner(t, key.Name)
}

// text is a key of a ConfigMap, and empty if there is none.
func text(t *testing.T, c client.Client, namespace, name, key string) string {
	t.Helper()
	found := &corev1.ConfigMap{}
	err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, found)
	require.NoError(t, client.IgnoreNotFound(err))
	return found.Data[key]
}

// awaitGarden waits until a garden is Available with a status and reason, and says something.
func (l *library) awaitGarden(t *testing.T, key client.ObjectKey, want, says string) {
	t.Helper()
	eventually(t, "garden "+want+" "+says, func() (bool, string) {
		object := l.object(key.Name)
		require.NoError(t, l.admin.Get(t.Context(), key, object))
		conditions, observed := conditionsOf(t, object)
		c := meta.FindStatusCondition(conditions, "Available")
		if c == nil || observed != object.GetGeneration() {
			return false, "no condition"
		}
		seen := string(c.Status) + "/" + c.Reason
		return seen == want && strings.Contains(c.Message, says), seen + ": " + c.Message
	})
}
