package plan

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/module"
	"github.com/caisson-dev/caisson/host/provisioner/remotecluster"
)

// everythingIsLost is what is told when both clusters died.
func everythingIsLost(because string) []string {
	return []string{
		"release ns/app on remote inner",
		"release ns/cni on remote workload",
		"remote inner, which was within a remote that is gone, and did not answer",
		"remote workload, which " + because,
	}
}

// lost returns a platform whose workload cluster, and with it the inner one, is gone for
// good, and which is being deleted.
func lost(t *testing.T, inner bool) *platform {
	t.Helper()
	p := newPlatform(t, nestedPlatform)
	require.True(t, p.pass(t.Context(), t, "up").OK())
	p.workload.set(func(s *site) { s.down = true })
	p.inner.set(func(s *site) { s.down = inner })
	p.later(time.Hour) // what happened before the deletion does not count
	require.Equal(t, abi.ReasonRemoteUnreachable, p.pass(t.Context(), t, "the cluster is gone").Headline.Reason)
	p.delete()
	p.trace = nil
	return p
}

func (p *platform) declare(value string) {
	p.stack.Annotations = map[string]string{v1alpha1.GoneAnnotation: value}
}

func (p *platform) waitForEver() {
	for i := range p.stack.Spec.Remotes {
		p.stack.Spec.Remotes[i].UnreachableGrace = &metav1.Duration{}
	}
}

func TestCase070DeclaredGone(t *testing.T) {
	p := lost(t, true)
	outcome := p.pass(t.Context(), t, "nobody has said a word")
	require.Equal(t, abi.Yield, outcome.Class)
	require.Equal(t, abi.ReasonRemoteUnreachable, outcome.Headline.Reason)
	require.Equal(t, "all/on-workload", outcome.Headline.Path, "the outermost remote is what to look at")
	require.Equal(t, waitingForGrace, outcome.Headline.Sentence, "both ways out are told")
	require.Empty(t, p.stack.Status.Abandoned)

	p.declare("workload")
	require.Equal(t, "all/cluster", p.pass(t.Context(), t, "the workload cluster is declared gone").Headline.Path, "what is at home is drained as ever")
	require.Equal(t, everythingIsLost("was declared gone"), p.stack.Status.Abandoned)
	p.settle()
	require.True(t, p.pass(t.Context(), t, "the rest is gone too").OK())
	require.Equal(t, everythingIsLost("was declared gone"), p.stack.Status.Abandoned, "nothing that was given up is forgotten, and nothing is told twice")
	golden(t, "declared-gone", joinLines(p.trace))
	p.nothingIsLeftAtHome(t)
	require.Equal(t, []string{"all/on-workload/platform/cni", "all/on-workload/platform/on-inner/app"}, p.runs(), "nobody touched what may be left")
}

func TestCase070TheNamesThatAreDeclared(t *testing.T) {
	for name, test := range map[string]struct {
		reason string
		value  string
		reach  string // of the last pass
	}{
		"One":      {"a name", "workload", ""},
		"List":     {"a list with blanks", " inner , workload,", ""},
		"Unknown":  {"names of others do not count", "workloads, Workload, home", abi.ReasonRemoteUnreachable},
		"Empty":    {"nothing declares nothing", ", ,", abi.ReasonRemoteUnreachable},
		"OneOfTwo": {"each is declared by itself", "inner", abi.ReasonRemoteUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			p := lost(t, true)
			p.declare(test.value)
			p.pass(t.Context(), t, "down")
			p.settle()
			require.Equal(t, test.reach, p.pass(t.Context(), t, "down").Headline.Reason, test.reason)
		})
	}
}

func TestCase070OnlyInADeletion(t *testing.T) {
	p := newPlatform(t, nestedPlatform)
	p.declare("workload,inner")
	p.stack.Status.Abandoned = []string{"xyzzy"}
	require.True(t, p.pass(t.Context(), t, "up").OK(), "a Stack that lives installs on what it declares")
	require.Empty(t, p.stack.Status.Abandoned)
	require.Len(t, p.runs(), 3)
}

func TestCase070DeclaredThoughItAnswers(t *testing.T) {
	p := newPlatform(t, nestedPlatform)
	require.True(t, p.pass(t.Context(), t, "up").OK())
	p.delete()
	p.declare("inner")
	asked := p.inner.requests()
	for range 6 {
		p.pass(t.Context(), t, "down")
		p.settle()
	}
	require.Equal(t, asked, p.inner.requests(), "it is not asked any more")
	require.Equal(t, []string{"release ns/app on remote inner", "remote inner, which was declared gone"}, p.stack.Status.Abandoned)
	require.Equal(t, []string{"all/on-workload/platform/on-inner/app"}, p.runs(), "the other cluster is drained")
	p.nothingIsLeftAtHome(t)
}

func TestCase071TheInnerClusterLives(t *testing.T) {
	p := lost(t, false)
	p.declare("workload")
	for range 6 {
		p.pass(t.Context(), t, "down")
		p.settle()
	}
	require.Contains(t, p.trace, "remove all/on-workload/platform/on-inner/app from inner, which is ready: Drain", "it is reached with what is registered")
	require.Equal(t, []string{"release ns/cni on remote workload", "remote workload, which was declared gone"}, p.stack.Status.Abandoned)
	require.Equal(t, []string{"all/on-workload/platform/cni"}, p.runs())
	p.nothingIsLeftAtHome(t)
}

func TestCase073SilentForLongerThanItsGrace(t *testing.T) {
	p := lost(t, true)
	require.Equal(t, abi.ReasonRemoteUnreachable, p.pass(t.Context(), t, "the deletion begins").Headline.Reason)
	p.later(14 * time.Minute)
	require.Equal(t, abi.ReasonRemoteUnreachable, p.pass(t.Context(), t, "14 minutes later").Headline.Reason)
	p.later(2 * time.Minute)
	require.Equal(t, "all/cluster", p.pass(t.Context(), t, "16 minutes later").Headline.Path)
	p.settle()
	require.True(t, p.pass(t.Context(), t, "the rest is gone too").OK())
	golden(t, "silent", joinLines(p.trace))
	p.nothingIsLeftAtHome(t)
	because := "did not answer for longer than its unreachableGrace of 15m0s"
	require.Contains(t, p.stack.Status.Abandoned, "remote workload, which "+because)
	require.Contains(t, p.stack.Status.Abandoned, "release ns/cni on remote workload")
	require.Contains(t, p.stack.Status.Abandoned, "release ns/app on remote inner")
}

func TestCase073ItComesBackInTime(t *testing.T) {
	p := lost(t, true)
	require.Equal(t, abi.ReasonRemoteUnreachable, p.pass(t.Context(), t, "down").Headline.Reason)
	p.later(10 * time.Minute)
	p.workload.set(func(s *site) { s.down = false })
	p.inner.set(func(s *site) { s.down = false })
	for range 6 {
		p.pass(t.Context(), t, "down")
		p.settle()
	}
	require.Empty(t, p.stack.Status.Abandoned)
	require.Empty(t, p.runs(), "everything was drained")
	p.nothingIsLeftAtHome(t)
}

func TestCase073WithoutAGraceItIsWaitedFor(t *testing.T) {
	p := lost(t, true)
	p.waitForEver()
	p.later(1000 * time.Hour)
	p.pass(t.Context(), t, "down")
	p.later(time.Hour)
	outcome := p.pass(t.Context(), t, "down")
	require.Equal(t, waitingForWord, outcome.Headline.Sentence)
	require.Len(t, p.clusters, 2)
	require.Empty(t, p.stack.Status.Abandoned)
}

// TestGivenUpAtOnePlaceDrainedAtAnother proves that only what was dropped is told: a
// cluster that comes back before all of its nodes were visited is drained from then on.
func TestGivenUpAtOnePlaceDrainedAtAnother(t *testing.T) {
	p := newPlatform(t, `
remotes: [{name: workload, owned: true, kubeconfigSecret: {name: workload-kubeconfig}}]
root: all
provisioners:
- {name: all, serial: {children: [x, home, z]}}
- {name: x, remotecluster: {remote: workload, child: first}}
- {name: first, application: {ref: m}}
- {name: home, application: {ref: m}}
- {name: z, remotecluster: {remote: workload, child: last}}
- {name: last, application: {ref: m}}
`)
	require.True(t, p.pass(t.Context(), t, "up").OK())
	p.delete()
	p.workload.set(func(s *site) { s.down = true })
	p.pass(t.Context(), t, "it is silent")
	p.later(time.Hour)
	require.Equal(t, "all/home", p.pass(t.Context(), t, "and given up").Headline.Path)
	p.workload.set(func(s *site) { s.down = false })
	p.later(time.Minute)
	for range 4 {
		p.settle()
		p.pass(t.Context(), t, "it answers again")
	}
	require.Equal(t, []string{
		"release ns/last on remote workload",
		"remote workload, which did not answer for longer than its unreachableGrace of 15m0s",
	}, p.stack.Status.Abandoned)
	require.Equal(t, []string{"all/z/last"}, p.runs())
	p.nothingIsLeftAtHome(t)
}

// TestARemoteThatHangs proves that a cluster that accepts connections and never answers
// costs a pass two questions at most, however many nodes are on it.
func TestARemoteThatHangs(t *testing.T) {
	const budget = 10 * time.Second // what a pass may take at most
	p := newPlatform(t, nestedPlatform)
	require.True(t, p.pass(t.Context(), t, "up").OK())
	p.connect(200 * time.Millisecond) // enough for one that never answers
	moved := newSite(t)               // the kubeconfig is replaced, and leads to one that hangs as well
	for _, s := range []*site{p.workload, p.inner, moved} {
		s.set(func(s *site) { s.hangs = true })
	}
	hung := func(title string, questions int) {
		t.Helper()
		p.later(time.Hour) // what was remembered of the last question has run out
		before := p.workload.requests() + moved.requests()
		ctx, cancel := context.WithTimeout(t.Context(), budget)
		defer cancel()
		outcome := p.pass(ctx, t, title)
		require.NoError(t, ctx.Err(), "the pass ends by itself")
		require.Equal(t, abi.Yield, outcome.Class)
		require.Equal(t, abi.ReasonRemoteUnreachable, outcome.Headline.Reason)
		require.Equal(t, before+questions, p.workload.requests()+moved.requests(), title)
	}
	hung("up", 1)
	require.NotContains(t, p.trace[len(p.trace)-1], "ensure")
	p.waitForEver()
	p.delete()
	hung("down, with one kubeconfig", 1)
	p.kubeconfig(t, kubeconfigOf(t, moved.Server))
	hung("down, with two kubeconfigs", 2)
	require.Len(t, p.clusters, 2)
}

// TestAbandonedWithoutAnInventory proves that what cannot be listed is not taken for left.
func TestAbandonedWithoutAnInventory(t *testing.T) {
	p := newPlatform(t, prunable)
	require.True(t, p.pass(t.Context(), t, "up").OK())
	p.declare("workload")
	p.delete()
	deps := p.dependencies()
	failing := &failingList{platform: p}
	deps.Driver = failing
	tree, err := Build(p.stack, deps)
	require.NoError(t, err)
	require.Error(t, tree.Deprovision(p.context(t.Context())))
	require.Empty(t, tree.Abandoned(), "a pass that could not look did nothing")

	failing.after = 1
	tree, err = Build(p.stack, deps)
	require.NoError(t, err)
	require.Error(t, tree.Deprovision(p.context(t.Context())))
	require.Contains(t, tree.Abandoned(), "remote workload, which was declared gone")
}

// Every kind of evidence has words.
func TestEvidenceHasWords(t *testing.T) {
	p := newPlatform(t, nestedPlatform)
	p.delete()
	tree, err := Build(p.stack, p.dependencies())
	require.NoError(t, err)
	require.Len(t, tree.abandoned.remotes, 2)
	for _, evidence := range []remotecluster.Evidence{
		remotecluster.EvidenceDeclared, remotecluster.EvidenceResolved, remotecluster.EvidenceEnclosing, remotecluster.EvidenceSilent,
		remotecluster.EvidenceVanished,
	} {
		require.NotEmpty(t, tree.abandoned.remotes[0].because[evidence], evidence)
	}
	require.False(t, provisioner.IsTerminal(tree.Deprovision(p.context(t.Context()))))
}

// A module that does not come to an end on a cluster that is gone holds up a deletion for
// half an hour, and what was given up with it is told.
func TestStuckModuleIsGivenUp(t *testing.T) {
	p := lost(t, true)
	p.memo = module.NewMemo(8)
	p.declare("workload")
	const node = "all/on-workload/platform/lb"
	for range 100 {
		p.will(node, append(p.results[node], provisioner.Yield(abi.ReasonUnexpected, ""))...)
	}
	for range 2 {
		outcome := p.pass(t.Context(), t, "the module waits for what is gone")
		require.Equal(t, node, outcome.Headline.Path)
		p.settle()
		p.later(20 * time.Minute)
	}
	told := "node " + node + ", whose module lb did not come to an end on a remote that is gone"
	require.NotContains(t, p.stack.Status.Abandoned, told)
	p.pass(t.Context(), t, "half an hour is over")
	require.Contains(t, p.stack.Status.Abandoned, told)
	p.settle()
	require.True(t, p.pass(t.Context(), t, "the rest goes").OK())
	require.Contains(t, p.stack.Status.Abandoned, told)
	p.nothingIsLeftAtHome(t)
}

// While the Stack lives nothing is given up.
func TestStuckModuleOfALivingStack(t *testing.T) {
	b := &builder{stack: newPlatform(t, nestedPlatform).stack}
	require.Nil(t, b.abandonsModule("lb"))
}
