package leaf

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/caisson-dev/caisson/abi"
)

// Case is one size of the work.
type Case struct {
	// Kilobytes is the size of the envelope, Calls the number of host calls.
	Kilobytes, Calls int
}

// String names the case as benchmark names do.
func (c Case) String() string { return fmt.Sprintf("size=%dKB/calls=%d", c.Kilobytes, c.Calls) }

// Cases are all sizes of the work.
func Cases() []Case {
	var cases []Case
	for _, kilobytes := range []int{1, 4, 64} {
		for _, calls := range []int{0, 3, 30} {
			cases = append(cases, Case{kilobytes, calls})
		}
	}
	return cases
}

// Envelope returns an envelope of the case: within 80 bytes of its size, all of it content
// that a module decodes.
func Envelope(c Case) ([]byte, error) {
	config := Config{Calls: c.Calls, Items: []Item{}}
	for {
		raw, err := json.Marshal(config)
		if err != nil {
			return nil, fmt.Errorf("write the config: %w", err)
		}
		envelope, err := json.Marshal(abi.Input{
			ABI: abi.Version, Operation: abi.ExportProvision,
			Node:   abi.Node{Name: "leaf", Path: "all/on-workload/leaf"},
			Owner:  abi.Owner{APIVersion: "caisson.dev/v1alpha1", Kind: "Stack", Namespace: "team", Name: "demo", UID: "0e8cbd5f-5f43-4e0c-8f0d-1e6f6d3d5a01", Generation: 4},
			Config: raw, Facts: map[string]json.RawMessage{"ingressAddress": json.RawMessage(`"198.51.100.9"`)},
			State: json.RawMessage(`{"count":41}`), Scope: abi.Scope{ID: "4be1c2", Remote: true, Host: "203.0.113.7", Port: 6443, State: abi.ScopeReady},
			Teardown: abi.Drain, Installed: true, Capabilities: []abi.Function{abi.KubeGet}, Now: "2026-01-02T03:04:05Z", DeadlineMillis: 10_000,
		})
		if err != nil {
			return nil, fmt.Errorf("write the envelope: %w", err)
		}
		if len(envelope) > c.Kilobytes<<10-80 {
			return envelope, nil
		}
		i := len(config.Items)
		config.Items = append(config.Items, Item{
			Name: fmt.Sprintf("component-%d", i), Image: fmt.Sprintf("registry.example/platform/component-%d:1.%d.0", i, i), Replicas: i % 7, Enabled: i%3 > 0,
		})
	}
}

// Answer is the host's side of a host call: a ConfigMap that is there already, so that
// what is measured is the way to the host and back.
func Answer(f abi.Function, request []byte) []byte {
	if f != abi.KubeGet || !bytes.Contains(request, []byte(`"peer-`)) {
		return []byte(`{"error":{"code":"invalid","message":"there are ConfigMaps of peers only"}}`)
	}
	return []byte(answer)
}

// answer is as much as a small object is.
const answer = `{"result":{"object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"peer","namespace":"platform","uid":"7d0a42c6-1b7e-4be1-9d43-0d0f5f2c2a10","resourceVersion":"4711",` +
	`"creationTimestamp":"2026-01-01T00:00:00Z","labels":{"app.kubernetes.io/name":"peer","app.kubernetes.io/part-of":"platform"}},"data":{"address":"203.0.113.41","zone":"eu-1a"}}}}`

// Equal reports whether two outputs say the same.
func Equal(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	one, errOne := json.Marshal(x)
	other, errOther := json.Marshal(y)
	return errOne == nil && errOther == nil && bytes.Equal(one, other)
}
