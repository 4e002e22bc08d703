package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

const (
	// changesEach is how many changes a latency is made of.
	changesEach = 20
	// changeDeadline is when a change that has not come through counts as that long.
	changeDeadline = time.Minute
	changePoll     = 20 * time.Millisecond
)

// changes edits Stacks one after the other and returns how long each took from the edit
// until it was Available at its new generation: a call of each
// module leaf, and an upgrade of each application.
func (s *site) changes(ctx context.Context, l load, n int) ([]time.Duration, error) {
	took := make([]time.Duration, 0, n)
	for i := range n {
		d, err := s.change(ctx, keyOf(i*7919%l.stacks), i+1)
		if err != nil {
			return nil, err
		}
		took = append(took, d)
	}
	return took, nil
}

// change gives a Stack another revision, and looks at it until it is Available.
func (s *site) change(ctx context.Context, key client.ObjectKey, revision int) (time.Duration, error) {
	stack := &v1alpha1.Stack{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	// The number only has to differ from every one before.
	text := fmt.Sprintf(`{"spec":{"parameters":{"revision":%d}}}`, time.Now().UnixNano()%1_000_000_000+int64(revision))
	began := time.Now()
	if err := s.admin.Patch(ctx, stack, client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
		return 0, fmt.Errorf("change stack: %w", err)
	}
	changed := stack.Generation
	for time.Since(began) < changeDeadline {
		if stack.Generation >= changed && isAvailable(stack) {
			return time.Since(began), nil
		}
		if err := pause(ctx, changePoll); err != nil {
			return 0, err
		}
		if err := s.admin.Get(ctx, key, stack); err != nil {
			return 0, fmt.Errorf("read stack: %w", err)
		}
	}
	return changeDeadline, nil
}

// quantile returns the value below which that share of the values are.
func quantile(values []time.Duration, share float64) time.Duration {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(share*float64(len(sorted))), len(sorted)-1)]
}
