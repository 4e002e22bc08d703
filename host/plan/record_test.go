package plan

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/provisionertest"
)

// ticking is a clock that moves by a second with each look.
func ticking() func() time.Time {
	var mu sync.Mutex
	var now time.Time
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(time.Second)
		return now
	}
}

func TestRecord(t *testing.T) {
	untyped := errors.New("dial 10.0.0.7 token=secret")
	for name, tc := range map[string]struct {
		reason string
		up     error
		down   error
		remove bool
		want   Result
	}{
		"OK":        {reason: "what is there is OK", want: Result{State: "OK"}},
		"Yield":     {reason: "a yield has a reason", up: provisioner.Yield(abi.ReasonFactsMissing, "w"), want: Result{State: "Yield", Reason: abi.ReasonFactsMissing, Why: "w"}},
		"Terminal":  {reason: "on the way up a node may park", up: provisioner.Terminal(abi.ReasonInvalidConfig, "w"), want: Result{State: "Terminal", Reason: abi.ReasonInvalidConfig, Why: "w"}},
		"Untyped":   {reason: "an untyped error is a Retry, and its text is no sentence", up: untyped, want: Result{State: "Retry", Reason: abi.ReasonUnexpected, Why: untyped.Error()}},
		"Shutdown":  {reason: "a shutdown says nothing", up: provisioner.ErrShutdown, want: Result{State: v1alpha1.NodeWaiting}},
		"Removed":   {reason: "what is gone is Removed", remove: true, want: Result{State: v1alpha1.NodeRemoved}},
		"Removing":  {reason: "what is going has a reason", remove: true, down: provisioner.Yield(abi.ReasonApplicationDeleting, "w"), want: Result{State: "Yield", Reason: abi.ReasonApplicationDeleting, Why: "w"}},
		"NeverPark": {reason: "on the way down nothing parks", remove: true, down: provisioner.UserActionRequired(abi.ReasonForbidden, "w"), want: Result{State: "Retry", Reason: abi.ReasonForbidden, Why: "w"}},
	} {
		t.Run(name, func(t *testing.T) {
			node := Node{Name: "a", Path: "a", Kind: v1alpha1.KindSerial}
			below := Node{Name: "b", Path: "a/b", Kind: v1alpha1.KindModule}
			beside := Node{Name: "ab", Path: "ab", Kind: v1alpha1.KindModule}
			r := newRecord([]Node{beside, below, node}, ticking())
			child := provisionertest.New("a", &provisionertest.Trace{}).Up(tc.up).Down(tc.down)
			n := &recorded{node: node, inner: child, record: r}
			require.Equal(t, "a", n.PathSegment())
			require.Equal(t, "a", n.ProvisionerName())
			var err error
			if tc.remove {
				err = n.Deprovision(t.Context())
			} else {
				err = n.Provision(t.Context())
			}
			results := r.list()
			require.Equal(t, []string{"a", "a/b", "ab"}, []string{results[0].Path, results[1].Path, results[2].Path}, "sorted by path")
			got := results[0]
			require.Equal(t, err, got.Err)
			require.Equal(t, time.Second, got.Duration)
			sentence, _ := abi.HostSentence(tc.want.Reason)
			require.Equal(t, sentence, got.Sentence, "the sentence is a fixed one")
			got.Err, got.Duration, got.Sentence, got.Node = nil, 0, "", Node{}
			require.Equal(t, tc.want, got, tc.reason)

			wantBelow := v1alpha1.NodeWaiting
			if tc.want.State == v1alpha1.NodeRemoved {
				wantBelow = v1alpha1.NodeRemoved
			}
			require.Equal(t, wantBelow, results[1].State, "what is below goes with its node")
			require.Equal(t, v1alpha1.NodeWaiting, results[2].State, "what is beside does not")
		})
	}
}

func TestPanicIsAnError(t *testing.T) {
	for kind, want := range map[string]string{v1alpha1.KindModule: abi.ReasonModuleTrap, v1alpha1.KindApplication: abi.ReasonUnexpected} {
		node := Node{Name: "a", Path: "a", Kind: kind}
		r := newRecord([]Node{node}, ticking())
		boom := func(context.Context) error { panic("boom") }
		child := provisionertest.New("a", &provisionertest.Trace{}).OnUp(boom).OnDown(boom)
		n := &recorded{node: node, inner: child, record: r}
		for _, err := range []error{n.Provision(t.Context()), n.Deprovision(t.Context())} {
			outcome := provisioner.OutcomeOf(err)
			require.Equal(t, abi.Retry, outcome.Class)
			require.Equal(t, want, outcome.Headline.Reason)
			require.Contains(t, outcome.Headline.Why, "boom")
		}
		require.Equal(t, "Retry", r.list()[0].State)
	}
}

func TestRecordHammer(t *testing.T) {
	const workers, rounds = 8, 200
	nodes := []Node{{Name: "root", Path: "root"}}
	for i := range workers {
		nodes = append(nodes, Node{Name: fmt.Sprint(i), Path: fmt.Sprintf("root/%d", i)})
	}
	r := newRecord(nodes, ticking())
	var group sync.WaitGroup
	for i := range workers {
		n := &recorded{node: nodes[i+1], inner: provisionertest.New("x", &provisionertest.Trace{}), record: r}
		group.Go(func() {
			for range rounds {
				if n.Provision(context.Background()) != nil || n.Deprovision(context.Background()) != nil {
					t.Error("a child without a script is OK")
				}
				if len(r.list()) != workers+1 {
					t.Error("no node is lost")
				}
			}
		})
	}
	group.Wait()
	for _, result := range r.list()[1:] {
		require.Equal(t, v1alpha1.NodeRemoved, result.State)
	}
}
