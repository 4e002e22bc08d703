package leaf_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	guest "github.com/caisson-dev/caisson/guest-sdk"
	"github.com/caisson-dev/caisson/host/sandbox/bench/internal/leaf"
	"github.com/caisson-dev/caisson/host/sandbox/bench/internal/lean"
)

// counter is a host that counts.
type counter struct{ calls int }

func (c *counter) Call(f abi.Function, request []byte) []byte {
	c.calls++
	return leaf.Answer(f, request)
}

func (c *counter) Log(guest.Level, string) {}

func TestLeaf(t *testing.T) {
	require.Len(t, leaf.Cases(), 9)
	for _, c := range leaf.Cases() {
		t.Run(c.String(), func(t *testing.T) {
			envelope, err := leaf.Envelope(c)
			require.NoError(t, err)
			require.InDelta(t, c.Kilobytes<<10, len(envelope), 80, "an envelope has the size that its name says")
			host := &counter{}
			disposition, output := guest.Run(leaf.New(), abi.ExportProvision, envelope, host)
			require.Equal(t, abi.OK, disposition, "%s", output)
			require.Equal(t, c.Calls, host.calls)
			_, other := guest.Run(lean.New(), abi.ExportProvision, envelope, host)
			require.True(t, leaf.Equal(output, other), "the lean kind answers the same: %s %s", output, other)
			var out struct {
				Facts struct {
					Replicas  int
					Addresses []string
				}
				State leaf.State
			}
			require.NoError(t, json.Unmarshal(output, &out))
			require.Len(t, out.Facts.Addresses, c.Calls)
			for _, address := range out.Facts.Addresses {
				require.Equal(t, "203.0.113.41", address)
			}
			require.Equal(t, 42, out.State.Count)
			if c.Kilobytes > 1 {
				require.Positive(t, out.Facts.Replicas, "the items are looked at")
			}
		})
	}
}

func TestAnswerRefusesWhatIsNotAskedFor(t *testing.T) {
	for _, f := range []abi.Function{abi.KubeGet, abi.KubeDelete} {
		require.Contains(t, string(leaf.Answer(f, []byte(`{}`))), "error", fmt.Sprint(f))
	}
}

func TestEqual(t *testing.T) {
	cases := map[string]struct {
		reason, a, b string
		want         bool
	}{
		"Order":    {"keys have no order", `{"a":1,"b":2}`, ` {"b":2,"a":1}`, true},
		"Value":    {"values count", `{"a":1}`, `{"a":2}`, false},
		"Missing":  {"absent is not null", `{"a":null}`, `{}`, false},
		"Not JSON": {"what cannot be read is equal to nothing", `x`, `x`, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, leaf.Equal([]byte(c.a), []byte(c.b)), c.reason) })
	}
}
