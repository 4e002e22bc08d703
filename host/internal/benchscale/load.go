package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

const (
	// perNamespace is how many Stacks a tenant has.
	perNamespace = 20
	// creators is how many objects are created at once.
	creators = 8
	// account is the ServiceAccount of each tenant.
	account = "builder"
	// leaves is how many of the ten nodes are leaves: the others are a serial, a
	// concurrent and a conditional.
	leaves = 7
)

// load is what is put on a control plane: so many Stacks of ten nodes, with so many
// applications among their leaves. The other leaves are modules.
type load struct{ stacks, applications int }

func namespaceOf(i int) string { return fmt.Sprintf("scale-%04d", i/perNamespace) }

func keyOf(i int) client.ObjectKey {
	return client.ObjectKey{Namespace: namespaceOf(i), Name: fmt.Sprintf("stack-%05d", i)}
}

// stack is one of them. Which modules it uses depends on its number, so that all
// modules are used equally often.
func (l load) stack(i int) *v1alpha1.Stack {
	key := keyOf(i)
	leaf := func(k int) v1alpha1.Node {
		node := v1alpha1.Node{Name: fmt.Sprintf("leaf-%d", k)}
		if k >= leaves-l.applications {
			node.Application = &v1alpha1.ApplicationNode{
				Ref: chartName, Version: chartVersion, Namespace: key.Namespace,
				Values: raw(`{"revision":"r${parameters.revision}"}`),
			}
			return node
		}
		node.Module = &v1alpha1.ModuleNode{
			Ref:    moduleName((i*leaves + k) % moduleCount),
			Config: raw(fmt.Sprintf(`{"node":%d,"revision":"${parameters.revision}"}`, k)),
		}
		return node
	}
	nodes := []v1alpha1.Node{
		{Name: "all", Serial: &v1alpha1.SerialNode{Children: []string{"leaf-0", "side-by-side", "sometimes", "leaf-6"}}},
		{Name: "side-by-side", Concurrent: &v1alpha1.ConcurrentNode{Children: []string{"leaf-1", "leaf-2", "leaf-3", "leaf-4"}}},
		{Name: "sometimes", Conditional: &v1alpha1.ConditionalNode{When: "parameters.revision >= 0", Child: "leaf-5"}},
	}
	for k := range leaves {
		nodes = append(nodes, leaf(k))
	}
	return &v1alpha1.Stack{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Spec: v1alpha1.StackSpec{
			ServiceAccountName: account, Root: "all", Provisioners: nodes,
			Parameters: map[string]apiextensionsv1.JSON{"revision": *raw("0")},
		},
	}
}

func raw(text string) *apiextensionsv1.JSON { return &apiextensionsv1.JSON{Raw: json.RawMessage(text)} }

// create creates the tenants and then the Stacks.
func (l load) create(ctx context.Context, admin client.Client) error {
	err := each((l.stacks+perNamespace-1)/perNamespace, func(i int) error {
		return createTenant(ctx, admin, namespaceOf(i*perNamespace))
	})
	if err != nil {
		return err
	}
	return each(l.stacks, func(i int) error {
		if err := admin.Create(ctx, l.stack(i)); err != nil {
			return fmt.Errorf("create stack %d: %w", i, err)
		}
		return nil
	})
}

// each runs do for every number below n, some at a time, and returns what went wrong.
func each(n int, do func(i int) error) error {
	var next atomic.Int64
	failed := make([]error, creators)
	var all sync.WaitGroup
	for worker := range creators {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && failed[worker] == nil; i = int(next.Add(1)) - 1 {
				failed[worker] = do(i)
			}
		})
	}
	all.Wait()
	return errors.Join(failed...)
}

// createTenant makes a namespace with a ServiceAccount that may do there what Helm needs.
func createTenant(ctx context.Context, admin client.Client, namespace string) error {
	in := metav1.ObjectMeta{Namespace: namespace, Name: account}
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&corev1.ServiceAccount{ObjectMeta: in},
		&rbacv1.Role{ObjectMeta: in, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets", "configmaps"}, Verbs: []string{"*"}}}},
		&rbacv1.RoleBinding{
			ObjectMeta: in, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}},
		},
	} {
		if err := admin.Create(ctx, o); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create %T of tenant %s: %w", o, namespace, err)
		}
	}
	return nil
}

// available counts the Stacks that are.
func available(ctx context.Context, admin client.Client) (int, error) {
	count, next := 0, ""
	for {
		page := &v1alpha1.StackList{}
		if err := admin.List(ctx, page, client.Limit(500), client.Continue(next)); err != nil {
			return 0, fmt.Errorf("list stacks: %w", err)
		}
		for i := range page.Items {
			if isAvailable(&page.Items[i]) {
				count++
			}
		}
		if next = page.Continue; next == "" {
			return count, nil
		}
	}
}

func isAvailable(stack *v1alpha1.Stack) bool {
	return stack.Status.ObservedGeneration == stack.Generation &&
		meta.IsStatusConditionTrue(stack.Status.Conditions, v1alpha1.ConditionAvailable)
}

// awaitAvailable waits until all Stacks are, and says every now and then how many are.
func (l load) awaitAvailable(ctx context.Context, admin client.Client, say func(format string, a ...any)) error {
	began := time.Now()
	// Looking costs the API server something too, the more the more there is to look at.
	ticker := time.NewTicker(500*time.Millisecond + time.Duration(l.stacks)*2*time.Millisecond)
	defer ticker.Stop()
	var said time.Time
	for {
		count, err := available(ctx, admin)
		if err != nil {
			return err
		}
		if count >= l.stacks {
			return nil
		}
		if time.Since(said) > 10*time.Second {
			say("%6.1f s  %d of %d Stacks are Available", time.Since(began).Seconds(), count, l.stacks)
			said = time.Now()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d Stacks became Available: %w", count, l.stacks, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}
