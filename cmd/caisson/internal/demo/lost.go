package demo

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// loseCluster deletes Stacks whose cluster is gone for good.
func (d *demo) loseCluster(ctx context.Context) error {
	before, err := d.standing(ctx)
	if err != nil {
		return err
	}
	if err := d.raiseLost(ctx); err != nil {
		return err
	}
	d.show.sayf("the third cluster is killed, and the two Stacks on it are deleted")
	if err := d.env.Process(d.lost.name).Kill(); err != nil {
		return err
	}
	for _, name := range []string{"declared", "silent"} {
		stack := &v1alpha1.Stack{ObjectMeta: metav1.ObjectMeta{Namespace: lifeNamespace, Name: name}}
		if err := d.home.client.Delete(ctx, stack); err != nil {
			return fmt.Errorf("delete stack %s: %w", name, err)
		}
	}
	if err := d.declareGone(ctx); err != nil {
		return err
	}
	if err := d.gone(ctx, lifeKey("silent")); err != nil {
		return err
	}
	if err := d.farewell(ctx, "silent"); err != nil {
		return err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: lifeNamespace, Name: "lost-kubeconfig"}}
	if err := d.home.client.Delete(ctx, secret); err != nil {
		return fmt.Errorf("delete the kubeconfig: %w", err)
	}
	after, err := d.standing(ctx)
	if err != nil {
		return err
	}
	if differ := changes(before, after); len(differ) > 0 {
		return fmt.Errorf("something of the two Stacks is left: %s", strings.Join(differ, ", "))
	}
	d.show.sayf("nothing is left at home: no inventory, no registration")
	return nil
}

// startLost starts a third cluster, unless it runs.
func (d *demo) startLost(ctx context.Context) error {
	if d.lost != nil {
		return nil
	}
	return d.show.timed("start the control plane of a third cluster", func() error {
		kubeconfig, err := d.env.StartCluster(ctx, "lost", filepath.Join(d.bin, "devcluster"))
		if err != nil {
			return err
		}
		d.lost, err = connect("lost", kubeconfig)
		return err
	})
}

// raiseLost brings two Stacks up on the third cluster.
func (d *demo) raiseLost(ctx context.Context) error {
	if err := d.startLost(ctx); err != nil {
		return err
	}
	if err := d.lend(ctx, d.lost, lifeNamespace); err != nil {
		return err
	}
	if err := d.life(ctx, "lost.yaml"); err != nil {
		return err
	}
	for _, name := range []string{"declared", "silent"} {
		if _, err := d.available(ctx, lifeKey(name)); err != nil {
			return err
		}
	}
	return nil
}

// declareGone says of the cluster that it is gone, as a human does who knows.
func (d *demo) declareGone(ctx context.Context) error {
	key := lifeKey("declared")
	_, err := eventually(ctx, "the Stack says what to do about a cluster that does not answer", soon, func(ctx context.Context) (bool, string, error) {
		stack, err := d.stack(ctx, key)
		if err != nil {
			return false, "", err
		}
		said := condition(stack)
		if strings.Contains(said, v1alpha1.GoneAnnotation) {
			d.show.sayf("declared says: %s", said)
			return true, "", nil
		}
		return false, said, nil
	})
	if err != nil {
		return err
	}
	err = d.patch(ctx, key, func(s *v1alpha1.Stack) {
		if s.Annotations == nil {
			s.Annotations = map[string]string{}
		}
		s.Annotations[v1alpha1.GoneAnnotation] = "lost"
	})
	if err != nil {
		return err
	}
	if err := d.gone(ctx, key); err != nil {
		return err
	}
	return d.farewell(ctx, "declared")
}

// farewell shows the operator's last word on a Stack, which must say what it gave up.
func (d *demo) farewell(ctx context.Context, name string) error {
	var said []string
	_, err := eventually(ctx, "the operator says what it gave up", soon, func(ctx context.Context) (bool, string, error) {
		said = nil
		events := &eventsv1.EventList{}
		if err := d.home.client.List(ctx, events, client.InNamespace(lifeNamespace)); err != nil {
			return false, "", fmt.Errorf("list events: %w", err)
		}
		for _, e := range events.Items {
			if e.Regarding.Kind == "Stack" && e.Regarding.Name == name {
				said = append(said, e.Reason+": "+e.Note)
			}
		}
		found := strings.Join(said, " | ")
		return strings.Contains(found, "lost") && strings.Contains(found, "gone"), found, nil
	})
	if err != nil {
		return err
	}
	d.show.sayf("%s is gone, and the last that was said of it: %s", name, said[len(said)-1])
	return nil
}
