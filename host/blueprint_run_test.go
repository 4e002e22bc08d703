package host_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/internal/testenv"
	"github.com/caisson-dev/caisson/host/registry"
)

func messageOf(b *v1alpha1.Blueprint, condition string) string {
	if c := meta.FindStatusCondition(b.Status.Conditions, condition); c != nil {
		return c.Message
	}
	return ""
}

// watches counts the watches of the kind that the API server has open.
func (f *foreign) watches(t *testing.T) int {
	t.Helper()
	api, err := kubernetes.NewForConfig(f.home.Config)
	require.NoError(t, err)
	raw, err := api.RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	require.NoError(t, err)
	count := 0
	for line := range strings.Lines(string(raw)) {
		labels, value, ok := strings.Cut(line, "} ")
		if !ok || !strings.HasPrefix(labels, "apiserver_longrunning_requests{") ||
			!strings.Contains(labels, `group="`+f.gvk.Group+`"`) || !strings.Contains(labels, `verb="WATCH"`) {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSpace(value))
		require.NoError(t, err)
		count += n
	}
	return count
}

// watchesOfOthers are those beside the operator's own one: the garbage collector has one,
// some time after the CRD has come.
func (f *foreign) watchesOfOthers(t *testing.T) int {
	t.Helper()
	f.awaitWatches(t, 2, "the watches of the operator and of the garbage collector")
	return 1
}

func (f *foreign) awaitWatches(t *testing.T, ours int, reason string) {
	t.Helper()
	eventually(t, reason, func() (bool, string) {
		n := f.watches(t)
		return n == ours, fmt.Sprintf("%d watches", n)
	})
}

// TestBlueprintDeleted: a typing error tears nothing down. The controller stops, the API
// server serves no watch of it any more, the owners are let go, and the Stacks stay until
// their owners go. A Blueprint that comes anew takes them over.
func TestBlueprintDeleted(t *testing.T) {
	r := needRig(t)
	r.hostileModule(t, "bp-deleted")
	f := r.foreign(t, "Kept", "Namespaced", keyedStatus, "{status: {}}")
	tree := changed(t, guestTree, "MODULE", "bp-deleted")
	b := f.blueprint(t, "kept", tree)
	r.awaitBlueprint(t, "kept", "Ready", "True/Running")
	for _, name := range []string{"a", "b"} {
		f.owner(t, name, "behaviour: ok")
		f.awaitOwner(t, name, "Available", available)
	}
	uid := r.get(t, f.stackOf("a")).UID
	others := f.watchesOfOthers(t)

	require.NoError(t, r.admin.Delete(t.Context(), b))
	eventually(t, "the end of the Blueprint", func() (bool, string) {
		err := r.admin.Get(t.Context(), client.ObjectKeyFromObject(b), b)
		return apierrors.IsNotFound(err), messageOf(b, "Ready")
	})
	owner := f.read(t, "a")
	require.Empty(t, owner.GetFinalizers())
	require.Empty(t, ownerConditions(t, owner), "nobody keeps them up to date")
	stack := r.get(t, f.stackOf("a"))
	require.Equal(t, uid, stack.UID)
	require.Nil(t, stack.DeletionTimestamp)
	f.awaitWatches(t, others, "the end of the operator's watch")

	// An owner that goes takes its Stack with it, and what that has made.
	require.NoError(t, r.admin.Delete(t.Context(), owner))
	r.awaitGone(t, f.stackOf("a"))
	r.requireNothingKept(t, string(uid))

	kept := r.get(t, f.stackOf("b")).UID
	f.blueprint(t, "kept-again", tree)
	f.awaitOwner(t, "b", "Available", available)
	stack = r.get(t, f.stackOf("b"))
	require.Equal(t, kept, stack.UID)
	require.Equal(t, "kept-again", stack.Labels[v1alpha1.BlueprintLabel])
}

// TestBlueprintKindComesAndGoes: the kind may be installed after the Blueprint, and be
// permitted after that; when its CRD goes, its objects and their Stacks go in order.
func TestBlueprintKindComesAndGoes(t *testing.T) {
	r := needRig(t)
	r.hostileModule(t, "bp-comes")
	f := &foreign{rig: r, gvk: groupKindOf("Comes"), plural: "comess", scope: "Namespaced", status: keyedStatus, sub: "{status: {}}"}
	f.namespace = r.tenant(t, "bp-comes")
	f.blueprint(t, "comes", changed(t, guestTree, "MODULE", "bp-comes"))
	b := r.awaitBlueprint(t, "comes", v1alpha1.ConditionAccepted, "False/KindNotInstalled")
	require.Equal(t, "The API serves no Comes.comes.example.com that can be watched; install its CRD.", messageOf(b, "Ready"))

	f.install(t)
	b = r.awaitBlueprint(t, "comes", v1alpha1.ConditionAccepted, "False/Forbidden")
	require.Equal(t, "The operator may not list comess.comes.example.com, watch comess.comes.example.com, patch comess.comes.example.com, "+
		"patch comess/status.comes.example.com. Create a ClusterRole with these rights and the label rbac.caisson.dev/aggregate-to-operator: \"true\".", messageOf(b, "Ready"))
	f.permit(t)
	r.awaitBlueprint(t, "comes", "Ready", "True/Running")
	f.owner(t, "web", "behaviour: ok")
	f.awaitOwner(t, "web", "Available", available)
	stack := r.get(t, f.stackOf("web"))

	f.uninstall(t)
	r.awaitBlueprint(t, "comes", v1alpha1.ConditionAccepted, "False/KindNotInstalled")
	require.True(t, apierrors.IsNotFound(r.admin.Get(t.Context(), f.stackOf("web"), &v1alpha1.Stack{})))
	r.requireNothingKept(t, string(stack.UID))
	f.awaitWatches(t, 0, "the end of all watches")
	r.alive(t)
}

// TestBlueprintRivals: of two Blueprints for a kind the older one is in force, until it
// goes.
func TestBlueprintRivals(t *testing.T) {
	r := needRig(t)
	r.hostileModule(t, "bp-rivals")
	f := r.foreign(t, "Rival", "Namespaced", keyedStatus, "{status: {}}")
	tree := changed(t, guestTree, "MODULE", "bp-rivals")
	older := f.blueprint(t, "rival-a", tree)
	f.blueprint(t, "rival-b", changed(t, tree, "root: leaf", "conditionPrefix: B\nroot: leaf"))
	b := r.awaitBlueprint(t, "rival-b", v1alpha1.ConditionAccepted, "False/Conflict")
	require.Equal(t, "The Blueprint rival-a, which is older, maps the same kind.", messageOf(b, "Ready"))
	f.owner(t, "web", "behaviour: ok")
	f.awaitOwner(t, "web", "Available", available)
	uid := r.get(t, f.stackOf("web")).UID

	require.NoError(t, r.admin.Delete(t.Context(), older))
	r.awaitBlueprint(t, "rival-b", "Ready", "True/Running")
	said := ownerConditions(t, f.awaitOwner(t, "web", "BAvailable", available))
	require.NotContains(t, said, "Available")
	require.Equal(t, uid, r.get(t, f.stackOf("web")).UID)
}

// TestBlueprintInvalid: what is wrong is said where it is: on the Blueprint if that is
// wrong, on the owner if it makes no Stack. A change of the tree reaches every Stack.
func TestBlueprintInvalid(t *testing.T) {
	r := needRig(t)
	r.hostileModule(t, "bp-invalid")
	f := r.foreign(t, "Odd", "Namespaced", keyedStatus, "{status: {}}")
	b := f.blueprint(t, "odd", changed(t, guestTree, "MODULE", "bp-invalid"))
	for _, name := range []string{"a", "b", "c"} {
		f.owner(t, name, "behaviour: ok")
	}
	f.owner(t, "empty", "{}")
	said := ownerConditions(t, f.awaitOwner(t, "empty", "Stalled", "True/Invalid"))
	require.Equal(t, "The Blueprint odd makes no Stack of it: parameters.behaviour: no such key: behaviour", said["Available"].Message)
	f.awaitOwner(t, "a", "Available", available)

	edit := func(change func(*v1alpha1.Blueprint)) {
		eventually(t, "the edit", func() (bool, string) {
			require.NoError(t, r.admin.Get(t.Context(), client.ObjectKeyFromObject(b), b))
			change(b)
			err := r.admin.Update(t.Context(), b)
			if apierrors.IsConflict(err) {
				return false, err.Error()
			}
			require.NoError(t, err)
			return true, ""
		})
	}
	edit(func(b *v1alpha1.Blueprint) { b.Spec.Suspend = "resource." })
	wrong := r.awaitBlueprint(t, "odd", v1alpha1.ConditionAccepted, "False/Invalid")
	require.Contains(t, messageOf(wrong, v1alpha1.ConditionAccepted), "suspend: at character")
	f.owner(t, "late", "behaviour: ok")
	said = ownerConditions(t, f.awaitOwner(t, "late", "Stalled", "True/Invalid"))
	require.Contains(t, said["Ready"].Message, "The Blueprint odd is not valid: suspend: at character")
	require.Equal(t, metav1.ConditionTrue, ownerConditions(t, f.read(t, "a"))["Available"].Status, "what runs is left alone")
	require.NoError(t, r.admin.Delete(t.Context(), f.object("c")), "and can be deleted")
	f.awaitNoOwner(t, "c")

	edit(func(b *v1alpha1.Blueprint) {
		b.Spec.Suspend = ""
		b.Spec.Provisioners[0].Name, b.Spec.Root = "renamed", "renamed"
	})
	for _, name := range []string{"a", "b", "late"} {
		r.awaitNode(t, f.stackOf(name), "renamed", "OK", "")
		f.awaitOwner(t, name, "Available", available)
	}
}

// TestBlueprintTaken: a Stack of somebody else keeps its name.
func TestBlueprintTaken(t *testing.T) {
	r := needRig(t)
	r.hostileModule(t, "bp-taken")
	f := r.foreign(t, "Taken", "Namespaced", keyedStatus, "{status: {}}")
	r.stack(t, f.namespace, "taken-web", hostileStack("bp-taken", "ok"))
	f.blueprint(t, "taken", changed(t, guestTree, "MODULE", "bp-taken"))
	owner := f.owner(t, "web", "behaviour: ok")
	f.awaitOwner(t, "web", "Available", available)
	stacks := &v1alpha1.StackList{}
	require.NoError(t, r.admin.List(t.Context(), stacks, client.InNamespace(f.namespace), client.MatchingLabels{v1alpha1.BlueprintLabel: "taken"}))
	require.Len(t, stacks.Items, 1)
	require.Regexp(t, "^taken-web-[0-9a-f]{10}$", stacks.Items[0].Name)
	require.True(t, metav1.IsControlledBy(&stacks.Items[0], owner))
	require.Empty(t, r.get(t, f.stackOf("web")).OwnerReferences)
}

// TestBlueprintExample does what the README of the example says.
func TestBlueprintExample(t *testing.T) {
	r := needRig(t)
	root, err := testenv.ModuleRoot()
	require.NoError(t, err)
	dir := filepath.Join(root, "examples", "blueprint")
	archive, chart, err := pack(filepath.Join(dir, "charts", "workspace"))
	require.NoError(t, err)
	push, err := registry.New(registry.Options{})
	require.NoError(t, err)
	ref, err := registry.ParseReference(r.registry.Ref("charts/" + chart.Name + ":" + chart.Version))
	require.NoError(t, err)
	_, err = push.PushChart(t.Context(), ref, archive, chart)
	require.NoError(t, err)

	f := &foreign{rig: r, gvk: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Workspace"}, plural: "workspaces", scope: "Namespaced", namespace: "workspaces"}
	t.Cleanup(func() { f.uninstall(t) })
	for _, file := range []string{"crd", "role", "tenant", "catalogue", "blueprint"} {
		raw, err := os.ReadFile(filepath.Join(dir, file+".yaml"))
		require.NoError(t, err)
		r.apply(t, string(raw))
	}
	b := r.awaitBlueprint(t, "workspaces", "Ready", "True/Running")
	t.Cleanup(func() { _ = r.admin.Delete(context.WithoutCancel(t.Context()), b) })
	raw, err := os.ReadFile(filepath.Join(dir, "workspace.yaml"))
	require.NoError(t, err)
	r.apply(t, string(raw))
	f.awaitOwner(t, "docs", "Available", available)
	replicas := func() int32 {
		deployment := &appsv1.Deployment{}
		require.NoError(t, r.admin.Get(t.Context(), client.ObjectKey{Namespace: "workspaces", Name: "docs"}, deployment))
		return *deployment.Spec.Replicas
	}
	require.Equal(t, int32(2), replicas())
	f.patchOwner(t, "docs", `{"spec":{"replicas":3}}`)
	eventually(t, "the upgrade", func() (bool, string) { n := replicas(); return n == 3, fmt.Sprint(n) })
	f.awaitOwner(t, "docs", "Available", available)
	require.NoError(t, r.admin.Delete(t.Context(), f.object("docs")))
	f.awaitNoOwner(t, "docs")
	require.True(t, apierrors.IsNotFound(r.admin.Get(t.Context(), f.stackOf("docs"), &v1alpha1.Stack{})))
}
