package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/cmd/caisson/internal/follow"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// registrationPrefix starts the names of the Secrets that registrations are kept in.
const registrationPrefix = "caisson-cluster-"

// patience is how long a platform may take to come up, or to go: a hundred times what it
// takes, for machines that do other things as well.
const patience = 5 * time.Minute

// bringUp watches the Stack until it is available.
func (d *demo) bringUp(ctx context.Context) error {
	report, err := d.follow(ctx, follow.Available)
	if err != nil {
		return err
	}
	for _, row := range report.Last.Rows {
		if row.Disposition != abi.OK.String() {
			return fmt.Errorf("the Stack says that it is available, but its node %s is %s", row.Name, row.Disposition)
		}
	}
	workloads, err := d.workload.workloads(ctx)
	if err != nil {
		return err
	}
	d.show.sayf("on the workload cluster: %s", strings.Join(workloads, ", "))
	return d.expectWorkloads(workloads)
}

// expectWorkloads fails if what the Stack stands for is not there.
func (d *demo) expectWorkloads(found []string) error {
	want := []string{
		"csi-controller 1/1", "cilium 1/1", "cilium-operator 1/1", "gpu-operator 1/1",
		"ingress-nginx-controller 2/2", "metrics-server 1/1",
	}
	for _, w := range want {
		if !slices.Contains(found, w) {
			return fmt.Errorf("expected %q on the workload cluster, and found %s", w, strings.Join(found, ", "))
		}
	}
	return nil
}

// leaveAlone shows that a converged Stack costs nothing: no pass, no module call, no
// write.
func (d *demo) leaveAlone(ctx context.Context) error {
	stack := &v1alpha1.Stack{}
	key := platformKey()
	if err := d.quiesce(ctx); err != nil {
		return err
	}
	if err := d.home.client.Get(ctx, key, stack); err != nil {
		return fmt.Errorf("read stack: %w", err)
	}
	before, err := d.counters(ctx)
	if err != nil {
		return err
	}
	version := stack.ResourceVersion
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(settle):
	}
	after, err := d.counters(ctx)
	if err != nil {
		return err
	}
	if err := d.home.client.Get(ctx, key, stack); err != nil {
		return fmt.Errorf("read stack: %w", err)
	}
	did := after.minus(before)
	d.show.sayf("in %s: %.0f passes, %.0f module calls, Stack unchanged: %t", settle, did.passes, did.calls, stack.ResourceVersion == version)
	if did.passes > 0 || did.calls > 0 || stack.ResourceVersion != version {
		return errors.New("a converged Stack was not left alone")
	}
	return nil
}

// calm is longer than the second after which a pass whose inputs moved is repeated.
const calm = 2500 * time.Millisecond

// quiesce waits until the echoes of the roll-out have come in: events of workloads that
// became ready at the very end.
func (d *demo) quiesce(ctx context.Context) error { return d.restsFor(ctx, calm) }

// restsFor waits until the operator has not run a pass for a while.
func (d *demo) restsFor(ctx context.Context, while time.Duration) error {
	last, err := d.counters(ctx)
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(soon); time.Now().Before(deadline); {
		if err := pause(ctx, while); err != nil {
			return err
		}
		now, err := d.counters(ctx)
		if err != nil {
			return err
		}
		if now.passes == last.passes {
			return nil
		}
		last = now
	}
	return errors.New("the operator does not come to rest")
}

// takeDown deletes the Stack, and checks the order and that nothing is left.
func (d *demo) takeDown(ctx context.Context) error {
	stack := &v1alpha1.Stack{}
	stack.Namespace, stack.Name = stackNamespace, stackName
	if err := d.home.client.Delete(ctx, stack); err != nil {
		return fmt.Errorf("delete stack: %w", err)
	}
	watchCtx, stop := context.WithCancel(ctx)
	defer stop()
	lastSeen := d.watchRegistration(watchCtx)
	report, err := d.follow(ctx, follow.Gone)
	if err != nil {
		return err
	}
	stop()
	if err := checkOrder(report); err != nil {
		return err
	}
	if err := (<-lastSeen).check(); err != nil {
		return err
	}
	d.show.sayf("children went in reverse order; the remote was deregistered last")
	return d.nothingLeft(ctx)
}

// checkOrder compares when nodes were seen to be gone with the order of the tree: what
// came last goes first.
func checkOrder(report follow.Report) error {
	gone := map[string]time.Duration{}
	for _, t := range report.Transitions {
		if t.Disposition == v1alpha1.NodeRemoved {
			gone[t.Node] = t.At
		}
	}
	order := [][2]string{{"gpu", "metrics"}, {"gpu", "storage"}, {"gpu", "ingress"}, {"metrics", "cni"}, {"storage", "cni"}, {"ingress", "cni"}}
	for _, pair := range order {
		first, okFirst := gone[pair[0]]
		second, okSecond := gone[pair[1]]
		if okSecond && (!okFirst || first > second) {
			return fmt.Errorf("%s was seen gone before %s", pair[1], pair[0])
		}
	}
	if _, ok := gone["gpu"]; !ok {
		return errors.New("no node was seen to go before the Stack did")
	}
	return nil
}

// follow shows the Stack until it is as wanted.
func (d *demo) follow(ctx context.Context, until follow.Until) (follow.Report, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("the Stack is not %s after %s", until, patience))
	defer cancel()
	return follow.Stack(ctx, d.home.client, platformKey(), until, d.Screen(d.show.start))
}

// workloads lists the Deployments and DaemonSets outside of the demo's own namespaces,
// with how many of their pods are ready.
func (c *cluster) workloads(ctx context.Context) ([]string, error) {
	managed := client.MatchingLabels{"app.kubernetes.io/managed-by": "Helm"}
	deployments, daemons := &appsv1.DeploymentList{}, &appsv1.DaemonSetList{}
	if err := errors.Join(c.client.List(ctx, deployments, managed), c.client.List(ctx, daemons, managed)); err != nil {
		return nil, fmt.Errorf("list workloads on %s: %w", c.name, err)
	}
	var found []string
	for _, o := range deployments.Items {
		found = append(found, fmt.Sprintf("%s %d/%d", o.Name, o.Status.ReadyReplicas, *o.Spec.Replicas))
	}
	for _, o := range daemons.Items {
		found = append(found, fmt.Sprintf("%s %d/%d", o.Name, o.Status.NumberReady, o.Status.DesiredNumberScheduled))
	}
	return found, nil
}
