package guest_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/guest-sdk"
	"github.com/caisson-dev/caisson/guest-sdk/guesttest"
)

// exampleConfig is what a node passes to the module of the example.
type exampleConfig struct {
	Replicas int `json:"replicas"`
}

// exampleModule is the module of SPEC.md and the README, without its registration.
func exampleModule() guest.Module[exampleConfig] {
	return guest.Module[exampleConfig]{
		Manifest: abi.Manifest{Name: "hello", Version: "1.0.0", Capabilities: []abi.Function{abi.AppEnsure, abi.AppRemove}},
		Provision: func(call *guest.Call, cfg exampleConfig) error {
			return call.App("").Ensure(guest.AppSpec{
				Repo: "oci://registry.example/charts", Chart: "hello", Version: "1.0.0", Namespace: "hello", CreateNamespace: true,
				Values: guest.Values{"replicas": cfg.Replicas, "apiHost": call.Scope().Host},
			})
		},
		Deprovision: func(call *guest.Call, _ exampleConfig) error { return call.App("").Remove() },
	}
}

func ExampleModule() {
	h := guesttest.New(printer{}, exampleModule(), guesttest.Remote("workload", "203.0.113.7", 6443))
	fmt.Println(h.Provision(exampleConfig{Replicas: 2}))
	h.AppReady("")
	fmt.Println(h.Provision(exampleConfig{Replicas: 2}))
	fmt.Println(h.AppValues(""))
	// Output:
	// Yield application_installing
	// OK
	// map[apiHost:203.0.113.7 replicas:2]
}

// printer stands in for the *testing.T of a test.
type printer struct{}

func (printer) Helper()                           {}
func (printer) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }
func (printer) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func TestExample(t *testing.T) {
	h := guesttest.New(t, exampleModule())
	require.Equal(t, "Yield application_installing", h.Provision(nil).String())
	require.Equal(t, "Yield application_deleting", h.Deprovision(nil).String())
	h.AppGone("")
	require.Equal(t, "OK", h.Deprovision(nil).String())
}

// mirrorConfig is what a node passes to the module of the second example.
type mirrorConfig struct {
	Host     string
	Replicas int
}

func mirrorModule() guest.Lean[mirrorConfig] {
	return guest.Lean[mirrorConfig]{
		Manifest: abi.Manifest{Name: "mirror", Version: "1.0.0", Capabilities: []abi.Function{abi.AppEnsure, abi.AppRemove}},
		Config: func(in guest.Doc) mirrorConfig {
			return mirrorConfig{
				Host:     in.Get("registry", "host").Required().String(),
				Replicas: in.Get("replicas").IntOr(2),
			}
		},
		Provision: func(call *guest.Call, cfg mirrorConfig) error {
			return call.App("").Ensure(guest.AppSpec{
				Repo: "oci://registry.example/charts", Chart: "mirror", Version: "1.0.0",
				Values: guest.Values{"upstream": cfg.Host, "replicas": cfg.Replicas},
			})
		},
		Deprovision: func(call *guest.Call, _ mirrorConfig) error { return call.App("").Remove() },
	}
}

func ExampleLean() {
	h := guesttest.New(printer{}, mirrorModule())
	fmt.Println(h.Provision(map[string]any{"registry": map[string]any{"host": "ghcr.example"}}))
	fmt.Println(h.AppValues(""))
	refused := h.Provision(map[string]any{"registry": map[string]any{"hots": "ghcr.example"}, "replicas": "two"})
	fmt.Println(refused)
	fmt.Println(refused.Why)
	// Output:
	// Yield application_installing
	// map[replicas:2 upstream:ghcr.example]
	// Terminal invalid_config
	// config.registry.host is missing; config.registry.hots is unknown
}

func ExampleDoc() {
	module := guest.Lean[guest.Doc]{
		Manifest: abi.Manifest{Name: "doc", Version: "1.0.0"},
		Config:   func(in guest.Doc) guest.Doc { return in },
		Deprovision: func(_ *guest.Call, in guest.Doc) error {
			for _, port := range in.Get("ports").Items() {
				fmt.Println(port.Path(), port.Get("name").StringOr("unnamed"), port.Get("number").Int())
			}
			fmt.Println(in.Err())
			return nil
		},
	}
	guesttest.New(printer{}, module).Deprovision(map[string]any{
		"ports": []any{map[string]any{"name": "http", "number": 80}, map[string]any{"number": "x"}},
	})
	// Output:
	// config.ports[0] http 80
	// config.ports[1] unnamed 0
	// config.ports[1].number is a string and must be a whole number
}
