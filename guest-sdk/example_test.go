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
