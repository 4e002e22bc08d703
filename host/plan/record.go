package plan

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/provisioner"
)

// Node is a node of a tree.
type Node struct {
	// Name is the node's name in the spec.
	Name string
	// Path is the names from the root to the node, joined by slashes.
	Path string
	// Kind is serial, concurrent, conditional, remotecluster, application or module.
	Kind string
}

// Result is what a pass came to at one node.
type Result struct {
	Node
	// State is a disposition of the ABI; or v1alpha1.NodeWaiting for a node that the pass
	// did not reach, about which it says nothing; or v1alpha1.NodeRemoved for one that the
	// pass found gone, because a condition switched it off or its Stack is being deleted.
	State string
	// Reason and Sentence are safe to show to users; empty when there is nothing to say.
	// Those of a node with children are those of its most severe descendant.
	Reason   string
	Sentence string
	// Why is for logs only.
	Why string
	// Duration is how long the call took; 0 for a node that was not called.
	Duration time.Duration
	// Err is what the node returned. It is for logs only.
	Err error
}

// record takes down what each node of a tree returns. It is safe for concurrent use.
type record struct {
	now     func() time.Time
	mu      sync.Mutex
	results map[string]Result // by path
}

func newRecord(nodes []Node, now func() time.Time) *record {
	results := make(map[string]Result, len(nodes))
	for _, node := range nodes {
		results[node.Path] = Result{Node: node, State: v1alpha1.NodeWaiting}
	}
	return &record{now: now, results: results}
}

// list returns the results sorted by path.
func (r *record) list() []Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]Result, 0, len(r.results))
	for _, result := range r.results {
		list = append(list, result)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Path < list[j].Path })
	return list
}

// provisioned takes down the result of a Provision. A shutdown says nothing about the
// node, so it leaves it as not reached.
func (r *record) provisioned(node Node, started time.Time, err error) {
	r.set(resultOf(node, r.now().Sub(started), err))
}

// deprovisioned takes down the result of a Deprovision. A node that is gone takes its
// descendants with it, reached or not.
func (r *record) deprovisioned(node Node, started time.Time, err error) {
	result := resultOf(node, r.now().Sub(started), err)
	if err == nil {
		result.State = v1alpha1.NodeRemoved
		r.removeBelow(node.Path)
	}
	r.set(result)
}

func (r *record) set(result Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results[result.Path] = result
}

func (r *record) removeBelow(path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, result := range r.results {
		if strings.HasPrefix(key, path+"/") {
			r.results[key] = Result{Node: result.Node, State: v1alpha1.NodeRemoved, Duration: result.Duration}
		}
	}
}

func resultOf(node Node, took time.Duration, err error) Result {
	outcome := provisioner.OutcomeOf(err)
	result := Result{Node: node, Duration: took, Err: err}
	if outcome.Cancelled {
		result.State = v1alpha1.NodeWaiting
		return result
	}
	result.State = outcome.Headline.Disposition.String()
	result.Reason = outcome.Headline.Reason
	result.Sentence = outcome.Headline.Sentence
	result.Why = outcome.Headline.Why
	return result
}

// recorded is a node of the tree: it gives its provisioner the node's name in paths,
// takes down what it returns, and turns a panic into an error.
type recorded struct {
	node   Node
	inner  provisioner.Provisioner
	record *record
}

var (
	_ provisioner.Provisioner = (*recorded)(nil)
	_ provisioner.Segmented   = (*recorded)(nil)
)

// ProvisionerName implements provisioner.Provisioner.
func (r *recorded) ProvisionerName() string { return r.node.Name }

// PathSegment implements provisioner.Segmented.
func (r *recorded) PathSegment() string { return r.node.Name }

// Provision implements provisioner.Provisioner.
func (r *recorded) Provision(ctx context.Context) error {
	started := r.record.now()
	err := r.guarded(ctx, r.inner.Provision)
	r.record.provisioned(r.node, started, err)
	return err
}

// Deprovision implements provisioner.Provisioner. Its error never parks.
func (r *recorded) Deprovision(ctx context.Context) error {
	started := r.record.now()
	err := provisioner.Unpark(r.guarded(ctx, r.inner.Deprovision))
	r.record.deprovisioned(r.node, started, err)
	return err
}

// guarded calls a provisioner so that its panic is its error and no more: the other
// nodes of the pass, and the process, go on.
func (r *recorded) guarded(ctx context.Context, call func(context.Context) error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = provisioner.Retry(r.panicReason(), fmt.Sprintf("panic: %v", cause))
		}
	}()
	return call(ctx)
}

// panicReason blames a module only for what it may have caused.
func (r *recorded) panicReason() string {
	if r.node.Kind == v1alpha1.KindModule {
		return abi.ReasonModuleTrap
	}
	return abi.ReasonUnexpected
}
