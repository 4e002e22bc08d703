package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/cmd/caisson/internal/devenv"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// answerHolds is how long the operator takes a cluster that has answered for one that
// answers (the memo of its probes in host/scope): one that hangs within that time is waited
// for before it is said to be unreachable.
const answerHolds = 4 * time.Second

// pauseWorkload stops the API server of the workload cluster while a change is made.
func (d *demo) pauseWorkload(ctx context.Context) error {
	server := d.env.Process("workload")
	if server == nil {
		d.show.sayf("left out: the workload cluster was given, and is not the demo's to stop")
		return nil
	}
	before, err := d.standing(ctx)
	if err != nil {
		return err
	}
	if err := d.restsFor(ctx, answerHolds); err != nil {
		return err
	}
	d.show.sayf("the API server of the workload cluster is stopped, and the spec is changed meanwhile")
	err = d.stopped(server, func() error {
		if err := d.scaleMetrics(ctx, 3); err != nil {
			return err
		}
		stack, err := d.nodeIs(ctx, platformKey(), "all", abi.Yield.String(), abi.ReasonRemoteUnreachable)
		if err != nil {
			return err
		}
		d.show.sayf("it says: %s", condition(stack))
		return nil
	})
	if err != nil {
		return err
	}
	start := time.Now()
	if _, err := d.available(ctx, platformKey()); err != nil {
		return err
	}
	if _, err := d.workloadIs(ctx, metricsApplication+" 3/3"); err != nil {
		return err
	}
	d.show.sayf("converged %.1f s after it goes on", time.Since(start).Seconds())
	return d.unharmed(ctx, before, "")
}

// stopped does something while a process is stopped.
func (d *demo) stopped(p *devenv.Process, do func() error) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return errors.Join(do(), p.Signal(syscall.SIGCONT))
}

// pauseRegistry stops the registry while a parameter changes that a module makes values of.
func (d *demo) pauseRegistry(ctx context.Context) error {
	before, err := d.standing(ctx)
	if err != nil {
		return err
	}
	d.show.sayf("the registry is stopped, and a parameter is changed that the module cilium makes values of")
	counted, err := d.counters(ctx)
	if err != nil {
		return err
	}
	err = d.stopped(d.env.Process("registry"), func() error {
		if err := d.podCIDR(ctx, "10.245.0.0/16"); err != nil {
			return err
		}
		took, err := d.ciliumSays(ctx, "10.245.0.0/16")
		if err != nil {
			return err
		}
		now, err := d.counters(ctx)
		if err != nil {
			return err
		}
		d.show.sayf("%.0f module calls, and the application is upgraded after %.1f s, with the chart that is cached: nobody needs the registry", now.minus(counted).calls, took.Seconds())
		return nil
	})
	if err != nil {
		return err
	}
	return d.unharmed(ctx, before, "")
}

// killWorker kills the process that a module runs in, in the middle of a call.
func (d *demo) killWorker(ctx context.Context) error {
	before, err := d.standing(ctx)
	if err != nil {
		return err
	}
	faults, err := d.faults(ctx)
	if err != nil {
		return err
	}
	d.show.sayf("workers are held up as soon as they have something to do, and killed")
	killed := make(chan int, 1)
	hunting, stop := context.WithTimeout(ctx, soon)
	defer stop()
	go func() { killed <- hunt(hunting, d.operator.PID) }()
	if err := d.podCIDR(ctx, "10.246.0.0/16"); err != nil {
		return err
	}
	_, err = eventually(ctx, "a call ends in a fault", soon, func(ctx context.Context) (bool, string, error) {
		now, err := d.faults(ctx)
		return now > faults, fmt.Sprintf("%.0f faults", now), err
	})
	stop()
	number := <-killed
	if err != nil {
		return err
	}
	took, err := d.ciliumSays(ctx, "10.246.0.0/16")
	if err != nil {
		return err
	}
	d.show.sayf("%d workers were killed; the calls were repeated, and the Stack is available after %.1f s", number, took.Seconds())
	return d.unharmed(ctx, before, "")
}

// podCIDR changes a parameter that goes through the module cilium.
func (d *demo) podCIDR(ctx context.Context, value string) error {
	return d.patch(ctx, platformKey(), func(s *v1alpha1.Stack) { s.Spec.Parameters["podCIDR"] = text(value) })
}

// ciliumSays waits until the ConfigMap of cilium has a range, and the Stack is available.
func (d *demo) ciliumSays(ctx context.Context, podCIDR string) (time.Duration, error) {
	start := time.Now()
	_, err := eventually(ctx, "cilium has the range "+podCIDR, soon, func(ctx context.Context) (bool, string, error) {
		config := &corev1.ConfigMap{}
		if err := d.workload.client.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: "cilium-config"}, config); err != nil {
			return false, "", fmt.Errorf("read cilium-config: %w", err)
		}
		said := config.Data["cluster-pool-ipv4-cidr"]
		return strings.Contains(said, podCIDR), said, nil
	})
	if err != nil {
		return 0, err
	}
	_, err = d.available(ctx, platformKey())
	return time.Since(start), err
}
