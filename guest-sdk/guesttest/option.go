package guesttest

import (
	"encoding/json"
	"fmt"

	"github.com/caisson-dev/caisson/abi"
)

// Option changes the envelope of a call. Write one for what has no option here: it may
// set any field.
type Option func(in *abi.Input) error

func (h *Harness) apply(in *abi.Input, options []Option) {
	h.t.Helper()
	for _, option := range options {
		if err := option(in); err != nil {
			h.t.Fatalf("guesttest: option: %v", err)
		}
	}
}

// Remote makes the scope a remote cluster with this ID and address.
func Remote(id, host string, port int) Option {
	return func(in *abi.Input) error {
		in.Scope = abi.Scope{ID: id, Remote: true, Host: host, Port: port, State: abi.ScopeReady}
		return nil
	}
}

// ScopeState sets whether the scope's cluster can be used. A host provisions in a ready
// scope only.
func ScopeState(state abi.ScopeState) Option {
	return func(in *abi.Input) error {
		in.Scope.State = state
		return nil
	}
}

// Teardown sets how a Deprovision removes things.
func Teardown(teardown abi.Teardown) Option {
	return func(in *abi.Input) error {
		in.Teardown = teardown
		return nil
	}
}

// Fact adds a fact that an earlier node has published.
func Fact(name string, value any) Option {
	return func(in *abi.Input) error {
		raw, err := json.Marshal(value)
		if err != nil {
			return fmt.Errorf("encode fact %s: %w", name, err)
		}
		if in.Facts == nil {
			in.Facts = map[string]json.RawMessage{}
		}
		in.Facts[name] = raw
		return nil
	}
}

// Now sets the host's clock, RFC 3339 in UTC.
func Now(now string) Option {
	return func(in *abi.Input) error {
		in.Now = now
		return nil
	}
}

// Without takes a declared capability out of the grant. The host then answers "denied".
func Without(f abi.Function) Option {
	return func(in *abi.Input) error {
		left := make([]abi.Function, 0, len(in.Capabilities))
		for _, c := range in.Capabilities {
			if c != f {
				left = append(left, c)
			}
		}
		in.Capabilities = left
		return nil
	}
}
