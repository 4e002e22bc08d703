package demo

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// suspendedFor is how long the demo looks at a Stack that is suspended.
const suspendedFor = 3 * time.Second

// suspend changes a Stack while it is suspended, and deletes another one that is.
func (d *demo) suspend(ctx context.Context) error {
	d.show.sayf("the Stack is suspended, and then changed: four pods of metrics-server")
	if err := d.suspended(ctx, true); err != nil {
		return err
	}
	_, err := eventually(ctx, "the Stack says that it is suspended", soon, func(ctx context.Context) (bool, string, error) {
		stack, err := d.stack(ctx, platformKey())
		if err != nil {
			return false, "", err
		}
		said := condition(stack)
		return strings.HasPrefix(said, v1alpha1.ReasonSuspended+": "), said, nil
	})
	if err != nil {
		return err
	}
	before, err := d.counters(ctx)
	if err != nil {
		return err
	}
	standing, err := d.standing(ctx)
	if err != nil {
		return err
	}
	if err := d.scaleMetrics(ctx, 4); err != nil {
		return err
	}
	if err := pause(ctx, suspendedFor); err != nil {
		return err
	}
	after, err := d.counters(ctx)
	if err != nil {
		return err
	}
	now, err := d.standing(ctx)
	if err != nil {
		return err
	}
	stack, err := d.stack(ctx, platformKey())
	if err != nil {
		return err
	}
	did := after.minus(before)
	d.show.sayf("in %s: %.0f passes, %.0f module calls; it says: %s", suspendedFor, did.passes, did.calls, condition(stack))
	differ := changes(standing, now)
	if did.passes > 0 || did.calls > 0 || len(differ) != 1 || differ[0] != "~ home: Stack/"+stackNamespace+"/"+stackName {
		return fmt.Errorf("a suspended Stack was not left alone: %v", differ)
	}
	if err := d.suspended(ctx, false); err != nil {
		return err
	}
	took, err := d.workloadIs(ctx, metricsApplication+" 4/4")
	if err != nil {
		return err
	}
	if _, err := d.available(ctx, platformKey()); err != nil {
		return err
	}
	d.show.sayf("resumed: the change is carried out after %.1f s", took.Seconds())
	return d.deleteSuspended(ctx)
}

// suspended suspends the Stack or resumes it.
func (d *demo) suspended(ctx context.Context, yes bool) error {
	return d.patch(ctx, platformKey(), func(s *v1alpha1.Stack) { s.Spec.Suspend = yes })
}

// deleteSuspended shows that a Stack that is suspended can be deleted all the same.
func (d *demo) deleteSuspended(ctx context.Context) error {
	before, err := d.standing(ctx)
	if err != nil {
		return err
	}
	key := lifeKey("neighbour")
	if err := d.life(ctx, "neighbour.yaml"); err != nil {
		return err
	}
	if _, err := d.available(ctx, key); err != nil {
		return err
	}
	if err := d.patch(ctx, key, func(s *v1alpha1.Stack) { s.Spec.Suspend = true }); err != nil {
		return err
	}
	took, err := d.remove(ctx, key)
	if err != nil {
		return err
	}
	now, err := d.standing(ctx)
	if err != nil {
		return err
	}
	if differ := changes(before, now); len(differ) > 0 {
		return fmt.Errorf("something of the suspended Stack is left: %s", strings.Join(differ, ", "))
	}
	d.show.sayf("another Stack is deleted while it is suspended: gone after %.1f s, and nothing of it is left", took.Seconds())
	return nil
}
