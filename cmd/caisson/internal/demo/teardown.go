package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// holdFinalizer keeps an object from going, as a volume that is still attached would.
const holdFinalizer = "example.com/hold"

// inDefault names what the small Stacks install.
func inDefault(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: name}
}

// teardowns deletes a Stack in each of the modes that the platform itself does not use.
func (d *demo) teardowns(ctx context.Context) error {
	before, err := d.standing(ctx)
	if err != nil {
		return err
	}
	if err := d.life(ctx, "teardown.yaml"); err != nil {
		return err
	}
	for _, name := range []string{"discard", "orphan"} {
		if _, err := d.available(ctx, lifeKey(name)); err != nil {
			return err
		}
	}
	if err := d.discard(ctx); err != nil {
		return err
	}
	if err := d.orphan(ctx); err != nil {
		return err
	}
	after, err := d.standing(ctx)
	if err != nil {
		return err
	}
	if differ := changes(before, after); len(differ) > 0 {
		return fmt.Errorf("something of the two Stacks is left: %s", strings.Join(differ, ", "))
	}
	return nil
}

// discard shows that nobody waits for something that does not go.
func (d *demo) discard(ctx context.Context) error {
	key := inDefault(metricsApplication)
	if err := d.hold(ctx, key, holdFinalizer); err != nil {
		return err
	}
	d.show.sayf("Discard: a Deployment cannot go, because something holds it")
	took, err := d.remove(ctx, lifeKey("discard"))
	if err != nil {
		return err
	}
	held := &appsv1.Deployment{}
	if err := d.workload.client.Get(ctx, key, held); err != nil {
		return fmt.Errorf("the Deployment that is held should still be there: %w", err)
	}
	if held.DeletionTimestamp == nil {
		return errors.New("the Deployment that is held was not even told to go")
	}
	d.show.sayf("the Stack is gone after %.1f s, the Deployment was told to go and is still held: nobody waited", took.Seconds())
	if err := d.hold(ctx, key); err != nil {
		return err
	}
	return d.absent(ctx, key)
}

// orphan shows that what runs is left.
func (d *demo) orphan(ctx context.Context) error {
	key := inDefault(gpuApplication)
	before := &appsv1.Deployment{}
	if err := d.workload.client.Get(ctx, key, before); err != nil {
		return fmt.Errorf("read the Deployment: %w", err)
	}
	took, err := d.remove(ctx, lifeKey("orphan"))
	if err != nil {
		return err
	}
	after := &appsv1.Deployment{}
	if err := d.workload.client.Get(ctx, key, after); err != nil {
		return fmt.Errorf("the Deployment should still be there: %w", err)
	}
	if after.UID != before.UID || after.DeletionTimestamp != nil || after.Status.ReadyReplicas != before.Status.ReadyReplicas {
		return errors.New("the Deployment was touched")
	}
	d.show.sayf("Orphan: the Stack is gone after %.1f s, its Deployment runs on untouched, with Helm's record of the release", took.Seconds())
	err = d.workload.client.DeleteAllOf(ctx, &corev1.Secret{}, client.InNamespace(key.Namespace), client.MatchingLabels{"owner": "helm"})
	return errors.Join(err, d.workload.client.Delete(ctx, after), d.absent(ctx, key))
}

// hold sets the finalizers of a Deployment.
func (d *demo) hold(ctx context.Context, key types.NamespacedName, finalizers ...string) error {
	object := &appsv1.Deployment{}
	if err := d.workload.client.Get(ctx, key, object); err != nil {
		return fmt.Errorf("read the Deployment: %w", err)
	}
	before := object.DeepCopy()
	object.Finalizers = finalizers
	if err := d.workload.client.Patch(ctx, object, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("change the Deployment: %w", err)
	}
	return nil
}

// absent waits until a Deployment is gone.
func (d *demo) absent(ctx context.Context, key types.NamespacedName) error {
	_, err := eventually(ctx, "the Deployment "+key.String()+" is gone", soon, func(ctx context.Context) (bool, string, error) {
		err := d.workload.client.Get(ctx, key, &appsv1.Deployment{})
		return apierrors.IsNotFound(err), "", client.IgnoreNotFound(err)
	})
	return err
}
