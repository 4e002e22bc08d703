package blueprint

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/internal/testenv"
)

// patience bounds every wait, on a machine that does a lot else.
const patience = 3 * time.Minute

// hammerKinds is how many kinds are mapped at once, and hammerRounds how often each of
// their Blueprints comes and goes.
const (
	hammerKinds  = 3
	hammerRounds = 4
)

// TestHammer creates and deletes Blueprints while their owners come and go. Under -race it
// is about what runs share; and when all Blueprints have gone, nothing of their
// controllers is left, neither goroutines nor finalizers.
func TestHammer(t *testing.T) {
	cluster := testenv.Start(t)
	scheme := k8sruntime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	api, err := cluster.Client(scheme)
	require.NoError(t, err)
	root, err := testenv.ModuleRoot()
	require.NoError(t, err)
	_, err = testenv.ApplyPath(t.Context(), api, filepath.Join(root, "deploy", "crds"))
	require.NoError(t, err)
	for i := range hammerKinds {
		_, err = testenv.Apply(t.Context(), api, hammerCRD(i))
		require.NoError(t, err)
	}
	await(t, "the kinds", func() bool {
		for i := range hammerKinds {
			if api.List(t.Context(), hammerKind(i).objects()) != nil {
				return false
			}
		}
		return api.List(t.Context(), &v1alpha1.BlueprintList{}) == nil && api.List(t.Context(), &v1alpha1.StackList{}) == nil
	})

	mgr, err := ctrl.NewManager(cluster.Config, ctrl.Options{Scheme: scheme, Logger: logr.Discard(), Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0"})
	require.NoError(t, err)
	require.NoError(t, Setup(mgr, logr.Discard()))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
	namespace := testenv.Namespace(t, api, "hammer")
	// One round first, so that what is made once for all is there.
	hammer(t, api, namespace, 0, 1)
	settled := busy(t)

	var all sync.WaitGroup
	for i := range hammerKinds {
		all.Go(func() { hammer(t, api, namespace, i, hammerRounds) })
	}
	all.Wait()
	await(t, "the end of what ran", func() bool { return len(busy(t)) <= len(settled) })
	if left := busy(t); len(left) > len(settled) {
		t.Logf("running:\n%s", strings.Join(left, "\n\n"))
	}
	for i := range hammerKinds {
		owners := hammerKind(i).objects()
		require.NoError(t, api.List(t.Context(), owners))
		require.NotEmpty(t, owners.Items)
		for _, o := range owners.Items {
			require.Empty(t, o.GetFinalizers())
		}
	}
}

// busy returns the stacks of what controllers, caches and queues are made of.
func busy(t *testing.T) []string {
	t.Helper()
	buffer := make([]byte, 16<<20)
	var found []string
	for stack := range strings.SplitSeq(string(buffer[:runtime.Stack(buffer, true)]), "\n\n") {
		for _, part := range []string{"client-go/tools/cache.", "controller-runtime/pkg/", "client-go/util/workqueue.", "controller/blueprint.(*Fleet)"} {
			if strings.Contains(stack, part) {
				found = append(found, stack)
				break
			}
		}
	}
	return found
}

// hammer lets the Blueprint of a kind come and go, with owners before, while and after it
// is there. Each has a Stack then, unless it was deleted.
func hammer(t *testing.T, api client.Client, namespace string, i, rounds int) {
	ctx := t.Context()
	for round := range rounds {
		b := hammerBlueprint(i)
		owner := hammerKind(i).object()
		owner.SetNamespace(namespace)
		owner.SetName(fmt.Sprintf("o-%d-%d", i, rand.IntN(1_000_000)))
		if !noError(t, api.Create(ctx, owner)) || !noError(t, api.Create(ctx, b)) {
			return
		}
		if round%2 == 0 {
			await(t, "the Stack of "+owner.GetName(), func() bool {
				return api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: stackNames(hammerKind(i).gvk.GroupKind(), owner.GetName())[0]}, &v1alpha1.Stack{}) == nil
			})
		}
		gone := owner.DeepCopy()
		gone.SetName(owner.GetName() + "-gone")
		gone.SetUID("")
		gone.SetResourceVersion("")
		if !noError(t, api.Create(ctx, gone)) || !noError(t, api.Delete(ctx, gone)) || !noError(t, api.Delete(ctx, b)) {
			return
		}
		await(t, "the end of "+b.Name, func() bool { return apierrors.IsNotFound(api.Get(ctx, client.ObjectKeyFromObject(b), b)) })
	}
}

func noError(t *testing.T, err error) bool {
	if err != nil {
		t.Errorf("hammer: %v", err)
	}
	return err == nil
}

func await(t *testing.T, what string, look func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for !look() {
		if time.Now().After(deadline) {
			t.Errorf("%s did not come about in %s", what, patience)
			return
		}
		<-ticker.C
	}
}

func hammerKind(i int) *kind {
	name := fmt.Sprintf("Hammer%d", i)
	return &kind{gvk: schema.GroupVersionKind{Group: "hammer.example.com", Version: "v1", Kind: name}, plural: strings.ToLower(name) + "s", namespaced: true}
}

func hammerBlueprint(i int) *v1alpha1.Blueprint {
	k := hammerKind(i)
	return &v1alpha1.Blueprint{
		ObjectMeta: metav1.ObjectMeta{Name: strings.ToLower(k.gvk.Kind)},
		Spec: v1alpha1.BlueprintSpec{
			Resource: v1alpha1.ResourceKind{Group: k.gvk.Group, Kind: k.gvk.Kind}, Root: "leaf",
			Provisioners: []v1alpha1.Node{{Name: "leaf", Module: &v1alpha1.ModuleNode{Ref: "none"}}},
		},
	}
}

// hammerCRD has conditions of each shape in turn.
func hammerCRD(i int) string {
	k := hammerKind(i)
	status := []string{
		`{type: object, properties: {conditions: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [type], items: ` + strings.Replace(item, "type: object,", "type: object, required: [type],", 1) + `}}}`,
		`{type: object, properties: {conditions: {type: array, items: ` + item + `}}}`,
		`{type: object}`,
	}[i%3]
	return fmt.Sprintf(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: %s.%s}, spec: {group: %s, scope: Namespaced,
  names: {kind: %s, plural: %s}, versions: [{name: v1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, properties: {status: %s}}}}]}}`,
		k.plural, k.gvk.Group, k.gvk.Group, k.gvk.Kind, k.plural, status)
}
