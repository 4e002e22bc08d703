package serial_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/concurrent"
	"github.com/caisson-dev/caisson/host/provisioner/conditional"
	"github.com/caisson-dev/caisson/host/provisioner/provisionertest"
	"github.com/caisson-dev/caisson/host/provisioner/serial"
)

var update = flag.Bool("update", false, "write the golden traces")

var (
	yields  = provisioner.Yield("application_installing", "")
	retries = provisioner.Retry("chart_unavailable", "")
	asks    = provisioner.UserActionRequired("secret_missing", "")
	ends    = provisioner.Terminal("invalid_config", "")
)

// The cases of nesting stand here because serial is what a platform is made of; they
// are about what the combinators do together.

// forest makes the trees of one test, with one trace. Its concurrents have a limit of
// one, so that the trace has one order.
type forest struct{ trace provisionertest.Trace }

func (f *forest) leaf(name string, up ...error) *provisionertest.Child {
	return provisionertest.New(name, &f.trace).Up(up...)
}

func ser(children ...provisioner.Provisioner) provisioner.Provisioner {
	return serial.New("serial", children...)
}

func conc(children ...provisioner.Provisioner) provisioner.Provisioner {
	return concurrent.New("concurrent", concurrent.Options{Limit: 1}, children...)
}

func cond(d conditional.Decision, child provisioner.Provisioner) provisioner.Provisioner {
	return conditional.New("conditional", func(context.Context) conditional.Decision { return d }, child)
}

func TestNestingProvision(t *testing.T) {
	for name, test := range map[string]struct {
		reason   string
		tree     func(f *forest) provisioner.Provisioner
		calls    []string
		class    abi.Disposition
		headline abi.Disposition
		path     string
	}{
		"Case050": {
			"a yield inside holds up what is behind", func(f *forest) provisioner.Provisioner {
				return ser(conc(f.leaf("a"), f.leaf("b", yields)), f.leaf("x"))
			}, []string{"P a", "P b"}, abi.Yield, abi.Yield, "0/1",
		},
		"Case051": {
			"a terminal beside a yield does not park", func(f *forest) provisioner.Provisioner {
				return ser(conc(f.leaf("a", ends), f.leaf("b", yields)), f.leaf("x"))
			}, []string{"P a", "P b"}, abi.Yield, abi.Terminal, "0/0",
		},
		"Case052": {
			"the headline has its whole path", func(f *forest) provisioner.Provisioner {
				return conc(ser(f.leaf("a"), f.leaf("b", ends)), ser(f.leaf("c", yields), f.leaf("d")))
			}, []string{"P a", "P b", "P c"}, abi.Yield, abi.Terminal, "0/1",
		},
		"Case053": {
			"with nothing left to do it parks", func(f *forest) provisioner.Provisioner {
				return conc(ser(f.leaf("a", ends)), conc(f.leaf("b", asks), f.leaf("c")))
			}, []string{"P a", "P b", "P c"}, abi.Terminal, abi.Terminal, "0/0",
		},
		"Case054": {
			"a retry two levels down keeps it going", func(f *forest) provisioner.Provisioner {
				return conc(conc(f.leaf("a", retries), f.leaf("b")), f.leaf("c", ends))
			}, []string{"P a", "P b", "P c"}, abi.Retry, abi.Terminal, "1",
		},
		"Case058": {
			"what is switched off goes side by side", func(f *forest) provisioner.Provisioner {
				return cond(conditional.False(), conc(f.leaf("x").Down(yields), f.leaf("z")))
			}, []string{"D x", "D z"}, abi.Yield, abi.Yield, "0/0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var f forest
			outcome := provisioner.OutcomeOf(test.tree(&f).Provision(t.Context()))
			require.Equal(t, test.class, outcome.Class, test.reason)
			require.Equal(t, test.headline, outcome.Headline.Disposition, test.reason)
			require.Equal(t, test.path, outcome.Headline.Path, test.reason)
			require.Equal(t, test.calls, f.trace.Calls(), test.reason)
		})
	}
}

func TestNestingDeprovision(t *testing.T) {
	t.Run("Case055", func(t *testing.T) {
		var f forest
		tree := ser(f.leaf("a"), conc(f.leaf("b"), f.leaf("c")), f.leaf("d"))
		require.NoError(t, tree.Deprovision(t.Context()))
		require.Equal(t, []string{"D d", "D b", "D c", "D a"}, f.trace.Calls())
	})
	t.Run("Case056", func(t *testing.T) {
		var f forest
		tree := ser(f.leaf("a"), conc(f.leaf("b"), f.leaf("c").Down(yields)), f.leaf("d"))
		outcome := provisioner.OutcomeOf(tree.Deprovision(t.Context()))
		require.Equal(t, abi.Yield, outcome.Class)
		require.Equal(t, "1/1", outcome.Headline.Path)
		require.Equal(t, []string{"D d", "D b", "D c"}, f.trace.Calls())
	})
	t.Run("Case057", func(t *testing.T) {
		var f forest
		tree := concurrent.New("c", concurrent.Options{Limit: 1, Down: concurrent.Serial}, f.leaf("cluster"), ser(f.leaf("boot")))
		require.NoError(t, tree.Provision(t.Context()))
		require.NoError(t, tree.Deprovision(t.Context()))
		require.Equal(t, []string{"P cluster", "P boot", "D boot", "D cluster"}, f.trace.Calls())
	})
}

// TestGoldenLife runs a platform from nothing to nothing, pass by pass.
func TestGoldenLife(t *testing.T) {
	var f forest
	gpu := conditional.False()
	wantsGPU := func(context.Context) conditional.Decision { return gpu }
	tree := ser(
		f.leaf("cni", yields, yields, nil).Down(yields, nil),
		conc(
			f.leaf("metrics", yields, nil).Down(nil),
			f.leaf("storage", asks, nil).Down(ends, nil),
		),
		conditional.New("conditional", wantsGPU, f.leaf("gpu", retries, nil).Down(nil, yields, nil)),
	)
	var log strings.Builder
	pass := func(op string, err error) {
		o := provisioner.OutcomeOf(err)
		fmt.Fprintf(&log, "%s: %s", op, o.Class)
		if !o.OK() {
			fmt.Fprintf(&log, ", shows %s %s at %s", o.Headline.Disposition, o.Headline.Reason, o.Headline.Path)
		}
		fmt.Fprintf(&log, "\n    %s\n", strings.Join(f.trace.Calls(), ", "))
	}
	for range 6 {
		pass("provision", tree.Provision(t.Context()))
	}
	gpu = conditional.Unknown(nil)
	pass("provision, gpu unknown", tree.Provision(t.Context()))
	gpu = conditional.True()
	for range 2 {
		pass("provision with gpu", tree.Provision(t.Context()))
	}
	for range 4 {
		pass("deprovision", tree.Deprovision(t.Context()))
	}

	golden := filepath.Join("testdata", "life.golden")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(golden, []byte(log.String()), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), log.String())
}
