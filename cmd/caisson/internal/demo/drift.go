package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/cmd/caisson/internal/follow"
	"github.com/caisson-dev/caisson/cmd/caisson/internal/tree"
)

// repair deletes a Deployment behind the operator's back.
func (d *demo) repair(ctx context.Context) error {
	key := types.NamespacedName{Namespace: "kube-system", Name: metricsApplication}
	before := &appsv1.Deployment{}
	if err := d.workload.client.Get(ctx, key, before); err != nil {
		return fmt.Errorf("read the Deployment: %w", err)
	}
	d.show.sayf("somebody deletes the Deployment %s on the workload cluster", key)
	seen := d.record(ctx)
	if err := d.workload.client.Delete(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}); err != nil {
		seen.report()
		return fmt.Errorf("delete the Deployment: %w", err)
	}
	took, err := eventually(ctx, "the Deployment is back and ready", soon, func(ctx context.Context) (bool, string, error) {
		now := &appsv1.Deployment{}
		err := d.workload.client.Get(ctx, key, now)
		if client.IgnoreNotFound(err) != nil {
			return false, "", fmt.Errorf("read the Deployment: %w", err)
		}
		return err == nil && now.UID != before.UID && now.Status.ReadyReplicas == *now.Spec.Replicas, "", nil
	})
	if err == nil {
		_, err = d.available(ctx, platformKey())
	}
	report := seen.report()
	if err != nil {
		return err
	}
	told := told(report, metricsNode)
	d.show.sayf("repaired after %.1f s; meanwhile the status said of %s: %s", took.Seconds(), metricsNode, strings.Join(told, ", "))
	if len(told) < 3 || told[0] != abi.OK.String() || told[len(told)-1] != abi.OK.String() {
		return errors.New("the status should have said that the application is not there, and then that it is")
	}
	return nil
}

// told is what was said of a node, one after the other.
func told(report follow.Report, node string) []string {
	var said []string
	for _, t := range report.Transitions {
		if t.Node == node {
			said = append(said, strings.TrimSpace(t.Disposition+" "+t.Reason))
		}
	}
	return slices.Compact(said)
}

// recording is what happens to the Stack in the background.
type recording struct {
	stop func()
	done chan struct{}
	seen follow.Report
}

// record follows the Stack, and shows nothing, until its report is asked for. It has seen the
// Stack once when it returns.
func (d *demo) record(ctx context.Context) *recording {
	ctx, stop := context.WithCancel(ctx)
	r := &recording{stop: stop, done: make(chan struct{})}
	screen := &darkScreen{shown: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.seen, _ = follow.Stack(ctx, d.home.client, platformKey(), follow.Forever, screen) // It ends when it is told to.
	}()
	select {
	case <-screen.shown:
	case <-r.done:
	case <-time.After(soon):
	}
	return r
}

// report ends the recording.
func (r *recording) report() follow.Report {
	r.stop()
	<-r.done
	return r.seen
}

// darkScreen shows nothing, but tells that it was shown something.
type darkScreen struct {
	shown chan struct{}
	lit   bool
}

// Show implements follow.Screen.
func (s *darkScreen) Show(_, _ tree.View) {
	if !s.lit {
		s.lit = true
		close(s.shown)
	}
}

// Close implements follow.Screen.
func (s *darkScreen) Close() {}
