package controller

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/plan"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

const secretText = "password=hunter2"

func conflict() error {
	return apierrors.NewConflict(schema.GroupResource{Group: "caisson.dev", Resource: "stacks"}, "web", errors.New("changed"))
}

// once refuses one write.
func once(err error) func() error {
	return func() error {
		e := err
		err = nil
		return e
	}
}

func available(s *v1alpha1.Stack) string {
	c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionAvailable)
	if c == nil {
		return ""
	}
	return string(c.Status) + "/" + c.Reason
}

// Case 100: the finalizer is there before anything is done that would have to be undone.
func TestCase100FinalizerBeforeSideEffects(t *testing.T) {
	w := newWorld(t, newStack())
	w.provision = func(context.Context) error {
		require.Contains(t, w.stack().Finalizers, v1alpha1.StackFinalizer)
		return nil
	}
	result := w.reconcile()
	require.Equal(t, []step{"patch", "tenant team/builder", "provision", "list uid-web", "patch status"}, w.steps(), "and one status write")
	require.InDelta(t, float64(DefaultResync), float64(result.RequeueAfter), float64(DefaultResync)/10)
	stack := w.stack()
	require.Equal(t, "True/Provisioned", available(stack))
	require.Equal(t, stack.Generation, stack.Status.ObservedGeneration)
	require.Equal(t, epoch(), stack.Status.LastPassTime.UTC())
	require.Equal(t, []string{"Normal Provisioned Reconcile: Every node is as desired."}, w.events)
}

// Case 100, near miss: without the finalizer there is no side effect.
func TestCase100NoFinalizerNoSideEffect(t *testing.T) {
	w := newWorld(t, newStack())
	w.onPatch = once(conflict())
	require.Equal(t, ctrl.Result{RequeueAfter: retryBase}, w.reconcile(), "a conflict is no error")
	require.Equal(t, []step{"patch"}, w.steps())

	w.onPatch = once(errors.New("the server is down"))
	_, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: theStack()})
	require.ErrorContains(t, err, "add finalizer")
	require.Equal(t, []step{"patch"}, w.steps())
}

// Case 101: progress requeues, and says so.
func TestCase101ProgressRequeues(t *testing.T) {
	cases := map[string]struct {
		reason    string
		err       error
		phase     string
		low, high time.Duration
	}{
		"yield": {reason: "the net below the events", err: provisioner.Yield(abi.ReasonApplicationInstalling, secretText), phase: v1alpha1.ReasonProvisioning, low: 9 * time.Second, high: 11 * time.Second},
		"retry": {reason: "the first backoff", err: provisioner.Retry(abi.ReasonChartUnavailable, secretText), phase: v1alpha1.ReasonRetrying, low: 900 * time.Millisecond, high: 1100 * time.Millisecond},
		"hint":  {reason: "as was asked", err: provisioner.Yield(abi.ReasonFactsMissing, "").WithRetryAfter(30 * time.Second), phase: v1alpha1.ReasonProvisioning, low: 30 * time.Second, high: 33 * time.Second},
		"bare":  {reason: "an error of nobody's is a retry", err: errors.New(secretText), phase: v1alpha1.ReasonRetrying, low: 900 * time.Millisecond, high: 1100 * time.Millisecond},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newStack())
			w.provision = returns(c.err)
			w.nodes = []plan.Result{result("all", v1alpha1.KindModule, abi.Yield.String(), abi.ReasonFactsMissing)}
			got := w.reconcile().RequeueAfter
			require.GreaterOrEqual(t, got, c.low, c.reason)
			require.LessOrEqual(t, got, c.high, c.reason)
			require.Equal(t, "False/"+c.phase, available(w.stack()))
			w.noWhy()
		})
	}
}

// noWhy checks that no error text came out where users look.
func (w *world) noWhy() {
	w.t.Helper()
	raw, err := json.Marshal(w.stack())
	require.NoError(w.t, err)
	require.NotContains(w.t, string(raw), "hunter2")
	for _, e := range w.events {
		require.NotContains(w.t, e, "hunter2")
	}
}

func TestBackoffGrowsWithFailuresInARow(t *testing.T) {
	w := newWorld(t, newStack())
	w.provision = returns(provisioner.Retry(abi.ReasonChartUnavailable, ""))
	for _, seconds := range []float64{1, 2, 4, 8} {
		require.InDelta(t, seconds, w.reconcile().RequeueAfter.Seconds(), seconds/10+0.01)
	}
	w.provision = returns(provisioner.Yield(abi.ReasonApplicationInstalling, ""))
	require.InDelta(t, 10, w.reconcile().RequeueAfter.Seconds(), 1.01)
	w.provision = returns(provisioner.Retry(abi.ReasonChartUnavailable, ""))
	require.InDelta(t, 1, w.reconcile().RequeueAfter.Seconds(), 0.11, "a yield ends the row")
}

// Case 102: what waits for somebody is not looked at again by the clock.
func TestCase102ParkIsComplete(t *testing.T) {
	stack := newStack()
	stack.Annotations = map[string]string{v1alpha1.RetryAnnotation: "first"}
	w := newWorld(t, stack)
	w.inputs = []provisioner.Input{secretInput("token", "")}
	w.provision = returns(provisioner.UserActionRequired(abi.ReasonSecretMissing, secretText))
	require.Equal(t, ctrl.Result{}, w.reconcile())
	parked := w.stack().Status.Parked
	require.NotNil(t, parked)
	require.Equal(t, "UserActionRequired", parked.Disposition)
	require.Equal(t, abi.ReasonSecretMissing, parked.Reason)
	require.Equal(t, "all", parked.Path)
	require.Equal(t, "first", parked.RetryToken)
	require.Equal(t, int64(1), parked.Generation)
	require.Equal(t, w.stack().Status.InputsDigest, parked.InputsDigest)
	require.Equal(t, epoch(), parked.Since.UTC())
	require.True(t, meta.IsStatusConditionTrue(w.stack().Status.Conditions, v1alpha1.ConditionStalled))
	w.noWhy()
}

// Case 103: a park whose write is lost is no park.
func TestCase103LostParkRequeues(t *testing.T) {
	cases := map[string]struct {
		reason string
		err    error
		silent bool
	}{
		"conflict": {reason: "lost a race: again, and no noise", err: conflict(), silent: true},
		"failure":  {reason: "the queue backs off", err: errors.New("etcd is away")},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newStack())
			w.provision = returns(provisioner.Terminal(abi.ReasonInvalidConfig, secretText))
			w.onStatus = once(c.err)
			got, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: theStack()})
			if c.silent {
				require.NoError(t, err, c.reason)
				require.Equal(t, retryBase, got.RequeueAfter)
			} else {
				require.ErrorContains(t, err, "write status", c.reason)
			}
			require.Nil(t, w.stack().Status.Parked)
			require.Empty(t, w.events, "nothing happened as far as anybody knows")
			w.steps()

			require.Equal(t, ctrl.Result{}, w.reconcile())
			require.Equal(t, []step{"tenant team/builder", "provision", "list uid-web", "patch status"}, w.steps(), "the pass is run again")
			require.NotNil(t, w.stack().Status.Parked)
		})
	}
}

// Case 104: a parked Stack sleeps through everything that is not news.
func TestCase104ParkedSleeps(t *testing.T) {
	w := newWorld(t, newStack(), newSecret("token"))
	w.inputs = []provisioner.Input{secretInput("token", w.versionOfSecret("token"))}
	w.provision = returns(provisioner.UserActionRequired(abi.ReasonForbidden, ""))
	w.reconcile()
	w.steps()

	before := w.stack()
	w.pass(24 * time.Hour)
	require.Equal(t, ctrl.Result{}, w.reconcile(), "no resync either")
	require.Empty(t, w.steps())

	// A restart forgets everything that is kept in memory.
	w.Wakes, w.Index = NewWakes(), NewInputIndex()
	require.Equal(t, ctrl.Result{}, w.reconcile())
	require.Empty(t, w.steps())
	require.Equal(t, before, w.stack())
	require.Equal(t, named("web"), w.Index.Readers(inputSecret, "team", "token"), "but the index is filled again without a pass")
}

// Cases 105 to 108: what revives, each once.
func TestCase105to108Revivals(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(*world)
		steps  []step
	}{
		"case 105, generation": {
			reason: "the spec was edited", change: func(w *world) { w.edit(func(s *v1alpha1.Stack) { s.Generation++ }) },
			steps: []step{"tenant team/builder", "provision", "list uid-web", "patch status"},
		},
		"case 107, retry token": {
			reason: "it was asked for", change: func(w *world) {
				w.edit(func(s *v1alpha1.Stack) { s.Annotations = map[string]string{v1alpha1.RetryAnnotation: "now"} })
			},
			steps: []step{"forget uid-web", "tenant team/builder", "provision", "list uid-web", "patch status"},
		},
		"case 108, input": {
			reason: "an object that was read has changed", change: func(w *world) {
				w.touch("token")
				w.inputs = []provisioner.Input{secretInput("token", w.versionOfSecret("token"))}
			},
			steps: []step{"forget uid-web", "tenant team/builder", "provision", "list uid-web", "patch status"},
		},
		"application": {
			reason: "the driver has news", change: func(w *world) { w.Wakes.Add(theStack(), Wake{Driver: true}) },
			steps: []step{"tenant team/builder", "provision", "list uid-web"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newStack(), newSecret("token"))
			w.inputs = []provisioner.Input{secretInput("token", w.versionOfSecret("token"))}
			w.provision = returns(provisioner.UserActionRequired(abi.ReasonForbidden, ""))
			w.reconcile()
			w.steps()
			c.change(w)
			require.Equal(t, ctrl.Result{}, w.reconcile())
			require.Equal(t, c.steps, w.steps(), c.reason)
			require.Equal(t, ctrl.Result{}, w.reconcile())
			require.Empty(t, w.steps(), "the same news again is none")
		})
	}
}

// Case 113: a suspended Stack rests, and says so once.
func TestCase113Suspended(t *testing.T) {
	w := newWorld(t, newStack())
	w.reconcile()
	w.steps()
	w.edit(func(s *v1alpha1.Stack) { s.Spec.Suspend = true; s.Generation++ })
	require.Equal(t, ctrl.Result{}, w.reconcile())
	require.Equal(t, []step{"patch status"}, w.steps())
	require.Equal(t, "False/Suspended", available(w.stack()))
	require.Len(t, w.stack().Status.Nodes, 1, "what is known of the nodes stays")

	w.Wakes.Add(theStack(), Wake{Driver: true})
	w.pass(time.Hour)
	require.Equal(t, ctrl.Result{}, w.reconcile())
	require.Empty(t, w.steps())

	w.edit(func(s *v1alpha1.Stack) { s.Spec.Suspend = false; s.Generation++ })
	w.reconcile()
	require.Equal(t, []step{"tenant team/builder", "provision", "list uid-web", "patch status"}, w.steps())
	require.Equal(t, "True/Provisioned", available(w.stack()))
}

// Case 114: a shutdown in the middle of a pass leaves the status to the next leader.
func TestCase114ShutdownWritesNothing(t *testing.T) {
	w := newWorld(t, newStack())
	w.reconcile()
	w.steps()
	before := w.stack()
	w.Wakes.Add(theStack(), Wake{Driver: true})
	ctx, stop := context.WithCancel(t.Context())
	w.provision = func(ctx context.Context) error {
		stop()
		<-ctx.Done()
		return ctx.Err()
	}
	got, err := w.Reconcile(ctx, ctrl.Request{NamespacedName: theStack()})
	require.NoError(t, err)
	require.Equal(t, ctrl.Result{}, got)
	require.Equal(t, []step{"tenant team/builder", "provision", "list uid-web"}, w.steps())
	require.Equal(t, before, w.stack())
	require.Len(t, w.events, 1, "only that of the first pass")
}

// A pass that ended before the shutdown came still writes what it found.
func TestShutdownAfterThePassStillWrites(t *testing.T) {
	w := newWorld(t, newStack())
	ctx, stop := context.WithCancel(t.Context())
	w.provision = func(context.Context) error { stop(); return nil }
	_, err := w.Reconcile(ctx, ctrl.Request{NamespacedName: theStack()})
	require.NoError(t, err)
	require.Equal(t, "True/Provisioned", available(w.stack()))
}

// A pass that takes too long is cut off, which is no shutdown.
func TestPassTimeout(t *testing.T) {
	w := newWorld(t, newStack())
	w.PassTimeout = time.Millisecond
	w.provision = func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	w.reconcile()
	require.Equal(t, "False/Retrying", available(w.stack()))
	message := meta.FindStatusCondition(w.stack().Status.Conditions, v1alpha1.ConditionAvailable).Message
	require.Contains(t, message, abi.ReasonDeadlineExceeded)
}

// Case 115: edits during a pass are not said to have been seen, and another pass follows.
func TestCase115EditsDuringAPass(t *testing.T) {
	w := newWorld(t, newStack())
	w.provision = func(context.Context) error {
		w.edit(func(s *v1alpha1.Stack) { s.Generation++ })
		w.edit(func(s *v1alpha1.Stack) { s.Generation++ })
		return nil
	}
	require.Equal(t, ctrl.Result{RequeueAfter: retryBase}, w.reconcile())
	require.Less(t, w.stack().Status.ObservedGeneration, w.stack().Generation)
	w.provision = nil
	w.reconcile()
	require.Equal(t, int64(3), w.stack().Status.ObservedGeneration)
	require.Equal(t, "True/Provisioned", available(w.stack()))
}

// Case 116: something that the driver installed changes, and the same writer says so.
func TestCase116DriverEvent(t *testing.T) {
	w := newWorld(t, newStack())
	w.reconcile()
	w.steps()
	w.Wakes.Add(theStack(), Wake{Driver: true})
	w.provision = returns(provisioner.Yield(abi.ReasonApplicationWaiting, ""))
	w.reconcile()
	require.Equal(t, []step{"tenant team/builder", "provision", "list uid-web", "patch status"}, w.steps(), "nobody's memory is dropped: no module is called")
	require.Equal(t, "False/Provisioning", available(w.stack()))
}

// A driver event whose pass came to nothing is not lost: the Stack is not looked at as if
// nothing had happened.
func TestDriverEventSurvivesALostWrite(t *testing.T) {
	cases := map[string]struct {
		reason string
		spoil  func(*world)
	}{
		"conflict":      {reason: "somebody else wrote", spoil: func(w *world) { w.onStatus = once(conflict()) }},
		"write failure": {reason: "the server was away", spoil: func(w *world) { w.onStatus = once(errors.New("etcd is away")) }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newStack())
			w.reconcile()
			w.Wakes.Add(theStack(), Wake{Driver: true})
			w.provision = returns(provisioner.Terminal(abi.ReasonApplicationFailed, ""))
			c.spoil(w)
			_, _ = w.Reconcile(t.Context(), ctrl.Request{NamespacedName: theStack()})
			require.Equal(t, "True/Provisioned", available(w.stack()))
			w.reconcile()
			require.Equal(t, "False/Terminal", available(w.stack()), c.reason)
		})
	}
}

// A wake that finds nothing new costs nothing: no write, no tree, no tenant.
func TestNoOpWake(t *testing.T) {
	w := newWorld(t, newStack(), newSecret("token"))
	w.inputs = []provisioner.Input{secretInput("token", w.versionOfSecret("token"))}
	w.facts = map[string]json.RawMessage{"mtu": json.RawMessage(`{ "b": 1450, "a": 2 }`)}
	w.reconcile()
	w.steps()
	before := w.stack()
	for range 3 {
		w.pass(time.Minute)
		require.Positive(t, w.reconcile().RequeueAfter, "the resync stays due")
	}
	require.Empty(t, w.steps())
	require.Equal(t, before, w.stack())
}

// A pass that finds the same writes nothing, so LastPassTime does not move by itself.
func TestPassWithoutNewsWritesNothing(t *testing.T) {
	w := newWorld(t, newStack())
	w.facts = map[string]json.RawMessage{"mtu": json.RawMessage(`{ "b": 1450, "a": null }`), "none": json.RawMessage(`null`)}
	w.reconcile()
	before := w.stack()
	require.JSONEq(t, `{"b": 1450, "a": null}`, string(before.Status.Facts["mtu"].Raw))
	require.Contains(t, before.Status.Facts, "none")
	w.steps()
	w.pass(12 * time.Minute)
	w.reconcile()
	require.Equal(t, []step{"forget uid-web", "tenant team/builder", "provision", "list uid-web"}, w.steps(), "the resync ran")
	require.Equal(t, before, w.stack())

	w.pass(12 * time.Minute)
	w.nodes = []plan.Result{result("all", v1alpha1.KindModule, abi.Yield.String(), abi.ReasonFactsMissing)}
	w.provision = returns(provisioner.Yield(abi.ReasonFactsMissing, ""))
	w.reconcile()
	require.Equal(t, epoch().Add(24*time.Minute), w.stack().Status.LastPassTime.UTC(), "it moves with a change")
}

// An input that changes while the pass runs is seen, though its event came too early for
// the index.
func TestMissedInput(t *testing.T) {
	w := newWorld(t, newStack(), newSecret("token"))
	w.inputs = []provisioner.Input{secretInput("token", w.versionOfSecret("token"))}
	w.provision = func(context.Context) error { w.touch("token"); return nil }
	require.Equal(t, retryBase, w.reconcile().RequeueAfter)
	w.steps()
	w.provision = nil
	w.inputs = []provisioner.Input{secretInput("token", w.versionOfSecret("token"))}
	require.Greater(t, w.reconcile().RequeueAfter, time.Minute)
	require.Equal(t, []step{"forget uid-web", "tenant team/builder", "provision", "list uid-web", "patch status"}, w.steps())
}

// The same, in a pass that parks: it must not sleep over the change.
func TestMissedInputOfAPark(t *testing.T) {
	w := newWorld(t, newStack())
	w.inputs = []provisioner.Input{secretInput("token", "")}
	w.provision = func(ctx context.Context) error {
		require.NoError(t, w.base.Create(context.WithoutCancel(ctx), newSecret("token")))
		return provisioner.UserActionRequired(abi.ReasonSecretMissing, "")
	}
	require.Equal(t, retryBase, w.reconcile().RequeueAfter)
	require.NotNil(t, w.stack().Status.Parked)
	w.provision = nil
	w.inputs = []provisioner.Input{secretInput("token", w.versionOfSecret("token"))}
	w.reconcile()
	require.Equal(t, "True/Provisioned", available(w.stack()))
}

// A cache that has not seen our own write yet is waited for: a pass on top of it would
// begin from a status that is no more.
func TestLateCache(t *testing.T) {
	w := newWorld(t, newStack())
	w.Wakes.Wrote(theStack(), "1000000", w.now())
	w.Wakes.Add(theStack(), Wake{Driver: true})
	require.Equal(t, ctrl.Result{RequeueAfter: cacheLag}, w.reconcile())
	require.Empty(t, w.steps())
	require.Equal(t, Wake{Driver: true}, w.Wakes.Take(theStack()), "the reason of the wake waits as well")

	w.pass(cacheLagLongest)
	w.reconcile()
	require.Equal(t, "True/Provisioned", available(w.stack()), "but not for ever")
}

// A status that was written on top of something old would leave a park in place.
func TestStatusWriteOnTopOfOldIsRefused(t *testing.T) {
	w := newWorld(t, newStack())
	w.provision = func(context.Context) error {
		w.edit(func(s *v1alpha1.Stack) { s.Labels = map[string]string{"edited": "meanwhile"} })
		return nil
	}
	require.Equal(t, ctrl.Result{RequeueAfter: retryBase}, w.reconcile())
	require.Empty(t, w.stack().Status.Conditions)
}

func TestUnplannableStackKeepsItsNodes(t *testing.T) {
	w := newWorld(t, newStack())
	w.facts = map[string]json.RawMessage{"mtu": json.RawMessage(`1450`)}
	w.reconcile()
	known := w.stack().Status
	w.edit(func(s *v1alpha1.Stack) { s.Generation++ })
	w.planErr = provisioner.Terminal(abi.ReasonInvalidStack, secretText)
	require.Equal(t, ctrl.Result{}, w.reconcile())
	require.Equal(t, "False/Terminal", available(w.stack()))
	require.Equal(t, known.Nodes, w.stack().Status.Nodes)
	require.Equal(t, known.Facts, w.stack().Status.Facts)
	require.Equal(t, known.Summary, w.stack().Status.Summary)
	w.noWhy()
}

func TestServiceAccount(t *testing.T) {
	stack := newStack()
	stack.Spec.ServiceAccountName = ""
	w := newWorld(t, stack)
	require.Equal(t, ctrl.Result{}, w.reconcile())
	require.Equal(t, []step{"patch", "patch status"}, w.steps(), "nothing falls back to the operator's own rights")
	require.Equal(t, abi.ReasonServiceAccountMissing, w.stack().Status.Parked.Reason)

	w.DefaultServiceAccount = "default-builder"
	w.edit(func(s *v1alpha1.Stack) { s.Generation++ })
	w.reconcile()
	require.Equal(t, []step{"tenant team/default-builder", "provision", "list uid-web", "patch status"}, w.steps())
}

func TestTenantFailure(t *testing.T) {
	w := newWorld(t, newStack())
	w.tenantErr = errors.New(secretText)
	w.reconcile()
	require.Equal(t, "False/Retrying", available(w.stack()))
	w.noWhy()
}

// The pass runs in the home scope of its owner, as its tenant.
func TestPassScope(t *testing.T) {
	w := newWorld(t, newStack())
	w.provision = func(ctx context.Context) error {
		s, ok := scope.FromContext(ctx)
		require.True(t, ok)
		require.Equal(t, scope.Owner{
			APIVersion: "caisson.dev/v1alpha1", Kind: "Stack", Namespace: "team", Name: "web", UID: "uid-web", Generation: 1,
		}, s.Owner())
		require.False(t, s.IsRemote())
		_, bounded := ctx.Deadline()
		require.True(t, bounded)
		return nil
	}
	w.reconcile()
}

func TestStackThatIsGone(t *testing.T) {
	w := newWorld(t)
	w.Wakes.Failed(theStack())
	w.Index.Set(theStack(), []v1alpha1.InputRecord{record(inputSecret, "token", "1")})
	require.Equal(t, ctrl.Result{}, w.reconcile())
	require.Empty(t, w.steps())
	require.Empty(t, w.Index.Readers(inputSecret, "team", "token"))
	require.Equal(t, 1, w.Wakes.Failed(theStack()), "its failures are forgotten")
}

// What a node that is switched off leaves is known only while it is installed.
func TestRetainedIsKeptWhenANodeGoes(t *testing.T) {
	w := newWorld(t, newStack())
	w.installed = []cd.Installed{{Retained: []string{"Namespace/gpu-operator"}}}
	w.reconcile()
	require.Equal(t, []string{"Namespace/gpu-operator"}, w.stack().Status.Retained)
	w.installed = nil
	w.Wakes.Add(theStack(), Wake{Driver: true})
	w.reconcile()
	require.Equal(t, []string{"Namespace/gpu-operator"}, w.stack().Status.Retained, "its entry is gone, and the namespace is not")

	w.listErr = errors.New("etcd is away")
	w.Wakes.Add(theStack(), Wake{Driver: true})
	w.reconcile()
	require.Equal(t, []string{"Namespace/gpu-operator"}, w.stack().Status.Retained, "not knowing is not knowing that there is nothing")
}
