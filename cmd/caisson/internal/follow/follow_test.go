package follow_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/caisson-dev/caisson/cmd/caisson/internal/follow"
	"github.com/caisson-dev/caisson/cmd/caisson/internal/golden"
	"github.com/caisson-dev/caisson/cmd/caisson/internal/tree"
	"github.com/caisson-dev/caisson/cmd/caisson/internal/tree/treetest"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// patience is how long something that must happen may take.
const patience = 20 * time.Second

// recorder is a screen that keeps what it is shown.
type recorder struct {
	views  chan tree.View
	closed atomic.Int32
}

func (r *recorder) Show(_, after tree.View) { r.views <- after }
func (r *recorder) Close()                  { r.closed.Add(1) }

// fixture follows a Stack on a cluster that can be made to fail.
type fixture struct {
	t       *testing.T
	cluster client.WithWatch
	screen  *recorder
	// down makes every request fail with what it holds; denied is for watches alone.
	down, denied atomic.Pointer[error]
	// watches receives each watch that is opened.
	watches chan watch.Interface
	done    chan struct{}
	report  follow.Report
	err     error
}

func newFixture(t *testing.T, objects ...client.Object) *fixture {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	f := &fixture{t: t, screen: &recorder{views: make(chan tree.View, 1000)}, watches: make(chan watch.Interface, 100), done: make(chan struct{})}
	inner := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.Stack{}).Build()
	f.cluster = interceptor.NewClient(inner, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if err := f.down.Load(); err != nil {
				return *err
			}
			return c.Get(ctx, key, o, opts...)
		},
		Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
			for _, failure := range []*error{f.down.Load(), f.denied.Load()} {
				if failure != nil {
					return nil, *failure
				}
			}
			w, err := c.Watch(ctx, list, opts...)
			if err == nil {
				f.watches <- w
			}
			return w, err
		},
	})
	return f
}

// follow begins to follow.
func (f *fixture) follow(ctx context.Context, until follow.Until) {
	go func() {
		defer close(f.done)
		f.report, f.err = follow.Stack(ctx, f.cluster, types.NamespacedName{Namespace: "platform", Name: "platform"}, until, f.screen)
	}()
}

// watching waits until a watch is open, because a fake one says nothing of the past.
func (f *fixture) watching() watch.Interface {
	f.t.Helper()
	select {
	case w := <-f.watches:
		return w
	case <-time.After(patience):
		require.Fail(f.t, "no watch was opened")
		return nil
	}
}

// shown waits until a view is as wanted.
func (f *fixture) shown(what string, want func(tree.View) bool) tree.View {
	f.t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case v := <-f.screen.views:
			if want(v) {
				return v
			}
		case <-deadline:
			require.Fail(f.t, "was not shown", what)
		}
	}
}

func (f *fixture) phase(want string) tree.View {
	f.t.Helper()
	return f.shown("phase "+want, func(v tree.View) bool { return v.Phase == want })
}

// ended waits for the end and returns it.
func (f *fixture) ended() (follow.Report, error) {
	f.t.Helper()
	select {
	case <-f.done:
	case <-time.After(patience):
		require.Fail(f.t, "it goes on")
	}
	require.EqualValues(f.t, 1, f.screen.closed.Load(), "the screen is closed once")
	return f.report, f.err
}

// write makes the cluster's Stack that of a scene.
func (f *fixture) write(scene treetest.Scene) {
	f.t.Helper()
	stack := &v1alpha1.Stack{}
	key := client.ObjectKeyFromObject(scene.Stack)
	require.NoError(f.t, f.cluster.Get(f.t.Context(), key, stack))
	stack.Status = scene.Stack.Status
	require.NoError(f.t, f.cluster.Status().Update(f.t.Context(), stack))
}

// remove deletes the Stack.
func (f *fixture) remove() {
	f.t.Helper()
	require.NoError(f.t, f.cluster.Delete(f.t.Context(), treetest.Stack()))
}

func scene(name string) treetest.Scene {
	for _, s := range treetest.Life() {
		if s.Name == name {
			return s
		}
	}
	return treetest.Scene{}
}

func TestUntilAvailable(t *testing.T) {
	f := newFixture(t, treetest.Stack())
	f.follow(t.Context(), follow.Available)
	f.watching()
	f.phase("Pending")
	var seen []string
	for _, s := range treetest.Life()[1:6] {
		f.write(s)
		seen = append(seen, f.shown(s.Name, func(v tree.View) bool { return v.Summary == s.Stack.Status.Summary && v.Phase != "Pending" }).Phase)
	}
	report, err := f.ended()
	require.NoError(t, err)
	require.Equal(t, []string{"Provisioning", "Provisioning", "UserActionRequired", "Provisioning", "Provisioned"}, seen)
	require.True(t, report.Last.Available)
	require.Equal(t, "5/5", report.Last.Summary)
	var trace strings.Builder
	at := time.Duration(0)
	for _, x := range report.Transitions {
		require.GreaterOrEqual(t, x.At, at, "in the order of time")
		at = x.At
		trace.WriteString(strings.TrimSpace(x.Node+" "+x.Disposition+" "+x.Reason) + "\n")
	}
	golden.Equal(t, "transitions", trace.String())
}

func TestAlreadyThere(t *testing.T) {
	f := newFixture(t, scene("available").Stack)
	f.follow(t.Context(), follow.Available)
	report, err := f.ended()
	require.NoError(t, err)
	require.True(t, report.Last.Available)
	require.Len(t, report.Transitions, 9, "what is found counts as seen")
	require.Empty(t, f.watches, "one look is enough")
}

// A condition of an older spec must not end the wait.
func TestAvailableIsAboutTheCurrentSpec(t *testing.T) {
	stack := scene("available").Stack.DeepCopy()
	stack.Generation++
	f := newFixture(t, stack)
	f.follow(t.Context(), follow.Available)
	f.watching()
	f.phase("Pending")
	current := stack.DeepCopy()
	current.Status.Conditions[0].ObservedGeneration++
	f.write(treetest.Scene{Stack: current})
	_, err := f.ended()
	require.NoError(t, err)
}

func TestUntilGone(t *testing.T) {
	f := newFixture(t, scene("going").Stack)
	f.follow(t.Context(), follow.Gone)
	f.watching()
	stack := &v1alpha1.Stack{}
	require.NoError(t, f.cluster.Get(t.Context(), types.NamespacedName{Namespace: "platform", Name: "platform"}, stack))
	stack.Finalizers = nil
	require.NoError(t, f.cluster.Update(t.Context(), stack))
	report, err := f.ended()
	require.NoError(t, err)
	require.Equal(t, tree.Missing("platform", "platform"), report.Last)
	require.NotEmpty(t, report.Transitions, "what was seen before is kept")
}

func TestUntilGoneOfNothing(t *testing.T) {
	f := newFixture(t)
	f.follow(t.Context(), follow.Gone)
	report, err := f.ended()
	require.NoError(t, err)
	require.Equal(t, tree.Gone, report.Last.Phase)
}

// One that was made anew while nobody watched is another one.
func TestUntilGoneOfAnother(t *testing.T) {
	first := treetest.Stack()
	first.UID = "1"
	f := newFixture(t, first)
	f.follow(t.Context(), follow.Gone)
	w := f.watching()
	f.phase("Pending")
	w.Stop()
	f.remove()
	second := treetest.Stack()
	second.UID = "2"
	require.NoError(t, f.cluster.Create(t.Context(), second))
	report, err := f.ended()
	require.NoError(t, err)
	require.Equal(t, tree.Gone, report.Last.Phase)
}

func TestNotFound(t *testing.T) {
	for _, until := range []follow.Until{follow.Forever, follow.Available} {
		other := treetest.Stack()
		other.Name = "other"
		f := newFixture(t, other)
		f.follow(t.Context(), until)
		report, err := f.ended()
		require.ErrorIs(t, err, follow.ErrNotFound)
		require.ErrorContains(t, err, "platform/platform")
		require.Empty(t, report.Last.Name)
	}
}

func TestDeletedInsteadOfAvailable(t *testing.T) {
	f := newFixture(t, treetest.Stack())
	f.follow(t.Context(), follow.Available)
	f.watching()
	f.remove()
	report, err := f.ended()
	require.ErrorIs(t, err, follow.ErrDeleted, "it will not become available any more")
	require.Equal(t, tree.Gone, report.Last.Phase)
}

// A Stack is parked if what is recorded is about the spec that is there.
func TestParked(t *testing.T) {
	parked := scene("secret").Stack
	parked.Status.Parked = &v1alpha1.Parked{Generation: parked.Generation}
	f := newFixture(t, parked)
	f.follow(t.Context(), follow.Parked)
	report, err := f.ended()
	require.NoError(t, err)
	require.Equal(t, "UserActionRequired", report.Last.Phase)

	parked.Status.Parked.Generation--
	parked.ResourceVersion = ""
	f = newFixture(t, parked)
	f.follow(t.Context(), follow.Parked)
	f.watching()
	f.remove()
	_, err = f.ended()
	require.ErrorIs(t, err, follow.ErrDeleted, "it was waited for, and went")
}

func TestForever(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	f := newFixture(t, scene("available").Stack)
	f.follow(ctx, follow.Forever)
	f.watching()
	f.phase("Provisioned")

	other := treetest.Stack()
	other.Name = "other"
	require.NoError(t, f.cluster.Create(t.Context(), other))
	f.remove()
	f.phase("Gone")
	again := treetest.Stack()
	require.NoError(t, f.cluster.Create(t.Context(), again))
	f.phase("Pending")

	enough := errors.New("enough")
	cancel(enough)
	report, err := f.ended()
	require.ErrorIs(t, err, enough, "the cause of the context's end")
	require.Equal(t, "platform", report.Last.Name, "another Stack is not ours")
}

func TestTimeout(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	f := newFixture(t, treetest.Stack())
	f.follow(ctx, follow.Available)
	report, err := f.ended()
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, tree.Pending, report.Last.Phase, "with how it was at last")
}

// Ages grow on the screen though nothing happens.
func TestShowsEverySecond(t *testing.T) {
	f := newFixture(t, scene("available").Stack)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f.follow(ctx, follow.Forever)
	first := f.phase("Provisioned")
	f.shown("a greater age", func(v tree.View) bool { return v.Rows[0].Since > first.Rows[0].Since })
	cancel()
	report, _ := f.ended()
	require.Len(t, report.Transitions, 9, "an age is no change")
}

func TestWatchEnds(t *testing.T) {
	f := newFixture(t, treetest.Stack())
	f.follow(t.Context(), follow.Available)
	f.watching().Stop()
	f.write(scene("available")) // nobody watches, or the second watch has begun: both must do
	report, err := f.ended()
	require.NoError(t, err)
	require.True(t, report.Last.Available)
}

func TestClusterIsAway(t *testing.T) {
	refused := errors.New("dial tcp 127.0.0.1:6443: connect: connection refused")
	busy := error(apierrors.NewTooManyRequests("busy", 1))
	for name, failure := range map[string]error{"refused": refused, "busy": busy} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, scene("repaired").Stack)
			f.follow(t.Context(), follow.Available)
			w := f.watching()
			f.down.Store(&failure)
			w.Stop()
			lost := f.shown("that it does not answer", func(v tree.View) bool { return v.Unanswered })
			require.Equal(t, "3/5", lost.Summary, "what was seen last stays")
			f.shown("that it still does not", func(v tree.View) bool { return v.Unanswered })
			f.down.Store(nil)
			f.shown("that it answers", func(v tree.View) bool { return !v.Unanswered })
			f.watching()
			f.write(scene("available"))
			report, err := f.ended()
			require.NoError(t, err)
			require.False(t, report.Last.Unanswered)
		})
	}
}

func TestWatchIsRefused(t *testing.T) {
	f := newFixture(t, treetest.Stack())
	unavailable := error(apierrors.NewServiceUnavailable("starting"))
	f.denied.Store(&unavailable)
	f.follow(t.Context(), follow.Available)
	f.shown("that it does not answer", func(v tree.View) bool { return v.Unanswered })
	f.denied.Store(nil)
	f.watching()
	f.write(scene("available"))
	_, err := f.ended()
	require.NoError(t, err)
}

func TestGoneWhileAway(t *testing.T) {
	f := newFixture(t, treetest.Stack())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f.follow(ctx, follow.Forever)
	w := f.watching()
	f.phase("Pending")
	refused := errors.New("connection refused")
	f.down.Store(&refused)
	w.Stop()
	f.shown("that it does not answer", func(v tree.View) bool { return v.Unanswered })
	f.remove()
	f.down.Store(nil)
	gone := f.phase("Gone")
	require.False(t, gone.Unanswered)
	f.watching()
	cancel()
	_, err := f.ended()
	require.ErrorIs(t, err, context.Canceled)
}

func TestErrorsThatDoNotPass(t *testing.T) {
	stacks := schema.GroupResource{Group: "caisson.dev", Resource: "stacks"}
	refused := errors.New("connection refused")
	forbidden := error(apierrors.NewForbidden(stacks, "platform", errors.New("no rule")))
	unauthorized := error(apierrors.NewUnauthorized("the token has expired"))
	cases := map[string]struct {
		reason  string
		failure error
		watch   bool
	}{
		"NeverAnswered":  {reason: "somebody who named the wrong cluster must not wait for ever", failure: refused},
		"Forbidden":      {reason: "rights do not come by waiting", failure: forbidden},
		"WatchForbidden": {reason: "one may be allowed to get and not to watch", failure: forbidden, watch: true},
		"WatchExpired":   {reason: "a new token does not come by waiting", failure: unauthorized, watch: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, treetest.Stack())
			if tc.watch {
				f.denied.Store(&tc.failure)
			} else {
				f.down.Store(&tc.failure)
			}
			f.follow(t.Context(), follow.Forever)
			_, err := f.ended()
			require.ErrorIs(t, err, tc.failure, tc.reason)
			require.ErrorContains(t, err, "read stack platform/platform: ")
		})
	}
}
