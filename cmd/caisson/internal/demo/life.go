package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

const (
	// lifeNamespace is where the Stacks are that show one thing each.
	lifeNamespace = "life"
	// soon is how long one thing may take: much longer than it does, for machines that do
	// other things as well.
	soon = 90 * time.Second
	// lookEvery is how often the demo looks whether something has happened.
	lookEvery = 20 * time.Millisecond
)

// platformKey names the Stack that the demo is about.
func platformKey() types.NamespacedName {
	return types.NamespacedName{Namespace: stackNamespace, Name: stackName}
}

// lifeKey names one of the others.
func lifeKey(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: lifeNamespace, Name: name}
}

// eventually looks until check is content, and returns how long that took. What check says
// otherwise is in the error.
func eventually(ctx context.Context, what string, within time.Duration, check func(context.Context) (bool, string, error)) (time.Duration, error) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var seen string
	for {
		ok, now, err := check(ctx)
		took := time.Since(start)
		if ok && err == nil {
			return took, nil
		}
		if now != "" {
			seen = now
		}
		if err != nil && ctx.Err() == nil {
			return took, fmt.Errorf("wait until %s: %w", what, err)
		}
		select {
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
				return took, fmt.Errorf("%s was not seen within %s; last seen: %s", what, within, seen)
			}
			return took, context.Cause(ctx)
		case <-time.After(lookEvery):
		}
	}
}

// pause waits, unless the demo is interrupted.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// stack reads a Stack.
func (d *demo) stack(ctx context.Context, key types.NamespacedName) (*v1alpha1.Stack, error) {
	stack := &v1alpha1.Stack{}
	if err := d.home.client.Get(ctx, key, stack); err != nil {
		return nil, fmt.Errorf("read stack %s: %w", key, err)
	}
	return stack, nil
}

// patch changes a Stack as a user does, and leaves alone what it does not name.
func (d *demo) patch(ctx context.Context, key types.NamespacedName, change func(*v1alpha1.Stack)) error {
	stack, err := d.stack(ctx, key)
	if err != nil {
		return err
	}
	before := stack.DeepCopy()
	change(stack)
	if err := d.home.client.Patch(ctx, stack, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("change stack %s: %w", key, err)
	}
	return nil
}

// available waits until a Stack is available in its current generation.
func (d *demo) available(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	return eventually(ctx, key.String()+" is available", soon, func(ctx context.Context) (bool, string, error) {
		stack, err := d.stack(ctx, key)
		if err != nil {
			return false, "", err
		}
		return isAvailable(stack), condition(stack), nil
	})
}

func isAvailable(stack *v1alpha1.Stack) bool {
	c := meta.FindStatusCondition(stack.Status.Conditions, v1alpha1.ConditionAvailable)
	return c != nil && c.ObservedGeneration == stack.Generation && c.Status == metav1.ConditionTrue
}

// condition is what the Available condition says to a reader.
func condition(stack *v1alpha1.Stack) string {
	c := meta.FindStatusCondition(stack.Status.Conditions, v1alpha1.ConditionAvailable)
	switch {
	case c == nil:
		return "no condition yet"
	case c.ObservedGeneration != stack.Generation:
		return "nothing about the current spec yet"
	default:
		return c.Reason + ": " + c.Message
	}
}

// node returns the status of a node; its disposition is Waiting if it has none.
func node(stack *v1alpha1.Stack, name string) v1alpha1.NodeStatus {
	for _, n := range stack.Status.Nodes {
		if n.Name == name {
			return n
		}
	}
	return v1alpha1.NodeStatus{Name: name, Disposition: v1alpha1.NodeWaiting}
}

// nodeIs waits until a node has a disposition and a reason, and returns the Stack as it
// is then.
func (d *demo) nodeIs(ctx context.Context, key types.NamespacedName, name, disposition, reason string) (*v1alpha1.Stack, error) {
	var found *v1alpha1.Stack
	_, err := eventually(ctx, fmt.Sprintf("node %s of %s is %s %s", name, key, disposition, reason), soon, func(ctx context.Context) (bool, string, error) {
		stack, err := d.stack(ctx, key)
		if err != nil {
			return false, "", err
		}
		n := node(stack, name)
		found = stack
		return n.Disposition == disposition && n.Reason == reason, n.Disposition + " " + n.Reason + ", " + condition(stack), nil
	})
	return found, err
}

// parked waits until a Stack is parked in its current generation.
func (d *demo) parked(ctx context.Context, key types.NamespacedName) (*v1alpha1.Stack, error) {
	var found *v1alpha1.Stack
	_, err := eventually(ctx, key.String()+" is parked", soon, func(ctx context.Context) (bool, string, error) {
		stack, err := d.stack(ctx, key)
		if err != nil {
			return false, "", err
		}
		found = stack
		p := stack.Status.Parked
		return p != nil && p.Generation == stack.Generation, condition(stack), nil
	})
	return found, err
}

// remove deletes a Stack and waits until it is gone.
func (d *demo) remove(ctx context.Context, keys ...types.NamespacedName) (time.Duration, error) {
	for _, key := range keys {
		stack := &v1alpha1.Stack{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
		if err := d.home.client.Delete(ctx, stack); err != nil {
			return 0, fmt.Errorf("delete stack %s: %w", key, err)
		}
	}
	start := time.Now()
	for _, key := range keys {
		if err := d.gone(ctx, key); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}

// gone waits until a Stack does not exist any more.
func (d *demo) gone(ctx context.Context, key types.NamespacedName) error {
	_, err := eventually(ctx, key.String()+" is gone", soon, func(ctx context.Context) (bool, string, error) {
		stack, err := d.stack(ctx, key)
		if apierrors.IsNotFound(err) {
			return true, "", nil
		}
		if err != nil {
			return false, "", err
		}
		return false, condition(stack), nil
	})
	return err
}

// life applies manifests of the others.
func (d *demo) life(ctx context.Context, files ...string) error {
	paths := make([]string, 0, len(files))
	for _, f := range files {
		paths = append(paths, d.example("life", f))
	}
	return d.home.apply(ctx, d.registry, paths...)
}

// lend puts a kubeconfig of a cluster where a Stack of the namespace finds it.
func (d *demo) lend(ctx context.Context, c *cluster, namespace string) error {
	if err := c.applyText(ctx, workloadAdmin); err != nil {
		return fmt.Errorf("make an identity on the %s cluster: %w", c.name, err)
	}
	kubeconfig, err := c.identity(ctx, adminNamespace, adminAccount)
	if err != nil {
		return err
	}
	return d.home.replace(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: c.name + "-kubeconfig"},
		Data:       map[string][]byte{"value": kubeconfig},
	})
}
