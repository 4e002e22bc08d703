package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// killOperator kills the operator while an application is being installed, and starts it
// again.
func (d *demo) killOperator(ctx context.Context) error {
	before, err := d.standing(ctx)
	if err != nil {
		return err
	}
	d.show.sayf("the operator is killed while gpu-operator is being installed, and started again")
	if err := d.killMidInstall(ctx); err != nil {
		return err
	}
	start := time.Now()
	if d.operator, err = d.startOperator(ctx, "operator"); err != nil {
		return err
	}
	if _, err := d.available(ctx, platformKey()); err != nil {
		return err
	}
	d.show.sayf("available %.1f s after the restart, most of which the Lease of the dead one took to run out (%s)", time.Since(start).Seconds(), lease)
	return d.unharmed(ctx, before, gpuApplication)
}

// failOver kills the leader while a second replica stands by.
func (d *demo) failOver(ctx context.Context) error {
	before, err := d.standing(ctx)
	if err != nil {
		return err
	}
	second, err := d.startOperator(ctx, "operator-2")
	if err != nil {
		return err
	}
	old, err := d.leader(ctx)
	if err != nil {
		return err
	}
	d.show.sayf("a second replica stands by as process %d; the leader, process %d, is killed in the middle of its work", second.PID, d.operator.PID)
	if err := d.killMidInstall(ctx); err != nil {
		return err
	}
	d.operator = second
	took, err := eventually(ctx, "the second replica leads", soon, func(ctx context.Context) (bool, string, error) {
		now, err := d.leader(ctx)
		return now != old && now != "", now, err
	})
	if err != nil {
		return err
	}
	more, err := d.available(ctx, platformKey())
	if err != nil {
		return err
	}
	d.show.sayf("the second replica leads after %.1f s (a Lease lasts %s), and the Stack is available %.1f s later", took.Seconds(), lease, more.Seconds())
	return d.unharmed(ctx, before, gpuApplication)
}

// leader returns who holds the Lease.
func (d *demo) leader(ctx context.Context) (string, error) {
	lease := &coordinationv1.Lease{}
	if err := d.home.client.Get(ctx, client.ObjectKey{Namespace: operatorNamespace, Name: leaseName}, lease); err != nil {
		return "", fmt.Errorf("read the lease: %w", err)
	}
	if lease.Spec.HolderIdentity == nil {
		return "", nil
	}
	return *lease.Spec.HolderIdentity, nil
}

// killMidInstall switches gpu off and on, and kills the operator as soon as the release is
// on the workload cluster: Helm has written it down, and is about to make its objects.
func (d *demo) killMidInstall(ctx context.Context) error {
	if err := d.gpu(ctx, "false"); err != nil {
		return err
	}
	if _, err := d.nodeIs(ctx, platformKey(), gpuApplication, v1alpha1.NodeRemoved, ""); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	w, err := d.workload.client.Watch(ctx, &corev1.SecretList{}, client.InNamespace(gpuApplication), client.MatchingLabels{"owner": "helm"})
	if err != nil {
		return fmt.Errorf("watch releases: %w", err)
	}
	defer w.Stop()
	if err := d.gpu(ctx, "true"); err != nil {
		return err
	}
	for e := range w.ResultChan() {
		record, ok := e.Object.(*corev1.Secret)
		if !ok || record.Labels["status"] == "uninstalling" || e.Type == watch.Deleted {
			continue
		}
		if err := d.operator.Kill(); err != nil {
			return err
		}
		d.show.sayf("killed while the release is %s", record.Labels["status"])
		return nil
	}
	return errors.Join(errors.New("the installation was not seen to begin"), context.Cause(ctx))
}
