package faults

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

func TestMain(m *testing.M) {
	runRelayIfRequested()
	flag.Parse()
	ctrllog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// Environment of the test; see the Makefile.
const (
	// envRuns is "all", or how many runs to sample; sampleRuns if it is not set.
	envRuns = "FAULTS_RUNS"
	// envLanes is how many Stacks run side by side.
	envLanes = "FAULTS_LANES"
	// envOnly limits the runs to injections whose description matches the expression.
	envOnly = "FAULTS_ONLY"

	// envShow prints the calls and the ends of the phases.
	envShow = "FAULTS_SHOW"

	sampleRuns   = 6
	sampleLanes  = 2
	defaultLanes = 4
)

// TestFaults is described at the package.
func TestFaults(t *testing.T) {
	ctx, begin := t.Context(), time.Now()
	b, err := newBench()
	t.Cleanup(b.close)
	require.NoError(t, err)
	lanes := openLanes(t, b)
	t.Logf("%.1f s: %d lanes are open", time.Since(begin).Seconds(), len(lanes))

	before := snapshots(t, b, lanes)
	known, err := reference(ctx, lanes[0])
	require.NoError(t, err, lanes[0].logs())
	for _, p := range phases() {
		t.Logf("%.1f s: %s takes %.1f s, has %s, and ends with %d things", time.Since(begin).Seconds(), p, known[p].took.Seconds(), describe(known[p].points), len(known[p].end))
		require.True(t, slices.ContainsFunc(known[p].points, func(c point) bool { return c.of() == targetModule }), "%s has no module calls: the relay does not see them", p)
	}
	if os.Getenv(envShow) != "" {
		for _, p := range phases() {
			t.Logf("%s\n%v\n%s", p, known[p].points, strings.Join(known[p].end, "\n"))
		}
	}
	only, err := regexp.Compile(os.Getenv(envOnly))
	require.NoError(t, err, envOnly)
	runs := sample(arrange(injections(known), only), os.Getenv(envRuns))
	report := execute(ctx, t, lanes, known, runs)
	t.Logf("%s\n%d runs in %.0f s", report.table(), len(runs), time.Since(begin).Seconds())
	if t.Failed() {
		return // what was abandoned is there
	}
	require.NoError(t, nothingLeft(ctx, b.workload, b.admin, before[nil]))
	for _, l := range lanes {
		require.NoError(t, nothingLeft(ctx, l.home, l.admin, before[l]), l.name)
	}
}

// snapshots takes down what there is on each home, and under nil on the workload cluster,
// while operators run and no Stack exists.
func snapshots(t *testing.T, b *bench, lanes []*lane) map[*lane][]string {
	t.Helper()
	found := map[*lane][]string{}
	var err error
	for _, l := range lanes {
		require.NoError(t, l.ensure(t.Context(), modeSolo), l.logs())
		found[l], err = everything(t.Context(), l.home, l.admin)
		require.NoError(t, err)
	}
	found[nil], err = everything(t.Context(), b.workload, b.admin)
	require.NoError(t, err)
	return found
}

func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
		return n
	}
	return otherwise
}

func openLanes(t *testing.T, b *bench) []*lane {
	t.Helper()
	n := number(envLanes, defaultLanes)
	if os.Getenv(envRuns) == "" {
		n = number(envLanes, sampleLanes)
	}
	lanes := make([]*lane, n)
	var group errgroup.Group
	for i := range lanes {
		group.Go(func() (err error) {
			lanes[i], err = newLane(b, i)
			return err
		})
	}
	err := group.Wait()
	for _, l := range lanes {
		t.Cleanup(l.close)
	}
	require.NoError(t, err)
	return lanes
}

// expectation is how a phase goes when nothing fails.
type expectation struct {
	points []point
	end    []string
	// took is how long the phase lasted undisturbed.
	took time.Duration
}

// reference lets two Stacks live undisturbed. What they ask for is where faults can be
// placed, and what the first ends with is what the second, and all others, must end with.
func reference(ctx context.Context, l *lane) (map[phase]expectation, error) {
	known := map[phase]expectation{}
	if err := l.ensure(ctx, modeSolo); err != nil {
		return nil, err
	}
	for range 2 {
		for _, p := range phases() {
			before, repeated := known[p]
			start := time.Now()
			l.script.begin(nil)
			if err := l.enter(ctx, p); err != nil {
				return nil, fmt.Errorf("%s: %w", p, err)
			}
			end, err := l.settled(ctx, p, before.end)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p, err)
			}
			if different := difference(before.end, end); repeated && len(different) > 0 {
				return nil, fmt.Errorf("%s does not end the same twice:\n%s", p, strings.Join(different, "\n"))
			}
			points, _ := l.script.end()
			known[p] = expectation{points: union(before.points, points), end: end, took: time.Since(start)}
		}
	}
	return known, nil
}

// union is the points of both, sorted.
func union(a, b []point) []point {
	all := slices.Concat(a, b)
	slices.SortFunc(all, func(x, y point) int {
		if c := strings.Compare(x.call, y.call); c != 0 {
			return c
		}
		return x.nth - y.nth
	})
	return slices.Compact(all)
}

func describe(points []point) string {
	count := map[target]int{}
	for _, p := range points {
		count[p.of()]++
	}
	return fmt.Sprintf("%d calls (%d reads, %d writes, %d module calls)", len(points), count[targetRead], count[targetWrite], count[targetModule])
}

// injections are all faults at all points, in order.
func injections(known map[phase]expectation) []injection {
	var all []injection
	for _, p := range phases() {
		for _, at := range known[p].points {
			for _, f := range faultsAt(at.of()) {
				all = append(all, injection{phase: p, point: at, fault: f})
			}
		}
	}
	return all
}

// run is the life of one Stack, with at most one fault in each phase.
type run map[phase]injection

// arrange puts the injections of the phases that need the same operators into common runs:
// a phase begins only when the one before has ended as it should.
func arrange(all []injection, only *regexp.Regexp) []run {
	queues := map[mode]map[phase][]injection{modeSolo: {}, modePair: {}}
	for _, i := range all {
		if only.MatchString(i.String()) {
			queue := queues[modeOf(i.fault)]
			queue[i.phase] = append(queue[i.phase], i)
		}
	}
	var runs []run
	for _, m := range []mode{modeSolo, modePair} {
		longest := 0
		for _, queue := range queues[m] {
			longest = max(longest, len(queue))
		}
		for n := range longest {
			r := run{}
			for i, p := range phases() {
				if queue := queues[m][p]; n < len(queue) {
					// Not the same place of each list: a run is to have different faults.
					r[p] = queue[(n+i*len(queue)/len(phases()))%len(queue)]
				}
			}
			runs = append(runs, r)
		}
	}
	return runs
}

// sample takes one run out of each of as many equal parts of the list, the same ones every
// time: of a part the one whose faults have had the fewest turns.
func sample(runs []run, wanted string) []run {
	if wanted == "all" {
		return runs
	}
	n := sampleRuns
	if given, err := strconv.Atoi(wanted); err == nil {
		n = given
	}
	if n >= len(runs) {
		return runs
	}
	turns := map[fault]int{}
	taken := make([]run, 0, n)
	for i := range n {
		part := runs[i*len(runs)/n : (i+1)*len(runs)/n]
		next := slices.MinFunc(part, func(a, b run) int { return a.turns(turns) - b.turns(turns) })
		for _, one := range next {
			turns[one.fault]++
		}
		taken = append(taken, next)
	}
	return taken
}

// turns is how often the faults of a run were taken, those before in the same run included;
// a run with fewer faults is worth less.
func (r run) turns(taken map[fault]int) int {
	sum, within := 8*(len(phases())-len(r)), maps.Clone(taken)
	for _, i := range r {
		sum += 4 * within[i.fault]
		within[i.fault]++
	}
	return sum
}

// execute hands the runs to the lanes.
func execute(ctx context.Context, t *testing.T, lanes []*lane, known map[phase]expectation, runs []run) *report {
	t.Helper()
	report := newReport(len(runs))
	queue := make(chan run, len(runs))
	for _, r := range runs {
		queue <- r
	}
	close(queue)
	var all sync.WaitGroup
	for _, l := range lanes {
		all.Go(func() {
			for r := range queue {
				if ctx.Err() != nil {
					return
				}
				l.live(ctx, t, known, r, report)
				if line := report.ran(); line != "" {
					fmt.Fprintln(os.Stderr, line)
				}
			}
		})
	}
	all.Wait()
	return report
}

// live is one run. It ends with the first phase that does not end as it should.
func (l *lane) live(ctx context.Context, t *testing.T, known map[phase]expectation, r run, report *report) {
	t.Helper()
	fail := func(what, why string) {
		t.Errorf("%s on %s\n%s\n%s", what, l.name, why, l.logs())
		if err := l.abandon(ctx); err != nil {
			t.Errorf("%s cannot go on: %v", l.name, err)
		}
	}
	m := modeSolo
	for _, i := range r {
		m = modeOf(i.fault)
	}
	if err := l.ensure(ctx, m); err != nil {
		fail("start "+string(m), err.Error())
		return
	}
	for _, p := range phases() {
		for _, replica := range l.replicas {
			replica.log.reset()
		}
		i, faulty := r[p]
		what := fmt.Sprintf("%s without a fault", p)
		l.script.begin(nil)
		if faulty {
			what = i.String()
			l.script.begin(&i)
		}
		start := time.Now()
		if err := l.enter(ctx, p); err != nil {
			fail(what, err.Error())
			return
		}
		end, err := l.settled(ctx, p, known[p].end)
		points, hit := l.script.end()
		different := difference(known[p].end, end)
		if faulty {
			report.add(i, hit, err != nil || len(different) > 0, time.Since(start))
		}
		switch {
		case err != nil:
			fail(what, fmt.Sprintf("%v\nhit: %t, after %d calls", err, hit, len(points)))
			return
		case len(different) > 0:
			fail(what, "ends with other things:\n"+strings.Join(different, "\n"))
			return
		}
	}
}

// noise is what every line of a log repeats.
var noise = regexp.MustCompile(`"(controller|controllerGroup|controllerKind|namespace|name|reconcileID|digest)": "[^"]*",? ?|"(Stack|Module)": \{[^}]*\},? ?`)

// logs are the ends of those of the operators.
func (l *lane) logs() string {
	var all strings.Builder
	for _, r := range l.replicas {
		if r != nil {
			text := noise.ReplaceAllString(r.log.String(), "")
			all.WriteString(text[max(0, len(text)-12<<10):])
		}
	}
	return all.String()
}

// tally is what a fault did over all runs.
type tally struct {
	placed, missed, diverged int
	total, longest           time.Duration
}

// report counts runs and faults. It is safe for concurrent use.
type report struct {
	mu    sync.Mutex
	runs  int
	of    int
	start time.Time
	shown time.Time
	by    map[fault]*tally
	all   []timed
}

// timed is how long a phase took with a fault in it.
type timed struct {
	injection
	took time.Duration
}

// slowest is how many of them are shown.
const slowest = 12

func newReport(of int) *report {
	return &report{of: of, start: time.Now(), shown: time.Now(), by: map[fault]*tally{}}
}

func (r *report) add(i injection, hit, diverged bool, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one, ok := r.by[i.fault]
	if !ok {
		one = &tally{}
		r.by[i.fault] = one
	}
	if !hit {
		one.missed++
	} else {
		r.all = append(r.all, timed{i, took})
		one.placed++
		one.total += took
		one.longest = max(one.longest, took)
	}
	if diverged {
		one.diverged++
	}
}

// ran counts a run, and returns what to show of the progress every now and then.
func (r *report) ran() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs++
	if time.Since(r.shown) < 10*time.Second && r.runs < r.of {
		return ""
	}
	r.shown = time.Now()
	diverged := 0
	for _, one := range r.by {
		diverged += one.diverged
	}
	return fmt.Sprintf("faults: %d of %d runs in %.0f s, %d diverged", r.runs, r.of, time.Since(r.start).Seconds(), diverged)
}

// table is the summary. The seconds are those of the phases with a fault.
func (r *report) table() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var table strings.Builder
	fmt.Fprintf(&table, "%-34s %7s %7s %9s %8s %8s\n", "fault", "placed", "missed", "diverged", "mean s", "most s")
	for _, f := range slices.Sorted(maps.Keys(r.by)) {
		one := r.by[f]
		mean := one.total.Seconds() / float64(max(one.placed, 1))
		fmt.Fprintf(&table, "%-34s %7d %7d %9d %8.1f %8.1f\n", f, one.placed, one.missed, one.diverged, mean, one.longest.Seconds())
	}
	table.WriteString("the slowest to recover from:\n")
	slices.SortStableFunc(r.all, func(a, b timed) int { return int(b.took - a.took) })
	for _, one := range r.all[:min(slowest, len(r.all))] {
		fmt.Fprintf(&table, "%6.1f s  %s\n", one.took.Seconds(), one.injection)
	}
	return table.String()
}
