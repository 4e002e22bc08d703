package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

const (
	// changesEach is how many changes a latency is made of.
	changesEach = 20
	// changeDeadline is when a change that has not come through counts as that long.
	changeDeadline = time.Minute
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

// change gives a Stack another revision, and waits for it by a watch.
func (s *site) change(ctx context.Context, key client.ObjectKey, revision int) (time.Duration, error) {
	deadline, cancel := context.WithTimeout(ctx, changeDeadline)
	defer cancel()
	stack := &v1alpha1.Stack{}
	if err := s.admin.Get(deadline, key, stack); err != nil {
		return 0, fmt.Errorf("read stack: %w", err)
	}
	events, err := s.watching.Watch(deadline, &v1alpha1.StackList{}, client.InNamespace(key.Namespace), client.MatchingFields{"metadata.name": key.Name})
	if err != nil {
		return 0, fmt.Errorf("watch stack: %w", err)
	}
	defer events.Stop()
	began := time.Now()
	// The number only has to differ from every one before.
	text := fmt.Sprintf(`{"spec":{"parameters":{"revision":%d}}}`, time.Now().UnixNano()%1_000_000_000+int64(revision))
	if err := s.admin.Patch(deadline, stack, client.RawPatch("application/merge-patch+json", []byte(text))); err != nil {
		return 0, fmt.Errorf("change stack: %w", err)
	}
	for event := range events.ResultChan() {
		now, ok := event.Object.(*v1alpha1.Stack)
		if ok && event.Type != watch.Deleted && now.Generation >= stack.Generation && isAvailable(now) {
			return time.Since(began), nil
		}
	}
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
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
