package demo

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/cmd/caisson/internal/follow"
	"github.com/caisson-dev/caisson/cmd/caisson/internal/tree"
)

func TestTold(t *testing.T) {
	report := follow.Report{Transitions: []follow.Transition{
		{Node: "metrics", Disposition: "OK"},
		{Node: "cni", Disposition: "OK"},
		{Node: "metrics", Disposition: "Yield", Reason: "application_upgrading"},
		{Node: "metrics", Disposition: "Yield", Reason: "application_upgrading"},
		{Node: "metrics", Disposition: "OK"},
	}}
	require.Equal(t, []string{"OK", "Yield application_upgrading", "OK"}, told(report, "metrics"))
	require.Empty(t, told(report, "gpu"))
}

func TestRecord(t *testing.T) {
	d := quietly(t, scene(t, "secret"))
	seen := d.record(t.Context())
	require.Equal(t, []string{"UserActionRequired secret_missing"}, told(seen.report(), "storage"), "it has seen the Stack before it returns")

	nobody := quietly(t)
	require.Empty(t, nobody.record(t.Context()).report().Transitions, "a Stack that is not there is no reason to wait")
}

func TestDarkScreen(t *testing.T) {
	s := &darkScreen{shown: make(chan struct{})}
	for range 2 {
		s.Show(tree.View{}, tree.View{})
	}
	<-s.shown
	s.Close()
}
