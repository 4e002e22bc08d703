package plan

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

// prunable has a leaf at home and one on a remote.
const prunable = `
remotes:
- {name: workload, owned: true, kubeconfigSecret: {name: workload-kubeconfig}}
root: r
provisioners:
- {name: r, serial: {children: [home, x]}}
- {name: home, application: {ref: m}}
- {name: x, remotecluster: {remote: workload, child: a}}
- {name: a, module: {ref: m}}
`

// leave puts an application into the inventory as an earlier spec would have.
func (w *world) leave(owner scope.Owner, path, scopeID string) {
	id := scope.ResourceIdentifier{Owner: owner, Path: path, Name: "old"}
	w.installed[path] = cd.Installed{ID: id, ScopeID: scopeID, Release: "old", Namespace: "ns"}
}

func TestDroppedNodesAreRemoved(t *testing.T) {
	workload := func(o scope.Owner) string { return RemoteID(o, "workload").Hash() }
	tests := map[string]struct {
		reason string
		leave  func(w *world, o scope.Owner)
		want   []string // in order, among the trace
		not    []string
	}{
		"Nothing": {
			reason: "a tree that stands for everything removes nothing",
			leave:  func(*world, scope.Owner) {},
			not:    []string{"remove r/home from home", "remove r/x/a from workload"},
		},
		"AtHome": {
			reason: "what a dropped node made at home goes, the last path first",
			leave: func(w *world, o scope.Owner) {
				w.leave(o, "r/b", scope.HomeID)
				w.leave(o, "r/c", scope.HomeID)
			},
			want: []string{"ensure r/home in home", "remove r/c from home", "remove r/b from home"},
			not:  []string{"remove r/home from home"},
		},
		"OnRemote": {
			reason: "what it made on a remote goes in the scope of that remote",
			leave:  func(w *world, o scope.Owner) { w.leave(o, "r/x/old", workload(o)) },
			want:   []string{"register remote/workload", "remove r/x/old from workload"},
		},
		"OfModule": {
			reason: "a module may have several applications below its own path",
			leave:  func(w *world, o scope.Owner) { w.leave(o, "r/x/a/second", workload(o)) },
			not:    []string{"remove r/x/a/second from workload"},
		},
		"Moved": {
			reason: "a node whose path begins like that of a leaf is another one",
			leave:  func(w *world, o scope.Owner) { w.leave(o, "r/homestead", scope.HomeID) },
			want:   []string{"remove r/homestead from home"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			stack := parseStack(t, prunable)
			w := newWorld(t, stack)
			tt.leave(w, ownerOf(stack))
			_, err := pass(t, w, stack, "up")
			require.NoError(t, err, tt.reason)
			at := 0
			for _, line := range w.trace {
				require.NotContains(t, tt.not, line, tt.reason)
				if at < len(tt.want) && line == tt.want[at] {
					at++
				}
			}
			require.Equal(t, len(tt.want), at, "%s: %v in %v", tt.reason, tt.want, w.trace)
			require.NotContains(t, w.trace, "deregister remote/workload", "a pass upwards never deregisters")
		})
	}
}

func TestRemovalOfDroppedNodeIsWaitedFor(t *testing.T) {
	stack := parseStack(t, prunable)
	w := newWorld(t, stack)
	w.leave(ownerOf(stack), "r/b", scope.HomeID)
	w.will("r/b", provisioner.Yield(abi.ReasonApplicationDeleting, ""), provisioner.Terminal(abi.ReasonRenderFailed, ""))
	_, err := pass(t, w, stack, "up")
	outcome := provisioner.OutcomeOf(err)
	require.Equal(t, abi.Yield, outcome.Class)
	require.Equal(t, "r/b", outcome.Headline.Path, "the path that it had")

	_, err = pass(t, w, stack, "up")
	require.Equal(t, abi.Retry, provisioner.OutcomeOf(err).Class, "a removal never parks, on the way up either")

	_, err = pass(t, w, stack, "up")
	require.NoError(t, err)
	require.NotContains(t, w.installed, "r/b")
}

func TestDroppedNodesGoBeforeTheirRemote(t *testing.T) {
	stack := parseStack(t, prunable)
	w := newWorld(t, stack)
	_, err := pass(t, w, stack, "up")
	require.NoError(t, err)
	w.leave(ownerOf(stack), "r/x/old", RemoteID(ownerOf(stack), "workload").Hash())
	stack.DeletionTimestamp = &metav1.Time{}
	w.will("r/x/old", provisioner.Yield(abi.ReasonApplicationDeleting, ""))
	_, err = pass(t, w, stack, "down")
	require.Equal(t, "r/x/old", provisioner.OutcomeOf(err).Headline.Path)
	require.NotContains(t, w.trace, "deregister remote/workload", "the remote is needed for what is left on it")

	w.trace = nil
	_, err = pass(t, w, stack, "down")
	require.NoError(t, err)
	require.Contains(t, w.trace, "deregister remote/workload")
	require.Empty(t, w.installed)
}

func TestUndeclaredRemoteIsTold(t *testing.T) {
	stack := parseStack(t, prunable)
	w := newWorld(t, stack)
	w.leave(ownerOf(stack), "r/y/old", RemoteID(ownerOf(stack), "former").Hash())
	_, err := pass(t, w, stack, "up")
	outcome := provisioner.OutcomeOf(err)
	require.Equal(t, abi.Retry, outcome.Class)
	require.Equal(t, abi.ReasonRemoteUndeclared, outcome.Headline.Reason)
	require.Equal(t, "r/y/old", outcome.Headline.Path)
	require.Contains(t, w.installed, "r/y/old", "nothing is forgotten that may still be there")
}
