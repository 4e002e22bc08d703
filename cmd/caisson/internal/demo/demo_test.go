package demo

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChosen(t *testing.T) {
	steps := []step{{name: "build"}, {name: "park", chapter: "parking"}, {name: "gpu", chapter: "gpu"}, {name: "down"}}
	cases := map[string]struct {
		reason   string
		chapters []string
		want     []string
		err      string
	}{
		"All":     {reason: "nobody chose", want: []string{"build", "park", "gpu", "down"}},
		"One":     {reason: "what others build on is always shown", chapters: []string{"gpu"}, want: []string{"build", "gpu", "down"}},
		"Order":   {reason: "the order is ours", chapters: []string{"gpu", "parking"}, want: []string{"build", "park", "gpu", "down"}},
		"Unknown": {reason: "a typing error must not leave out what was asked for", chapters: []string{"gpu", "gup"}, err: `there is no chapter "gup"; there are parking, gpu`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			found, err := chosen(steps, tc.chapters)
			if tc.err != "" {
				require.EqualError(t, err, tc.err, tc.reason)
				return
			}
			require.NoError(t, err)
			var names []string
			for _, st := range found {
				names = append(names, st.name)
			}
			require.Equal(t, tc.want, names, tc.reason)
		})
	}
}

// A kept demo ends once the platform is up, and does not make anybody wait for that.
func TestSteps(t *testing.T) {
	d := &demo{}
	chapters, last := map[string]bool{}, -1
	for i, st := range d.steps() {
		require.NotNil(t, st.do, st.name)
		require.LessOrEqual(t, len(st.name), 42, "the table has no more room for %q", st.name)
		require.False(t, st.chapter != "" && chapters[st.chapter], st.chapter)
		chapters[st.chapter] = true
		if st.lastIfKept {
			last = i
		}
		require.False(t, last >= 0 && st.notIfKept, "%s is left out anyway", st.name)
		require.False(t, last < 0 && st.chapter != "" && !st.notIfKept, "%s makes who keeps it wait", st.name)
	}
	require.Positive(t, last)
}
