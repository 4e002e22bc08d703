package tree_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/caisson-dev/caisson/cmd/caisson/internal/golden"
	"github.com/caisson-dev/caisson/cmd/caisson/internal/tree"
	"github.com/caisson-dev/caisson/cmd/caisson/internal/tree/treetest"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

func views() ([]string, []tree.View) {
	var names []string
	var views []tree.View
	for _, s := range treetest.Life() {
		names = append(names, s.Name)
		views = append(views, tree.Of(s.Stack, treetest.Start().Add(s.At+12*time.Second)))
	}
	return append(names, "gone"), append(views, tree.Missing("platform", "platform"))
}

func TestLines(t *testing.T) {
	names, views := views()
	var plain, coloured strings.Builder
	for i, v := range views {
		fmt.Fprintf(&plain, "---- %s\n%s\n\n", names[i], strings.Join(tree.Lines(v, tree.Style{}), "\n"))
		text := strings.Join(tree.Lines(v, tree.Style{Coloured: true}), "\n")
		fmt.Fprintf(&coloured, "---- %s\n%s\n\n", names[i], strings.ReplaceAll(text, "\x1b", "ESC"))
	}
	golden.Equal(t, "life", plain.String())
	golden.Equal(t, "life-coloured", coloured.String())
}

func TestChanges(t *testing.T) {
	names, views := views()
	var b strings.Builder
	before := tree.View{}
	for i, v := range views {
		fmt.Fprintf(&b, "---- %s\n", names[i])
		for _, line := range tree.Changes(before, v) {
			b.WriteString(line + "\n")
		}
		require.Empty(t, tree.Changes(v, v), "what does not change is not said")
		before = v
	}
	golden.Equal(t, "life-changes", b.String())
}

func TestChangesOfTheConnection(t *testing.T) {
	_, views := views()
	lost := views[3]
	lost.Unanswered = true
	require.Equal(t, []string{"The cluster does not answer; it is asked again all the time."}, tree.Changes(views[3], lost))
	require.Empty(t, tree.Changes(lost, lost))
	require.Equal(t, []string{"The cluster answers again."}, tree.Changes(lost, views[3]))
	lines := tree.Lines(lost, tree.Style{})
	require.Equal(t, "The cluster does not answer. This is what was seen last; it is asked again all the time.", lines[len(lines)-1])
}

// Every phase that the API has gets the sentence that belongs to it.
func TestNextStep(t *testing.T) {
	cases := map[string]struct {
		reason string
		want   string
	}{
		v1alpha1.ReasonProvisioned:        {reason: "nothing is to be done", want: ""},
		v1alpha1.ReasonDeprovisioned:      {reason: "nothing is to be done", want: ""},
		v1alpha1.ReasonSuspended:          {reason: "its message says what to do, and here is more", want: "More: caisson stack explain -n ns x"},
		v1alpha1.ReasonProvisioning:       {reason: "nobody has to get up", want: "by itself"},
		v1alpha1.ReasonDeprovisioning:     {reason: "nobody has to get up", want: "by itself"},
		v1alpha1.ReasonRetrying:           {reason: "it may be more than that", want: "operator's log"},
		v1alpha1.ReasonUserActionRequired: {reason: "a command that can be pasted", want: "kubectl annotate stack -n ns x caisson.dev/retry=$(date +%s) --overwrite"},
		v1alpha1.ReasonTerminal:           {reason: "a command that can be pasted", want: "kubectl annotate stack -n ns x caisson.dev/retry=$(date +%s) --overwrite"},
	}
	for phase, tc := range cases {
		t.Run(phase, func(t *testing.T) {
			stack := &v1alpha1.Stack{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "x", Generation: 1}}
			stack.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAvailable, Reason: phase, Message: "said", ObservedGeneration: 1}}
			lines := tree.Lines(tree.Of(stack, treetest.Start()), tree.Style{})
			require.Equal(t, []string{"Stack ns/x  " + phase, "", "said"}, lines[:3], tc.reason)
			require.Contains(t, strings.Join(lines[3:], "\n"), tc.want, tc.reason)
			require.Equal(t, tc.want == "", len(lines) == 3, tc.reason)
			if tc.want != "" {
				require.Equal(t, "More: caisson stack explain -n ns x", lines[len(lines)-1], "what is not as desired can be explained")
			}
		})
	}
}

func TestLinesWrapped(t *testing.T) {
	_, views := views()
	lines := tree.Lines(views[3], tree.Style{Width: 60})
	golden.Equal(t, "wrapped", strings.Join(lines, "\n")+"\n")
	for _, width := range []int{1, 20, 25} {
		narrow := tree.Lines(views[3], tree.Style{Width: width})
		words := strings.Fields(strings.Join(narrow, " "))
		require.Equal(t, strings.Fields(strings.Join(lines, " ")), words, "wrapping loses nothing")
	}
}

// A message that belongs to no node that is drawn is said before the nodes'.
func TestStackHasAMessageOfItsOwn(t *testing.T) {
	stack := treetest.Life()[3].Stack.DeepCopy()
	stack.Status.Conditions[0].Reason = v1alpha1.ReasonTerminal
	stack.Status.Conditions[0].Message = "The tree of provisioners is not valid; correct the spec. (invalid_stack)"
	lines := strings.Join(tree.Lines(tree.Of(stack, treetest.Start()), tree.Style{}), "\n")
	require.Contains(t, lines, "\n\nThe tree of provisioners is not valid; correct the spec. (invalid_stack)\nstorage  A Secret")
}

func TestAge(t *testing.T) {
	cases := map[time.Duration]string{
		0: "0s", 999 * time.Millisecond: "0s", 42 * time.Second: "42s", time.Minute - 1: "59s",
		time.Minute: "1m0s", 3*time.Minute + 10*time.Second: "3m10s", 10*time.Minute - 1: "9m59s",
		10 * time.Minute: "10m", time.Hour - 1: "59m",
		time.Hour: "1h", 24*time.Hour - 1: "23h",
		24 * time.Hour: "1d", 49 * time.Hour: "2d", 1000 * 24 * time.Hour: "1000d",
	}
	for d, want := range cases {
		require.Equal(t, want, tree.Age(d), "%s", d)
	}
}

func TestPaint(t *testing.T) {
	require.Equal(t, "OK", tree.Style{}.Paint("OK"), "the zero value does not colour")
	p := tree.Style{Coloured: true}
	for word, colour := range map[string]string{
		"OK": "32", "Provisioned": "32", "Deprovisioned": "32",
		"Yield": "33", "Retry": "33", "Provisioning": "33", "Deprovisioning": "33", "Retrying": "33",
		"UserActionRequired": "31", "Terminal": "31",
		"Waiting": "2", "Removed": "2", "Suspended": "2", "Pending": "2", "Gone": "2",
	} {
		require.Equal(t, "\x1b["+colour+"m"+word+"\x1b[0m", p.Paint(word))
	}
}
