package host_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// timeline is the life of one Stack as its status told it: "Stack" and the phase when
// that changed, a node with its disposition and reason when those changed, and, behind
// "--", what the test did in between. Nodes of one write stand in the order of their
// paths.
type timeline struct {
	rig     *rig
	key     client.ObjectKey
	changed chan struct{}

	mu      sync.Mutex
	entries []moment
	last    map[string]string
	version uint64
	gone    bool
}

// moment is an entry of a timeline, with the version of the Stack that told it.
type moment struct {
	version uint64
	text    string
}

// chronicle follows a Stack from before it exists.
func (r *rig) chronicle(t *testing.T, namespace, name string) *timeline {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	watcher, err := r.admin.Watch(ctx, &v1alpha1.StackList{}, client.InNamespace(namespace))
	require.NoError(t, err)
	l := &timeline{rig: r, key: client.ObjectKey{Namespace: namespace, Name: name}, changed: make(chan struct{}, 1), last: map[string]string{}}
	go func() {
		defer watcher.Stop()
		for event := range watcher.ResultChan() {
			stack, ok := event.Object.(*v1alpha1.Stack)
			if !ok || stack.Name != name {
				continue
			}
			l.add(stack)
			if event.Type == "DELETED" {
				l.end(stack)
				return
			}
		}
	}()
	return l
}

func versionOf(stack *v1alpha1.Stack) uint64 {
	version, _ := strconv.ParseUint(stack.ResourceVersion, 10, 64)
	return version
}

func (l *timeline) add(stack *v1alpha1.Stack) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.version = versionOf(stack)
	note := func(who, what string) {
		if l.last[who] != what {
			l.last[who] = what
			l.entries = append(l.entries, moment{l.version, who + " " + what})
		}
	}
	if c := meta.FindStatusCondition(stack.Status.Conditions, v1alpha1.ConditionAvailable); c != nil {
		note("Stack", c.Reason)
	}
	for _, node := range stack.Status.Nodes {
		note(node.Name, strings.TrimSpace(node.Disposition+" "+node.Reason))
	}
}

func (l *timeline) end(stack *v1alpha1.Stack) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone, l.version = true, versionOf(stack)
	l.entries = append(l.entries, moment{l.version, "Stack gone"})
}

// mark notes what the test does next. Everything that the status has told until now stands
// before it, even if the watch is late.
func (l *timeline) mark(t *testing.T, text string) {
	t.Helper()
	version := versionOf(l.rig.get(t, l.key))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, moment{version, "-- " + text})
}

// told returns the entries so far, in order.
func (l *timeline) told() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	sorted := slices.Clone(l.entries)
	slices.SortStableFunc(sorted, func(a, b moment) int {
		if a.version != b.version {
			return int(a.version) - int(b.version)
		}
		return strings.Count(a.text, "--") - strings.Count(b.text, "--")
	})
	texts := make([]string, 0, len(sorted))
	for _, m := range sorted {
		texts = append(texts, m.text)
	}
	return texts
}

// compare checks the life so far against testdata/life/NAME.trace. There a line is an
// expression for one entry, a line that ends in "?" may be missing because it depends on
// how quick things are, one that ends in "..." may also come more than once, and the lines of a block that begin with "|" come in any order,
// because their nodes are concurrent; one node's own are in order.
func (l *timeline) compare(t *testing.T, name string) {
	t.Helper()
	version := uint64(0)
	if stack, err := l.find(t.Context()); err == nil {
		version = versionOf(stack)
	}
	eventually(t, "the watch of "+l.key.String(), func() (bool, string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if version == 0 {
			return l.gone, "not gone"
		}
		return l.version >= version, fmt.Sprint(l.version)
	})
	told := l.told()
	raw, err := os.ReadFile(filepath.Join("testdata", "life", name+".trace"))
	require.NoError(t, err, "the life was:\n%s", strings.Join(told, "\n"))
	require.NoError(t, matchTrace(string(raw), told), "the life was:\n%s", strings.Join(told, "\n"))
}

func (l *timeline) find(ctx context.Context) (*v1alpha1.Stack, error) {
	stack := &v1alpha1.Stack{}
	err := l.rig.admin.Get(ctx, l.key, stack)
	return stack, err
}

// expected is one line of a golden trace.
type expected struct {
	node     string
	pattern  *regexp.Regexp
	optional bool
	repeated bool // so optional too
}

// parseTrace reads a golden trace as blocks whose lines are in any order.
func parseTrace(golden string) ([][]expected, error) {
	var blocks [][]expected
	inBlock := false
	for _, line := range strings.Split(golden, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			inBlock = false
			continue
		}
		free := strings.HasPrefix(line, "| ")
		line = strings.TrimPrefix(line, "| ")
		e := expected{repeated: strings.HasSuffix(line, "...")}
		e.optional = e.repeated || strings.HasSuffix(line, "?")
		line = strings.TrimSuffix(strings.TrimSuffix(line, "..."), "?")
		e.node, _, _ = strings.Cut(line, " ")
		pattern, err := regexp.Compile("^(?:" + line + ")$")
		if err != nil {
			return nil, err
		}
		e.pattern = pattern
		if free && inBlock {
			blocks[len(blocks)-1] = append(blocks[len(blocks)-1], e)
		} else {
			blocks = append(blocks, []expected{e})
		}
		inBlock = free
	}
	return blocks, nil
}

// matchTrace compares a life with a golden trace.
func matchTrace(golden string, told []string) error {
	blocks, err := parseTrace(golden)
	if err != nil {
		return err
	}
	for i, entry := range told {
		for {
			if len(blocks) == 0 {
				return fmt.Errorf("entry %d, %q, comes after everything that was expected", i+1, entry)
			}
			if rest, ok := take(blocks[0], entry); ok {
				blocks[0] = rest
				break
			}
			if must := mandatory(blocks[0]); must != "" {
				return fmt.Errorf("entry %d is %q, and %q was expected", i+1, entry, must)
			}
			blocks = blocks[1:]
		}
	}
	for _, block := range blocks {
		if must := mandatory(block); must != "" {
			return fmt.Errorf("%q did not come", must)
		}
	}
	return nil
}

// take returns what is left of a block after an entry: lines of the same node that stand
// before the one that matches are not to come any more.
func take(block []expected, entry string) ([]expected, bool) {
	for i, e := range block {
		if !e.pattern.MatchString(entry) {
			continue
		}
		if e.repeated {
			return block, true
		}
		earlier := slices.DeleteFunc(slices.Clone(block[:i]), func(o expected) bool { return o.node == e.node })
		for _, o := range block[:i] {
			if o.node == e.node && !o.optional {
				return block, false
			}
		}
		return append(earlier, block[i+1:]...), true
	}
	return block, false
}

// mandatory is the first line of a block that must come, or "".
func mandatory(block []expected) string {
	for _, e := range block {
		if !e.optional {
			return e.pattern.String()
		}
	}
	return ""
}

func TestMatchTrace(t *testing.T) {
	golden := `# a comment
a Yield x
a Yield y?
| b Yield x?
| b OK
| c (Yield|Retry) x
| (e|f) Retry z...
-- something is done

| d OK
`
	cases := map[string]struct {
		reason string
		told   string
		err    string
	}{
		"all":            {reason: "as written", told: "a Yield x,a Yield y,b Yield x,b OK,c Retry x,-- something is done,d OK"},
		"optional":       {reason: "lines with a mark may be missing", told: "a Yield x,b OK,c Yield x,-- something is done,d OK"},
		"any order":      {reason: "a block has none", told: "a Yield x,c Yield x,b Yield x,b OK,-- something is done,d OK"},
		"a node's own":   {reason: "but that of one node counts", told: "a Yield x,c Yield x,b OK,b Yield x,-- something is done,d OK", err: `entry 4 is "b Yield x"`},
		"missing":        {reason: "what must come must come", told: "a Yield x,b OK,-- something is done,d OK", err: `"^(?:c (Yield|Retry) x)$" was expected`},
		"too early":      {reason: "blocks are in order", told: "b OK,a Yield x", err: `entry 1 is "b OK"`},
		"ends early":     {reason: "the end must come too", told: "a Yield x,b OK,c Yield x,-- something is done", err: `did not come`},
		"goes on":        {reason: "nothing comes after the end", told: "a Yield x,b OK,c Yield x,-- something is done,d OK,d Retry x", err: "after everything"},
		"repeated":       {reason: "lines with dots may come again", told: "a Yield x,e Retry z,b OK,f Retry z,c Retry x,e Retry z,-- something is done,d OK"},
		"not repeated":   {reason: "others may not", told: "a Yield x,b OK,b OK", err: `entry 3 is "b OK"`},
		"nothing at all": {reason: "an empty life is not the one", told: "", err: "did not come"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			told := strings.FieldsFunc(c.told, func(r rune) bool { return r == ',' })
			err := matchTrace(golden, told)
			if c.err == "" {
				require.NoError(t, err, c.reason)
				return
			}
			require.ErrorContains(t, err, c.err, c.reason)
		})
	}
	require.Error(t, matchTrace("a (", []string{"a"}), "a golden trace that is no expression is not overlooked")
}
