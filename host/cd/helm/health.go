package helm

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
)

// finding is the state of one object.
type finding struct {
	object  object
	status  status.Status
	message string
	// suspended says that the object is paused in its own spec, and not ready.
	suspended bool
}

// waiting is since when a revision's objects have not been ready, and failed.
type waiting struct {
	revision int
	since    time.Time
	failed   time.Time
}

// repairs counts how often deleted objects were put back without a healthy pause.
type repairs struct {
	count int
	last  time.Time
}

const (
	// maxRepairs is how often a deleted object is put back before somebody is told that
	// something else keeps deleting it.
	maxRepairs = 5
	// maxMessages bounds what a why quotes of the objects.
	maxMessages = 5
)

// assess reads every object and computes its status. It returns an error if one could
// not be read, because then nothing is known.
func (c *cluster) assess(ctx context.Context, objects []manifestObject, namespace string) ([]finding, error) {
	findings := make([]finding, 0, len(objects))
	for _, o := range objects {
		f, err := c.assessOne(ctx, o, namespace)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", o, err)
		}
		findings = append(findings, f)
	}
	return findings, nil
}

func (c *cluster) assessOne(ctx context.Context, o manifestObject, namespace string) (finding, error) {
	live, err := c.read(ctx, o.object, namespace)
	if meta.IsNoMatchError(err) {
		return finding{object: o.object, status: status.UnknownStatus, message: "its kind is not installed"}, nil
	}
	if apierrors.IsNotFound(err) {
		if o.vanishes {
			return finding{object: o.object, status: status.CurrentStatus, message: "finished and gone"}, nil
		}
		return finding{object: o.object, status: status.NotFoundStatus, message: "deleted"}, nil
	}
	if err != nil {
		return finding{}, err
	}
	return findingOf(o.object, live), nil
}

// findingOf computes the state of a live object. One that it cannot compute is a finding.
func findingOf(o object, live *unstructured.Unstructured) finding {
	result, err := status.Compute(live)
	if err != nil {
		return finding{object: o, status: status.UnknownStatus, message: err.Error()}
	}
	if result.Status == status.CurrentStatus && awaitsAddress(live) {
		return finding{object: o, status: status.InProgressStatus, message: "has no address yet"}
	}
	f := finding{object: o, status: result.Status, message: result.Message}
	if result.Status == status.InProgressStatus && isSuspended(live) {
		f.suspended, f.message = true, "is paused in its spec"
	}
	return f
}

// isSuspended reports whether an object is paused by its own spec, as a Deployment, a
// Job and the kinds of most controllers can be. One that is paused and ready all the same
// is ready.
func isSuspended(live *unstructured.Unstructured) bool {
	for _, name := range []string{"paused", "suspend", "suspended"} {
		if set, _, _ := unstructured.NestedBool(live.Object, "spec", name); set {
			return true
		}
	}
	return false
}

// awaitsAddress reports whether an object is a load balancer that nobody can reach yet.
// kstatus is content with its cluster IP; Helm's own wait is not, and nor are people.
func awaitsAddress(live *unstructured.Unstructured) bool {
	if live.GroupVersionKind().GroupKind() != (schema.GroupKind{Kind: "Service"}) {
		return false
	}
	kind, _, _ := unstructured.NestedString(live.Object, "spec", "type")
	external, _, _ := unstructured.NestedSlice(live.Object, "spec", "externalIPs")
	addresses, _, _ := unstructured.NestedSlice(live.Object, "status", "loadBalancer", "ingress")
	return kind == "LoadBalancer" && len(external) == 0 && len(addresses) == 0
}

// health is what the objects of a release come to.
type health string

const (
	healthReady       health = "ready"
	healthProgressing health = "progressing"
	healthSuspended   health = "suspended"
	healthUnknown     health = "unknown"
	healthFailed      health = "failed"
	healthDrifted     health = "drifted"
)

// worst folds the findings. A deleted object comes first, because putting it back is
// something that can be done; among those that are not ready, what somebody may have to
// do something about comes before what will come by itself.
func worst(findings []finding) (health, string) {
	groups := map[health][]string{}
	for _, f := range findings {
		h := healthOf(f)
		groups[h] = append(groups[h], f.object.String()+": "+f.message)
	}
	for _, h := range []health{healthDrifted, healthFailed, healthSuspended, healthUnknown, healthProgressing} {
		if messages := groups[h]; len(messages) > 0 {
			return h, summary(messages)
		}
	}
	return healthReady, ""
}

func healthOf(f finding) health {
	if f.suspended {
		return healthSuspended
	}
	switch f.status {
	case status.CurrentStatus:
		return healthReady
	case status.FailedStatus:
		return healthFailed
	case status.NotFoundStatus:
		return healthDrifted
	case status.InProgressStatus, status.TerminatingStatus:
		return healthProgressing
	case status.UnknownStatus:
		return healthUnknown
	default:
		return healthUnknown
	}
}

// reason is what is told of objects that are neither ready nor failed.
func (h health) reason() string {
	switch h {
	case healthSuspended:
		return abi.ReasonApplicationSuspended
	case healthUnknown:
		return abi.ReasonApplicationUnknown
	default:
		return abi.ReasonApplicationWaiting
	}
}

func summary(messages []string) string {
	more := ""
	if len(messages) > maxMessages {
		more = fmt.Sprintf(" and %d more", len(messages)-maxMessages)
		messages = messages[:maxMessages]
	}
	return strings.Join(messages, "; ") + more
}

// patience is the part of the timeouts that health is judged by.
type patience struct {
	progress time.Duration
	degraded time.Duration
	poll     time.Duration
	// acceptFailed takes failed workloads for good.
	acceptFailed bool
}

// observe returns since when the release has not been ready, given what it was before.
// A deployment of the past counts from the moment at which it stopped being ready, as
// far as anybody looked.
func (w waiting) observe(h health, revision int, now time.Time) waiting {
	if w.revision != revision || h == healthReady {
		w = waiting{revision: revision}
	}
	if h != healthReady && w.since.IsZero() {
		w.since = now
	}
	switch {
	case h != healthFailed:
		w.failed = time.Time{}
	case w.failed.IsZero():
		w.failed = now
	}
	return w
}

// judge turns the health of a deployed release into an outcome; nil is ready.
func judge(h health, why string, w waiting, p patience, now time.Time) *provisioner.Error {
	switch {
	case h == healthReady, h == healthFailed && p.acceptFailed:
		return nil
	case h == healthFailed && now.Sub(w.failed) >= p.degraded:
		return provisioner.UserActionRequired(abi.ReasonApplicationDegraded, why)
	case h == healthFailed:
		return provisioner.Yield(abi.ReasonApplicationDegraded, why).WithRetryAfter(p.poll)
	case now.Sub(w.since) >= p.progress:
		return provisioner.UserActionRequired(abi.ReasonApplicationStuck, why)
	default:
		return provisioner.Yield(h.reason(), why).WithRetryAfter(p.poll)
	}
}

// next says whether a deleted object is to be put back now. The pause grows: an object
// that is deleted again and again has somebody else who does it.
func (r repairs) next(now time.Time, calm time.Duration) (repairs, bool) {
	if now.Sub(r.last) >= calm {
		r = repairs{}
	}
	pause := time.Duration(0)
	for range r.count {
		pause = pause*2 + firstPause
	}
	if r.count >= maxRepairs || (r.count > 0 && now.Sub(r.last) < pause) {
		return r, false
	}
	return repairs{count: r.count + 1, last: now}, true
}
