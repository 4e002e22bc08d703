package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/internal/testenv"
	"github.com/caisson-dev/caisson/host/sandbox/internal/wasmtest"
)

// sample is what was seen of everybody else during some time.
type sample struct {
	// Changes are how long changes of the neighbour took, in milliseconds, in order.
	Changes []float64 `json:"changesMilliseconds"`
	// HeartbeatGap is the longest time without an answer of the operator.
	HeartbeatGap float64 `json:"heartbeatGapMilliseconds"`
	// LeaseMissed counts renewals that came after the deadline for them.
	LeaseMissed int `json:"leaseRenewalsMissed"`
	// OperatorBytes and WorkerBytes are peaks of resident memory; that of the largest worker.
	OperatorBytes int64 `json:"operatorBytes"`
	WorkerBytes   int64 `json:"workerBytes"`
}

// add makes what was seen at another time a part of s.
func (s *sample) add(other sample) {
	s.Changes = append(s.Changes, other.Changes...)
	slices.Sort(s.Changes)
	s.HeartbeatGap = max(s.HeartbeatGap, other.HeartbeatGap)
	s.LeaseMissed += other.LeaseMissed
	s.OperatorBytes, s.WorkerBytes = max(s.OperatorBytes, other.OperatorBytes), max(s.WorkerBytes, other.WorkerBytes)
}

// watcher looks at everybody else.
type watcher struct {
	site *site

	mu       sync.Mutex
	current  sample
	renewed  time.Time
	answered time.Time
}

// watch begins to look, until ctx ends.
func (s *site) watch(ctx context.Context) (*watcher, error) {
	w := &watcher{site: s, answered: time.Now()}
	s.push("neighbour", harmless("neighbour"))
	if _, err := testenv.Apply(ctx, s.admin, moduleYAML(s.registry.Ref("attacks/neighbour:1"), wasmtest.Attack{Name: "neighbour"}, nil)); err != nil {
		return nil, fmt.Errorf("create the neighbour's Module: %w", err)
	}
	if _, err := testenv.Apply(ctx, s.admin, fmt.Sprintf(stackYAML, "neighbour", "neighbour", "neighbour", "1")); err != nil {
		return nil, fmt.Errorf("create the neighbour's Stack: %w", err)
	}
	if err := await(ctx, "the neighbour", func() (bool, string) {
		stack := w.neighbour(ctx)
		return settled(stack), fmt.Sprint(stack.Status.Conditions)
	}); err != nil {
		return nil, err
	}
	for _, look := range []func(context.Context){w.change, w.beat, w.renewals, w.memory} {
		go look(ctx)
	}
	pause(ctx, lease) // what starts is not what is undisturbed
	w.take()
	return w, nil
}

func (w *watcher) neighbour(ctx context.Context) *v1alpha1.Stack {
	stack := &v1alpha1.Stack{}
	_ = w.site.admin.Get(ctx, client.ObjectKey{Namespace: "neighbour", Name: "neighbour"}, stack)
	return stack
}

// settled says that the last change has been carried out.
func settled(stack *v1alpha1.Stack) bool {
	return stack.Generation > 0 && stack.Status.ObservedGeneration == stack.Generation &&
		meta.IsStatusConditionTrue(stack.Status.Conditions, v1alpha1.ConditionAvailable)
}

// change changes a parameter again and again, and times how long it takes until that is done.
func (w *watcher) change(ctx context.Context) {
	for ctx.Err() == nil {
		seen, err := w.site.admin.Watch(ctx, &v1alpha1.StackList{}, client.InNamespace("neighbour"))
		if err != nil {
			pause(ctx, pollEvery)
			continue
		}
		w.changeWhile(ctx, seen.ResultChan())
		seen.Stop()
	}
}

// changeWhile is change for as long as the API server tells what becomes of the Stack. It
// is told and does not ask: to ask every other millisecond takes a good part of what there
// is of two cores.
func (w *watcher) changeWhile(ctx context.Context, seen <-chan watch.Event) {
	for ctx.Err() == nil {
		stack := w.neighbour(ctx)
		stack.Spec.Parameters = map[string]apiextensionsv1.JSON{"round": {Raw: strconv.AppendInt(nil, stack.Generation, 10)}}
		began := time.Now()
		if err := w.site.admin.Update(ctx, stack); err != nil {
			pause(ctx, pollEvery)
			continue
		}
		for done := false; !done; {
			event, open := <-seen
			if !open {
				return
			}
			now, ok := event.Object.(*v1alpha1.Stack)
			done = ok && now.Generation >= stack.Generation && settled(now)
		}
		took := time.Since(began)
		w.mu.Lock()
		w.current.Changes = append(w.current.Changes, float64(took.Microseconds())/1000)
		w.mu.Unlock()
		pause(ctx, 50*time.Millisecond)
	}
}

// probe asks the operator how it is.
func (s *site) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lease)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.health+"/healthz", http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// beat probes the operator all the time.
func (w *watcher) beat(ctx context.Context) {
	for ctx.Err() == nil {
		err := w.site.probe(ctx)
		now := time.Now()
		w.mu.Lock()
		w.current.HeartbeatGap = max(w.current.HeartbeatGap, float64(now.Sub(w.answered).Microseconds())/1000)
		if err == nil {
			w.answered = now
		}
		w.mu.Unlock()
		pause(ctx, 20*time.Millisecond)
	}
}

// renewals looks at the lease.
func (w *watcher) renewals(ctx context.Context) {
	key := client.ObjectKey{Namespace: operatorNamespace, Name: operatorName}
	for ctx.Err() == nil {
		found := &coordinationv1.Lease{}
		if w.site.admin.Get(ctx, key, found) == nil && found.Spec.RenewTime != nil {
			renewed := found.Spec.RenewTime.Time
			w.mu.Lock()
			if !w.renewed.IsZero() && renewed.Sub(w.renewed) > renewDeadline {
				w.current.LeaseMissed++
			}
			w.renewed = renewed
			w.mu.Unlock()
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// memory looks at the operator and its workers.
func (w *watcher) memory(ctx context.Context) {
	operator := strconv.Itoa(w.site.operator.Process.Pid)
	for ctx.Err() == nil {
		mine, largest := peak(operator), int64(0)
		for _, pid := range descendants(operator) {
			largest = max(largest, peak(pid))
		}
		w.mu.Lock()
		w.current.OperatorBytes = max(w.current.OperatorBytes, mine)
		w.current.WorkerBytes = max(w.current.WorkerBytes, largest)
		w.mu.Unlock()
		pause(ctx, 20*time.Millisecond)
	}
}

// descendants lists the processes that one has started, and that those have: workers are
// children of a process that forks them.
func descendants(pid string) []string {
	var all []string
	lists, _ := filepath.Glob("/proc/" + pid + "/task/*/children")
	for _, list := range lists {
		raw, _ := os.ReadFile(list) // it has ended
		for _, child := range strings.Fields(string(raw)) {
			all = append(append(all, child), descendants(child)...)
		}
	}
	return all
}

// peak reads the peak of resident memory of a process, in bytes; 0 if it has ended.
func peak(pid string) int64 {
	raw, _ := os.ReadFile(filepath.Join("/proc", filepath.Base(pid), "status"))
	for line := range strings.Lines(string(raw)) {
		if name, value, _ := strings.Cut(line, ":"); name == "VmHWM" {
			kilobytes, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return kilobytes << 10
		}
	}
	return 0
}

// changes is how many changes have been timed since the last take.
func (w *watcher) changes() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.current.Changes)
}

// take returns what was seen since it was called before. The peak of the operator begins
// anew as well.
func (w *watcher) take() sample {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := w.current
	w.current = sample{}
	// 5 resets the peak; where that is not possible the peak is that of all the time.
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", w.site.operator.Process.Pid), []byte("5"), 0)
	slices.Sort(taken.Changes)
	return taken
}

// pause waits, unless ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
