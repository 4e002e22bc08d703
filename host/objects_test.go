package host_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/internal/testenv"
	"github.com/caisson-dev/caisson/host/registry"
)

// apply applies a manifest with the registry in place of its placeholder.
func (r *rig) apply(t *testing.T, manifest string) {
	t.Helper()
	_, err := testenv.Apply(t.Context(), r.admin, strings.ReplaceAll(manifest, placeholder, r.registry.Host))
	require.NoError(t, err)
}

// applyExample applies a file of the example.
func (r *rig) applyExample(t *testing.T, name string) {
	t.Helper()
	raw, err := os.ReadFile(examplePath(name))
	require.NoError(t, err)
	r.apply(t, string(raw))
}

// tenant makes a namespace with a ServiceAccount that may read Secrets there, and nothing
// else, and returns its name.
func (r *rig) tenant(t *testing.T, prefix string) string {
	t.Helper()
	namespace := testenv.Namespace(t, r.admin, prefix)
	in := metav1.ObjectMeta{Namespace: namespace, Name: "builder"}
	for _, o := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: in},
		&rbacv1.Role{ObjectMeta: in, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}}},
		&rbacv1.RoleBinding{
			ObjectMeta: in, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "builder"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "builder"}},
		},
	} {
		require.NoError(t, r.admin.Create(t.Context(), o))
	}
	return namespace
}

// secret creates or replaces a Secret.
func (r *rig) secret(t *testing.T, namespace, name, key string, value []byte) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{key: value}}
	err := r.admin.Create(t.Context(), secret)
	if apierrors.IsAlreadyExists(err) {
		err = r.admin.Update(t.Context(), secret)
	}
	require.NoError(t, err)
}

// module creates a Module out of YAML for its spec, and removes it with the test.
func (r *rig) module(t *testing.T, name, spec string) {
	t.Helper()
	object := &v1alpha1.Module{ObjectMeta: metav1.ObjectMeta{Name: name}}
	decode(t, strings.ReplaceAll(spec, placeholder, r.registry.Host), &object.Spec)
	r.create(t, object)
}

// stack creates a Stack out of YAML for its spec, and removes it with the test, before
// the modules that it was created after.
func (r *rig) stack(t *testing.T, namespace, name, spec string) client.ObjectKey {
	t.Helper()
	object := &v1alpha1.Stack{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	decode(t, spec, &object.Spec)
	r.create(t, object)
	return client.ObjectKeyFromObject(object)
}

func (r *rig) create(t *testing.T, object client.Object) {
	t.Helper()
	require.NoError(t, r.admin.Create(t.Context(), object))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		require.NoError(t, client.IgnoreNotFound(r.admin.Delete(ctx, object)))
		for ctx.Err() == nil {
			if err := r.admin.Get(ctx, client.ObjectKeyFromObject(object), object); apierrors.IsNotFound(err) {
				return
			}
			<-tick(ctx)
		}
		said := ""
		if stack, ok := object.(*v1alpha1.Stack); ok {
			for _, n := range stack.Status.Nodes {
				said += fmt.Sprintf("; %s is %s %s: %s", n.Path, n.Disposition, n.Reason, n.Message)
			}
		}
		t.Errorf("%s does not go%s", object.GetName(), said)
	})
}

func decode(t *testing.T, text string, into any) {
	t.Helper()
	require.NoError(t, yaml.NewYAMLOrJSONDecoder(bytes.NewBufferString(text), len(text)+1).Decode(into))
}

// edit changes the spec of a Stack, again after a conflict.
func (r *rig) edit(t *testing.T, key client.ObjectKey, spec string) {
	t.Helper()
	eventually(t, "the edit", func() (bool, string) {
		stack := r.get(t, key)
		stack.Spec = v1alpha1.StackSpec{}
		decode(t, spec, &stack.Spec)
		err := r.admin.Update(t.Context(), stack)
		if apierrors.IsConflict(err) {
			return false, err.Error()
		}
		require.NoError(t, err)
		return true, ""
	})
}

func (r *rig) get(t *testing.T, key client.ObjectKey) *v1alpha1.Stack {
	t.Helper()
	stack := &v1alpha1.Stack{}
	require.NoError(t, r.admin.Get(t.Context(), key, stack))
	return stack
}

// find is get for a Stack that may still have to be made: an empty one then.
func (r *rig) find(t *testing.T, key client.ObjectKey) *v1alpha1.Stack {
	t.Helper()
	stack := &v1alpha1.Stack{}
	require.NoError(t, client.IgnoreNotFound(r.admin.Get(t.Context(), key, stack)))
	return stack
}

// awaitStack waits until the Stack is Available with a status and reason, as "True/…".
func (r *rig) awaitStack(t *testing.T, key client.ObjectKey, want string) *v1alpha1.Stack {
	t.Helper()
	var stack *v1alpha1.Stack
	eventually(t, "Stack "+key.String()+" "+want, func() (bool, string) {
		r.alive(t)
		stack = r.find(t, key)
		c := meta.FindStatusCondition(stack.Status.Conditions, v1alpha1.ConditionAvailable)
		if c == nil {
			return false, "no condition"
		}
		seen := string(c.Status) + "/" + c.Reason
		return seen == want && stack.Status.ObservedGeneration == stack.Generation, seen + ": " + c.Message
	})
	return stack
}

// awaitNode waits until a node has a disposition and a reason.
func (r *rig) awaitNode(t *testing.T, key client.ObjectKey, node, disposition, reason string) {
	t.Helper()
	eventually(t, node+" of "+key.String()+" "+disposition+" "+reason, func() (bool, string) {
		r.alive(t)
		for _, n := range r.find(t, key).Status.Nodes {
			if n.Name == node {
				return n.Disposition == disposition && n.Reason == reason, n.Disposition + " " + n.Reason
			}
		}
		return false, "no such node"
	})
}

// awaitModule waits until a Module's Ready has a status and reason, and returns the
// message.
func (r *rig) awaitModule(t *testing.T, name, want string) string {
	t.Helper()
	message := ""
	eventually(t, "Module "+name+" "+want, func() (bool, string) {
		r.alive(t)
		object := &v1alpha1.Module{}
		require.NoError(t, r.admin.Get(t.Context(), client.ObjectKey{Name: name}, object))
		c := meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ModuleReady)
		if c == nil {
			return false, "no condition"
		}
		message = c.Message
		seen := string(c.Status) + "/" + c.Reason
		return seen == want, seen + ": " + c.Message
	})
	return message
}

// empower lets the builder of a namespace do everything there.
func (r *rig) empower(t *testing.T, namespace string) {
	t.Helper()
	role := &rbacv1.Role{}
	require.NoError(t, r.admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "builder"}, role))
	role.Rules = []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}
	require.NoError(t, r.admin.Update(t.Context(), role))
}

// publishChart pushes version 1.0.0 of a chart made of files, and makes a catalogue entry
// of its name.
func (r *rig) publishChart(t *testing.T, repo, name string, files map[string]string) {
	t.Helper()
	push, err := registry.New(registry.Options{})
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), name)
	files["Chart.yaml"] = "apiVersion: v2\nname: " + name + "\nversion: 1.0.0\n"
	for path, content := range files {
		path = filepath.Join(dir, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	archive, meta, err := pack(dir)
	require.NoError(t, err)
	ref, err := registry.ParseReference(r.registry.Ref(repo + "/" + name + ":1.0.0"))
	require.NoError(t, err)
	_, err = push.PushChart(t.Context(), ref, archive, meta)
	require.NoError(t, err)
	r.catalogueEntry(t, name, "oci://"+r.registry.Ref(repo), name)
}

// catalogueEntry creates an entry with one version.
func (r *rig) catalogueEntry(t *testing.T, name, repo, chart string) {
	t.Helper()
	r.create(t, &v1alpha1.Application{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.ApplicationSpec{Versions: []v1alpha1.ApplicationVersion{{Version: "1.0.0", Repo: repo, Chart: chart}}},
	})
}

// applicationStack is one application of the catalogue, in the Stack's own namespace, with
// values out of a Secret.
func applicationStack(namespace, ref string) string {
	return `
serviceAccountName: builder
root: web
provisioners:
  - {name: web, application: {ref: ` + ref + `, version: 1.0.0, namespace: ` + namespace + `, valuesFrom: [{kind: Secret, name: values}]}}
`
}
