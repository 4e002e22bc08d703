package guest_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	guest "github.com/caisson-dev/caisson/guest-sdk"
)

type benchItem struct {
	Name     string `json:"name"`
	Image    string `json:"image"`
	Replicas int    `json:"replicas"`
	Enabled  bool   `json:"enabled"`
}

type benchConfig struct {
	Calls int         `json:"calls"`
	Items []benchItem `json:"items"`
}

func readBenchConfig(in guest.Doc) benchConfig {
	c := benchConfig{Calls: in.Get("calls").Int()}
	for _, item := range in.Get("items").Items() {
		c.Items = append(c.Items, benchItem{
			Name: item.Get("name").String(), Image: item.Get("image").String(), Replicas: item.Get("replicas").Int(), Enabled: item.Get("enabled").Bool(),
		})
	}
	return c
}

// BenchmarkRun compares a module that reads its config with one that decodes it, natively:
// in WebAssembly both take about seven times as long.
func BenchmarkRun(b *testing.B) {
	provision := func(call *guest.Call, c benchConfig) error { return call.Publish("items", len(c.Items)) }
	lean := guest.Lean[benchConfig]{Config: readBenchConfig, Provision: provision}
	full := guest.Module[benchConfig]{Provision: provision}
	for _, kilobytes := range []int{1, 4, 64} {
		envelope := benchEnvelope(b, kilobytes<<10)
		_, want := guest.Run(full, abi.ExportProvision, envelope, nil)
		_, got := guest.Run(lean, abi.ExportProvision, envelope, nil)
		require.JSONEq(b, string(want), string(got), "both do the same")
		for _, c := range []struct {
			name   string
			module guest.Program
		}{{"lean", lean}, {"json", full}} {
			b.Run(fmt.Sprintf("size=%dKB/%s", kilobytes, c.name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					guest.Run(c.module, abi.ExportProvision, envelope, nil)
				}
			})
		}
	}
}

// benchEnvelope returns an envelope of at least that many bytes, most of them config.
func benchEnvelope(b *testing.B, size int) []byte {
	config := benchConfig{}
	for i := 0; ; i++ {
		raw, err := json.Marshal(config)
		require.NoError(b, err)
		envelope, err := json.Marshal(abi.Input{ABI: abi.Version, Operation: abi.ExportProvision, Config: raw, Now: "2026-01-02T03:04:05Z"})
		require.NoError(b, err)
		if len(envelope) >= size {
			return envelope
		}
		config.Items = append(config.Items, benchItem{
			Name: fmt.Sprintf("component-%d", i), Image: fmt.Sprintf("registry.example/platform/component-%d:1.%d.0", i, i), Replicas: i % 7, Enabled: i%3 > 0,
		})
	}
}
