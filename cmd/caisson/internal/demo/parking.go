package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/cmd/caisson/internal/follow"
)

const (
	// parkedFor is how long the demo looks at a Stack that is parked: longer than any
	// interval that an operator would poll at.
	parkedFor = 30 * time.Second
	// leaseName is the Lease by which the operators elect their leader.
	leaseName = "caisson-operator"
)

// cloudConfig is the Secret that the storage module places.
func cloudConfig() *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: stackNamespace, Name: "cloud-config"},
		Data:       map[string][]byte{"cloud.conf": []byte("[Global]\nauth-url = https://cloud.example.com\napplication-credential-secret = not-a-real-one\n")},
	}
}

// park applies the Stack while a Secret that it needs does not exist.
func (d *demo) park(ctx context.Context) error {
	d.show.sayf("the Secret cloud-config does not exist yet: storage will ask for it, the others go on")
	if err := d.prepare(ctx); err != nil {
		return err
	}
	if err := d.snapshot(ctx); err != nil {
		return err
	}
	if err := d.home.apply(ctx, d.registry, d.example("stack.yaml")); err != nil {
		return err
	}
	report, err := d.follow(ctx, follow.Parked)
	if err != nil {
		return err
	}
	for _, row := range report.Last.Rows {
		switch row.Name {
		case "storage":
			if row.Disposition != abi.UserActionRequired.String() || row.Reason != abi.ReasonSecretMissing {
				return fmt.Errorf("storage is %s %s, and should ask for the Secret", row.Disposition, row.Reason)
			}
		case "cni", "metrics", "ingress":
			if row.Disposition != abi.OK.String() {
				return fmt.Errorf("the Stack is parked, and %s is %s: it had no reason to wait for storage", row.Name, row.Disposition)
			}
		}
	}
	if err := d.explain(ctx); err != nil {
		return err
	}
	return d.quiesce(ctx)
}

// explain shows what the CLI says of the parked Stack, which has to name what is missing.
func (d *demo) explain(ctx context.Context) error {
	d.show.sayf("caisson stack explain says:")
	text, err := d.answer(ctx, d.Self, "stack", "explain", stackName, "-n", stackNamespace, "--kubeconfig", d.home.kubeconfig)
	if err != nil {
		return err
	}
	for line := range strings.Lines(text) {
		d.show.line("    " + strings.TrimRight(line, "\n"))
	}
	if want := "Create the Secret " + cloudConfig().Name + " in namespace " + stackNamespace; !strings.Contains(text, want) {
		return fmt.Errorf("the explanation does not say %q", want)
	}
	return nil
}

// stayParked shows that nothing at all is done for a parked Stack.
func (d *demo) stayParked(ctx context.Context) error {
	d.show.sayf("for %s: no pass, no module call, and no request but the renewals of the leader's Lease, each of which is counted", parkedFor)
	stack, err := d.stack(ctx, platformKey())
	if err != nil {
		return err
	}
	stop, err := d.renewals(ctx)
	if err != nil {
		return err
	}
	defer stop()
	before, err := d.load(ctx)
	if err != nil {
		return err
	}
	if err := d.meanwhile(ctx, parkedFor); err != nil {
		return err
	}
	after, err := d.load(ctx)
	if err != nil {
		return err
	}
	now, err := d.stack(ctx, platformKey())
	if err != nil {
		return err
	}
	did, renewals := after.minus(before), float64(stop())
	d.show.sayf("%.0f passes, %.0f module calls, %.0f requests to the workload cluster, %.0f to home for %.0f renewals; Stack unchanged: %t",
		did.passes, did.calls, did.remote, did.home, renewals, now.ResourceVersion == stack.ResourceVersion)
	// A renewal at either end may be counted here and not there.
	if did.passes > 0 || did.calls > 0 || did.remote > 0 || did.home > renewals+1 || now.ResourceVersion != stack.ResourceVersion {
		return errors.New("a parked Stack was not left alone")
	}
	return nil
}

// meanwhile waits, and does what later chapters need and the operator has no part in.
func (d *demo) meanwhile(ctx context.Context, wait time.Duration) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return pause(ctx, wait) })
	group.Go(func() error {
		return errors.Join(d.nextCilium(ctx), d.startLost(ctx))
	})
	return group.Wait()
}

// renewals counts the renewals of the leader's Lease from now on, until what it returns is
// called, which says how many there were.
func (d *demo) renewals(ctx context.Context) (func() int, error) {
	w, err := d.home.client.Watch(ctx, &coordinationv1.LeaseList{}, client.InNamespace(operatorNamespace))
	if err != nil {
		return nil, fmt.Errorf("watch the lease: %w", err)
	}
	counted := make(chan int, 1)
	go func() {
		count := 0
		for e := range w.ResultChan() {
			if lease, ok := e.Object.(*coordinationv1.Lease); ok && lease.Name == leaseName && e.Type == watch.Modified {
				count++
			}
		}
		counted <- count
	}()
	return sync.OnceValue(func() int {
		w.Stop()
		return <-counted
	}), nil
}

// revive creates the Secret, which is all that has to be done.
func (d *demo) revive(ctx context.Context) error {
	d.show.sayf("the Secret is created, and nothing else is done")
	start := time.Now()
	if err := d.home.replace(ctx, cloudConfig()); err != nil {
		return err
	}
	d.before[d.home.name]["Secret/"+stackNamespace+"/cloud-config"] = true // it is not the Stack's
	revived := make(chan time.Duration, 1)
	failed := make(chan error, 1)
	go func() {
		took, err := eventually(ctx, "the parked Stack is looked at again", soon, func(ctx context.Context) (bool, string, error) {
			stack, err := d.stack(ctx, platformKey())
			if err != nil {
				return false, "", err
			}
			return node(stack, "storage").Reason != abi.ReasonSecretMissing, condition(stack), nil
		})
		revived <- took
		failed <- err
	}()
	err := d.bringUp(ctx)
	took, lookErr := <-revived, <-failed
	if err := errors.Join(err, lookErr); err != nil {
		return err
	}
	d.show.sayf("revived %.2f s after the Secret was created, available after %.2f s", took.Seconds(), time.Since(start).Seconds())
	return nil
}
