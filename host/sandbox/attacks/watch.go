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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/internal/testenv"
	"github.com/caisson-dev/caisson/host/registry/registrytest"
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
	good := wasmtest.New().Describing(`{"abi":1,"name":"neighbour","version":"1.0.0"}`).Provisioner(wasmtest.I32Const(0))
	s.registry.Put(s, "attacks/neighbour", "1", registrytest.Artifact{
		ConfigType: "application/vnd.wasm.config.v0+json",
		Layers:     []registrytest.Layer{{MediaType: "application/wasm", Content: good}},
	})
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

// change changes a parameter, and times how long it takes until that is done.
func (w *watcher) change(ctx context.Context) {
	for round := 1; ctx.Err() == nil; round++ {
		stack := w.neighbour(ctx)
		stack.Spec.Parameters = map[string]apiextensionsv1.JSON{"round": {Raw: strconv.AppendInt(nil, int64(round), 10)}}
		began := time.Now()
		if err := w.site.admin.Update(ctx, stack); err != nil {
			pause(ctx, pollEvery)
			continue
		}
		for ctx.Err() == nil {
			if now := w.neighbour(ctx); now.Generation >= stack.Generation && settled(now) {
				break
			}
			pause(ctx, 2*time.Millisecond)
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
		mine, _ := status(operator)
		largest := int64(0)
		for _, pid := range children(operator) {
			peak, _ := status(pid)
			largest = max(largest, peak)
		}
		w.mu.Lock()
		w.current.OperatorBytes = max(w.current.OperatorBytes, mine)
		w.current.WorkerBytes = max(w.current.WorkerBytes, largest)
		w.mu.Unlock()
		pause(ctx, 20*time.Millisecond)
	}
}

// children lists the processes whose parent is one.
func children(parent string) []string {
	all, _ := filepath.Glob("/proc/[0-9]*")
	return slices.DeleteFunc(all, func(dir string) bool {
		_, of := status(filepath.Base(dir))
		return of != parent
	})
}

// status reads the peak of resident memory and the parent of a process.
func status(pid string) (peak int64, parent string) {
	raw, err := os.ReadFile(filepath.Join("/proc", filepath.Base(pid), "status"))
	if err != nil {
		return 0, "" // it has ended
	}
	for line := range strings.Lines(string(raw)) {
		name, value, _ := strings.Cut(line, ":")
		switch fields := strings.Fields(value); {
		case len(fields) == 0:
		case name == "VmHWM":
			kilobytes, _ := strconv.ParseInt(fields[0], 10, 64)
			peak = kilobytes << 10
		case name == "PPid":
			parent = fields[0]
		}
	}
	return peak, parent
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
