package plan

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/provisioner/remotecluster"
)

// abandoned finds out what a deletion gives up: remotes that count as gone, and what the
// driver knew of on them and dropped. It is for one pass; its readers may come at any time.
type abandoned struct {
	pruned  *pruned
	nodes   *givenUp
	remotes []abandonable

	mu    sync.Mutex
	known []string
}

// abandonable is one declared remote.
type abandonable struct {
	name    string
	scopeID string
	bracket *remotecluster.Bracket
	// because are the words for each kind of evidence.
	because map[remotecluster.Evidence]string
}

// abandoned returns what is known from earlier passes, ready to look in this one.
func (b *builder) abandoned(p *pruned, ordered []*remotecluster.Bracket) *abandoned {
	a := &abandoned{pruned: p, nodes: b.givenUp}
	if b.stack.DeletionTimestamp == nil {
		return a
	}
	a.known = slices.Clone(b.stack.Status.Abandoned)
	for i, name := range b.remoteOrder {
		a.remotes = append(a.remotes, abandonable{
			name: name, scopeID: ordered[i].ID().Hash(), bracket: ordered[i],
			because: map[remotecluster.Evidence]string{
				remotecluster.EvidenceDeclared:  "was declared gone",
				remotecluster.EvidenceResolved:  "is gone",
				remotecluster.EvidenceVanished:  "did not answer, and whose Cluster does not exist any more",
				remotecluster.EvidenceEnclosing: "was within a remote that is gone, and did not answer",
				remotecluster.EvidenceSilent:    "did not answer for longer than its unreachableGrace of " + graceOf(b.remotes[name]).String(),
			},
		})
	}
	return a
}

// look takes note of what the pass gave up: what the driver listed at its beginning on a
// remote that counts as gone, and does not list any more.
func (a *abandoned) look(ctx context.Context) {
	gone := map[string]abandonable{}
	for _, remote := range a.remotes {
		if remote.bracket.Evidence() != remotecluster.EvidenceNone {
			gone[remote.scopeID] = remote
		}
	}
	if len(gone) == 0 {
		return
	}
	left, err := a.pruned.driver.List(ctx, a.pruned.owner)
	if err != nil {
		// Nothing counts as left then: what is told of too much was recorded on a cluster
		// that is gone, and what is told of too little is never found again.
		left = nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, remote := range gone {
		a.addRemote(remote)
	}
	for _, i := range a.pruned.listed {
		remote, ok := gone[i.ScopeID]
		if !ok || slices.ContainsFunc(left, func(l cd.Installed) bool { return l.ScopeID == i.ScopeID && l.ID.Path == i.ID.Path }) {
			continue
		}
		a.known = append(a.known, "release "+i.Namespace+"/"+i.Release+" on remote "+remote.name)
	}
}

// addRemote adds a line for a remote that has none: the first evidence is what it was
// given up for. It needs the lock.
func (a *abandoned) addRemote(remote abandonable) {
	head := "remote " + remote.name + ", which "
	if slices.ContainsFunc(a.known, func(line string) bool { return strings.HasPrefix(line, head) }) {
		return
	}
	a.known = append(a.known, head+remote.because[remote.bracket.Evidence()])
}

// lines returns what is known, sorted, each line once.
func (a *abandoned) lines() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	lines := append(slices.Clone(a.known), a.nodes.list()...)
	slices.Sort(lines)
	return slices.Compact(lines)
}

// givenUp collects the nodes that a deletion goes on without. It is safe for concurrent
// use.
type givenUp struct {
	mu    sync.Mutex
	lines []string
}

func (g *givenUp) add(line string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lines = append(g.lines, line)
}

func (g *givenUp) list() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.lines)
}

// abandonsModule returns what a module calls when it is given up. While the Stack lives
// nothing is: there, nothing has to end.
func (b *builder) abandonsModule(name string) func() {
	if b.stack.DeletionTimestamp == nil {
		return nil
	}
	line := "node " + b.paths[name] + ", whose module " + b.nodes[name].Module.Ref + " did not come to an end on a remote that is gone"
	return func() { b.givenUp.add(line) }
}
