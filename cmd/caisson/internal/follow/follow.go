package follow

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/cmd/caisson/internal/tree"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// Until says when to stop following.
type Until string

// The ends.
const (
	// Forever follows until the context ends.
	Forever Until = ""
	// Available stops when the Stack is available in its current generation.
	Available Until = "available"
	// Parked stops when nothing more will happen to the Stack in its current generation
	// before somebody acts.
	Parked Until = "parked"
	// Gone stops when the Stack does not exist any more.
	Gone Until = "gone"
)

// The ends that nobody wants.
var (
	// ErrNotFound says that there is no such Stack to begin with.
	ErrNotFound = errors.New("no such stack")
	// ErrDeleted says that the Stack went while it was waited for to become something else.
	ErrDeleted = errors.New("the stack was deleted")
)

// rewatch is how long to wait before a watch that ended is started again.
const rewatch = 500 * time.Millisecond

// Transition is a node that changed.
type Transition struct {
	// At is when it was seen, since the start of following.
	At          time.Duration
	Node        string
	Disposition string
	Reason      string
}

// Report is what was seen.
type Report struct {
	// Transitions are in the order in which they were seen, those of one look in the order
	// of the tree.
	Transitions []Transition
	// Last is the last view; its name is empty if the Stack was never seen.
	Last tree.View
}

// Screen shows views.
type Screen interface {
	// Show is called for every change, and once a second so that ages grow.
	Show(before, after tree.View)
	// Close leaves the last view on the screen.
	Close()
}

// Stack follows a Stack until it is as wanted. A cluster that stops answering is asked
// again until the context ends, but the first look must succeed. The error is ErrNotFound
// if there is no such Stack to begin with, ErrDeleted if it went while it was waited for
// to become something else, and the context's cause if that ends first.
func Stack(ctx context.Context, c client.WithWatch, name types.NamespacedName, until Until, screen Screen) (Report, error) {
	f := &follower{client: c, name: name, until: until, screen: screen, start: time.Now()}
	defer screen.Close()
	for {
		done, err := f.look(ctx)
		if done || err != nil {
			return f.report, err
		}
		select {
		case <-ctx.Done():
			return f.report, context.Cause(ctx)
		case <-time.After(rewatch):
		}
	}
}

type follower struct {
	client client.WithWatch
	name   types.NamespacedName
	until  Until
	screen Screen
	start  time.Time

	// stack is what was seen last; nil while there is none.
	stack      *v1alpha1.Stack
	unanswered bool
	report     Report
}

// look reads the Stack and follows one watch to its end. It reports whether the wanted end
// is reached.
func (f *follower) look(ctx context.Context) (bool, error) {
	if done, err := f.read(ctx); done || err != nil {
		return done, err
	}
	w, err := f.client.Watch(ctx, &v1alpha1.StackList{}, &client.ListOptions{
		Namespace: f.name.Namespace, FieldSelector: fields.OneTermEqualSelector("metadata.name", f.name.Name),
	})
	if err != nil {
		return false, f.lost(ctx, err)
	}
	defer w.Stop()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-ticker.C:
			f.show()
		case e, open := <-w.ResultChan():
			if !open {
				return false, nil
			}
			if done, err := f.take(e); done || err != nil {
				return done, err
			}
		}
	}
}

// read looks once, so that nothing is missed between two watches.
func (f *follower) read(ctx context.Context) (bool, error) {
	stack := &v1alpha1.Stack{}
	err := f.client.Get(ctx, f.name, stack)
	switch {
	case apierrors.IsNotFound(err):
		return f.gone()
	case err != nil:
		return false, f.lost(ctx, err)
	}
	f.unanswered = false
	return f.see(stack), nil
}

// take takes in an event of the watch.
func (f *follower) take(e watch.Event) (bool, error) {
	stack, ok := e.Object.(*v1alpha1.Stack)
	if !ok || stack.Name != f.name.Name {
		return false, nil // an error that ends the watch, or a server that does not select
	}
	if e.Type == watch.Deleted {
		return f.gone()
	}
	return f.see(stack), nil
}

// see shows a Stack, and reports whether that is what was waited for. One that was made
// anew under the name means that the other is gone.
func (f *follower) see(stack *v1alpha1.Stack) bool {
	if f.until == Gone && f.stack != nil && f.stack.UID != stack.UID {
		f.stack = nil
		f.advance(tree.Missing(f.name.Namespace, f.name.Name))
		return true
	}
	f.stack = stack
	f.show()
	switch f.until {
	case Available:
		return f.report.Last.Available
	case Parked:
		parked := stack.Status.Parked
		return parked != nil && parked.Generation == stack.Generation
	default:
		return false
	}
}

// gone takes in that there is no Stack. Who just watches may see it come back.
func (f *follower) gone() (bool, error) {
	seen := f.report.Last.Name != ""
	if !seen && f.until != Gone {
		return false, fmt.Errorf("%s: %w", f.name, ErrNotFound)
	}
	f.stack, f.unanswered = nil, false
	f.advance(tree.Missing(f.name.Namespace, f.name.Name))
	if f.until == Available || f.until == Parked {
		return false, fmt.Errorf("%s: %w", f.name, ErrDeleted)
	}
	return f.until == Gone, nil
}

// lost takes in that the cluster does not answer. It is an error if that cannot be
// expected to pass.
func (f *follower) lost(ctx context.Context, err error) error {
	never := f.report.Last.Name == ""
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case never, apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return fmt.Errorf("read stack %s: %w", f.name, err)
	}
	f.unanswered = true
	f.show()
	return nil
}

// show computes the view as it is now and tells the screen.
func (f *follower) show() {
	next := tree.Missing(f.name.Namespace, f.name.Name)
	if f.stack != nil {
		next = tree.Of(f.stack, time.Now())
	}
	next.Unanswered = f.unanswered
	f.advance(next)
}

func (f *follower) advance(next tree.View) {
	at := time.Since(f.start)
	known := map[string]tree.Row{}
	for _, r := range f.report.Last.Rows {
		known[r.Name] = r
	}
	for _, r := range next.Rows {
		if was, ok := known[r.Name]; !ok || was.Disposition != r.Disposition || was.Reason != r.Reason {
			f.report.Transitions = append(f.report.Transitions, Transition{At: at, Node: r.Name, Disposition: r.Disposition, Reason: r.Reason})
		}
	}
	f.screen.Show(f.report.Last, next)
	f.report.Last = next
}
