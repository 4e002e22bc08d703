package controller

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

const sameDigest = "sha256:same"

// converged is what decide sees of a Stack that is as desired, with nothing new.
func converged() observation {
	stack := newStack()
	stack.Finalizers = []string{v1alpha1.StackFinalizer}
	stack.Status.ObservedGeneration = stack.Generation
	stack.Status.InputsDigest = sameDigest
	setAvailable(stack, metav1.ConditionTrue, v1alpha1.ReasonProvisioned)
	return observation{stack: stack, inputsDigest: sameDigest, untilResync: 7 * time.Minute}
}

// parkedStack is what decide sees of a Stack that waits for somebody, with nothing new.
func parkedStack() observation {
	o := converged()
	setAvailable(o.stack, metav1.ConditionFalse, v1alpha1.ReasonUserActionRequired)
	o.stack.Status.Parked = &v1alpha1.Parked{
		Disposition: "UserActionRequired", Reason: "secret_missing", Generation: o.stack.Generation, InputsDigest: sameDigest,
	}
	return o
}

func setAvailable(stack *v1alpha1.Stack, status metav1.ConditionStatus, reason string) {
	meta.SetStatusCondition(&stack.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionAvailable, Status: status, Reason: reason, ObservedGeneration: stack.Generation,
	})
}

func TestDecide(t *testing.T) {
	deleted := metav1.NewTime(epoch())
	cases := map[string]struct {
		reason string
		from   func() observation
		change func(*observation)
		want   decision
	}{
		"first pass": {
			reason: "a generation that was never observed", from: converged,
			change: func(o *observation) { o.stack.Status = v1alpha1.StackStatus{} },
			want:   decision{action: actionProvision, because: "spec changed"},
		},
		"parked on an application": {
			reason: "an application may become ready with nobody seeing it", from: parkedStack,
			change: func(o *observation) { o.stack.Status.Parked.Reason = abi.ReasonApplicationStuck },
			want:   decision{resyncIn: 7 * time.Minute, because: "parked, and not due"},
		},
		"parked on an application, due": {
			reason: "so the driver looks again, and modules are remembered", from: parkedStack,
			change: func(o *observation) { o.stack.Status.Parked.Reason, o.untilResync = abi.ReasonApplicationStuck, 0 },
			want:   decision{action: actionProvision, because: "what it waits for may have come unseen"},
		},
		"parked on a person, due": {
			reason: "a person's act is seen, so there is nothing to look for", from: parkedStack,
			change: func(o *observation) { o.untilResync = 0 },
			want:   decision{because: "parked, and nothing changed"},
		},
		"converged": {
			reason: "nothing happened, so nothing is done until the resync", from: converged, change: func(*observation) {},
			want: decision{resyncIn: 7 * time.Minute, because: "nothing changed"},
		},
		"converged, spec edited": {
			reason: "generation differs from the observed one", from: converged,
			change: func(o *observation) { o.stack.Generation++ },
			want:   decision{action: actionProvision, because: "spec changed"},
		},
		"converged, input changed": {
			reason: "modules that read it must be called again, though their envelope is the same", from: converged,
			change: func(o *observation) { o.inputsDigest = "sha256:other" },
			want:   decision{action: actionProvision, forget: true, because: "an input changed"},
		},
		"converged, application changed": {
			reason: "the driver looks, and modules are answered from memory", from: converged,
			change: func(o *observation) { o.wake.Driver = true },
			want:   decision{action: actionProvision, because: "an application changed"},
		},
		"converged, resync due": {
			reason: "modules that read through kube_* are called at the resync", from: converged,
			change: func(o *observation) { o.untilResync = 0 },
			want:   decision{action: actionProvision, forget: true, because: "resync"},
		},
		"converged, resync overdue": {
			reason: "a wake that comes late counts as well", from: converged,
			change: func(o *observation) { o.untilResync = -time.Minute },
			want:   decision{action: actionProvision, forget: true, because: "resync"},
		},
		"converged, retry annotation": {
			reason: "there is nothing to revive; the annotation belongs to parks", from: converged,
			change: func(o *observation) { o.stack.Annotations = map[string]string{v1alpha1.RetryAnnotation: "1"} },
			want:   decision{resyncIn: 7 * time.Minute, because: "nothing changed"},
		},
		"in progress": {
			reason: "there is work to do whatever the wake was", from: converged,
			change: func(o *observation) {
				setAvailable(o.stack, metav1.ConditionFalse, v1alpha1.ReasonProvisioning)
			},
			want: decision{action: actionProvision, because: "in progress"},
		},
		"in progress, input changed": {
			reason: "a module that yielded has not seen the change", from: converged,
			change: func(o *observation) {
				setAvailable(o.stack, metav1.ConditionFalse, v1alpha1.ReasonProvisioning)
				o.inputsDigest = "sha256:other"
			},
			want: decision{action: actionProvision, forget: true, because: "in progress"},
		},
		"parked": {
			reason: "nothing changed, so nothing is done, and there is no resync either", from: parkedStack, change: func(*observation) {},
			want: decision{because: "parked, and nothing changed"},
		},
		"parked, resync due": {
			reason: "a park outlives every clock", from: parkedStack,
			change: func(o *observation) { o.untilResync = -time.Hour },
			want:   decision{because: "parked, and nothing changed"},
		},
		"parked, input changed": {
			reason: "somebody has acted", from: parkedStack,
			change: func(o *observation) { o.inputsDigest = "sha256:other" },
			want:   decision{action: actionProvision, forget: true, because: "an input changed"},
		},
		"parked, only the status digest differs": {
			reason: "near miss: the record of the park is what counts", from: parkedStack,
			change: func(o *observation) { o.stack.Status.InputsDigest = "sha256:other" },
			want:   decision{because: "parked, and nothing changed"},
		},
		"parked, spec edited": {
			reason: "the new spec may not have the problem", from: parkedStack,
			change: func(o *observation) { o.stack.Generation++ },
			want:   decision{action: actionProvision, because: "spec changed"},
		},
		"parked under another generation": {
			reason: "the record is of a spec that is no more, whatever was observed since", from: parkedStack,
			change: func(o *observation) { o.stack.Status.Parked.Generation = 0 },
			want:   decision{action: actionProvision, because: "spec changed"},
		},
		"parked, retry asked for": {
			reason: "a token that the park has not seen", from: parkedStack,
			change: func(o *observation) { o.stack.Annotations = map[string]string{v1alpha1.RetryAnnotation: "2"} },
			want:   decision{action: actionProvision, forget: true, because: "retry was asked for"},
		},
		"parked, same token again": {
			reason: "near miss: it has had its retry", from: parkedStack,
			change: func(o *observation) {
				o.stack.Annotations = map[string]string{v1alpha1.RetryAnnotation: "2"}
				o.stack.Status.Parked.RetryToken = "2"
			},
			want: decision{because: "parked, and nothing changed"},
		},
		"parked, token removed": {
			reason: "the tuple differs, and whoever removes it has acted", from: parkedStack,
			change: func(o *observation) { o.stack.Status.Parked.RetryToken = "2" },
			want:   decision{action: actionProvision, forget: true, because: "retry was asked for"},
		},
		"parked, another annotation": {
			reason: "near miss: only one annotation revives", from: parkedStack,
			change: func(o *observation) { o.stack.Annotations = map[string]string{"caisson.dev/note": "2"} },
			want:   decision{because: "parked, and nothing changed"},
		},
		"parked, application changed": {
			reason: "a load balancer that appears late makes the Stack available", from: parkedStack,
			change: func(o *observation) { o.wake.Driver = true },
			want:   decision{action: actionProvision, because: "an application changed"},
		},
		"suspended": {
			reason: "the status has to say so once", from: converged,
			change: func(o *observation) { o.stack.Spec.Suspend = true; o.stack.Generation++ },
			want:   decision{action: actionSuspend, because: "suspended"},
		},
		"suspended and said so": {
			reason: "nothing wakes a suspended Stack", from: converged,
			change: func(o *observation) {
				o.stack.Spec.Suspend = true
				setAvailable(o.stack, metav1.ConditionFalse, v1alpha1.ReasonSuspended)
				o.inputsDigest, o.wake.Driver, o.untilResync = "sha256:other", true, 0
			},
			want: decision{because: "suspended"},
		},
		"suspended and edited": {
			reason: "near miss: the status says so of an older spec", from: converged,
			change: func(o *observation) {
				o.stack.Spec.Suspend = true
				setAvailable(o.stack, metav1.ConditionFalse, v1alpha1.ReasonSuspended)
				o.stack.Generation++
			},
			want: decision{action: actionSuspend, because: "suspended"},
		},
		"resumed": {
			reason: "resuming is an edit of the spec", from: converged,
			change: func(o *observation) {
				setAvailable(o.stack, metav1.ConditionFalse, v1alpha1.ReasonSuspended)
				o.stack.Generation++
			},
			want: decision{action: actionProvision, because: "spec changed"},
		},
		"deleted": {
			reason: "a deletion needs no other change", from: converged,
			change: func(o *observation) { o.stack.DeletionTimestamp = &deleted },
			want:   decision{action: actionDeprovision, because: "deleted"},
		},
		"deleted while parked": {
			reason: "case 109", from: parkedStack,
			change: func(o *observation) { o.stack.DeletionTimestamp = &deleted },
			want:   decision{action: actionDeprovision, because: "deleted"},
		},
		"deleted while suspended": {
			reason: "case 113: suspending does not freeze a deletion", from: converged,
			change: func(o *observation) { o.stack.DeletionTimestamp, o.stack.Spec.Suspend = &deleted, true },
			want:   decision{action: actionDeprovision, because: "deleted"},
		},
		"deleted, only foreign finalizers": {
			reason: "case 111: we have let go, or never began", from: converged,
			change: func(o *observation) {
				o.stack.DeletionTimestamp, o.stack.Finalizers = &deleted, []string{"example.com/other"}
			},
			want: decision{because: "deleted, and not ours to clean up"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := c.from()
			c.change(&o)
			before := o.stack.DeepCopy()
			require.Equal(t, c.want, decide(o), c.reason)
			require.Equal(t, before, o.stack, "decide is pure")
		})
	}
}

// TestDecideUnchangedNeverActs is the property behind "a wake whose tuple is unchanged
// does nothing at all", over random Stacks.
func TestDecideUnchangedNeverActs(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	text := func() string { return string(rune('a' + random.IntN(4))) }
	for range 5000 {
		o := converged()
		if random.IntN(2) == 0 {
			o = parkedStack()
			o.untilResync = time.Duration(random.Int64N(int64(time.Hour))) - 30*time.Minute
		} else {
			o.untilResync = 1 + time.Duration(random.Int64N(int64(time.Hour)))
		}
		o.stack.Generation = random.Int64N(1000)
		o.stack.Status.ObservedGeneration = o.stack.Generation
		o.stack.Annotations = map[string]string{v1alpha1.RetryAnnotation: text(), "other": text()}
		o.stack.Labels = map[string]string{"label": text()}
		o.inputsDigest = text()
		o.stack.Status.InputsDigest = o.inputsDigest
		if p := o.stack.Status.Parked; p != nil {
			p.Generation, p.InputsDigest, p.RetryToken = o.stack.Generation, o.inputsDigest, o.stack.Annotations[v1alpha1.RetryAnnotation]
			p.Reason, p.Path = text(), text()
		}
		d := decide(o)
		require.Equal(t, actionNone, d.action, "%+v", o)
		require.False(t, d.forget, "%+v", o)
	}
}
