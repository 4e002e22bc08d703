package guest

import (
	"encoding/json"
	"errors"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/guest-sdk/internal/wire"
)

// Module is a leaf provisioner. C is the struct that a node's config is decoded into;
// use struct{} for a module without one. See [Lean] for one that does without decoding.
type Module[C any] struct {
	// Manifest is what the module declares of itself; an ABI of 0 becomes [abi.Version].
	Manifest abi.Manifest
	// Provision moves the world towards the desired state, without waiting, and returns
	// nil once it has observed it. It is called again and again and starts each time
	// with fresh memory. A config with an unknown or mistyped field never gets here: the
	// call is Terminal invalid_config.
	Provision func(call *Call, config C) error
	// Deprovision removes what Provision made, and returns nil only when it is gone.
	// It must succeed for what never existed. A removal must not depend on a correct
	// config, so here fields that cannot be decoded are simply left at their zero value.
	Deprovision func(call *Call, config C) error
}

// Program is a [Module] or a [Lean] one, of any config type.
type Program interface {
	manifest() abi.Manifest
	handle(call *Call) error
	// warm does what the first call would otherwise have to do before it gets anywhere.
	warm()
}

// registered is the program behind the exports. A module is a program of its own, with
// one module in it, so this is as global as its main.
var registered Program

// Register makes p the module of this program and returns it, for use as
//
//	var module = guest.Register(guest.Module[Config]{…})
//
// It also makes the module ready for calls, once for all that its worker will serve
// (warm.go); of the author's code only methods that encode a zero config run in it. It
// panics when called twice: a program is one module.
func Register[P Program](p P) P {
	if registered != nil {
		panic("guest: Register called twice; a program is one module")
	}
	registered = p
	warmUp(p)
	return p
}

// Describe returns the manifest of p as the describe export answers it.
func Describe(p Program) abi.Manifest {
	m := p.manifest()
	if m.ABI == 0 {
		m.ABI = abi.Version
	}
	return m
}

func (m Module[C]) manifest() abi.Manifest { return m.Manifest }

func (m Module[C]) handle(call *Call) error {
	handler := m.Provision
	if call.removing() {
		handler = m.Deprovision
	}
	if handler == nil {
		return errors.New("the module has no handler for " + call.input.Operation)
	}
	call.marshal = json.Marshal
	var config C
	if err := decodeConfig(call.input.Config, &config); err != nil && !call.removing() {
		return Terminal(abi.ReasonInvalidConfig, "config: "+err.Error())
	}
	return handler(call, config)
}

// describe encodes the manifest; it cannot fail for a manifest without a schema, and
// for one with a malformed schema the error names it.
func describe(p Program) ([]byte, error) {
	if p == nil {
		return nil, errors.New("no module is registered; see guest.Register")
	}
	manifest := Describe(p)
	out, err := wire.EncodeManifest(&manifest)
	if err != nil {
		return nil, errors.New("encode the manifest: " + err.Error())
	}
	return out, nil
}

// warm makes encoding/json look at the type of the config, which takes it longer than
// decoding one.
func (m Module[C]) warm() {
	defer func() { _ = recover() }() // methods of the author's may not expect a zero value
	var config C
	_, _ = json.Marshal(config) //nolint:errchkjson // It is for what encoding/json keeps.
	_ = decodeConfig([]byte("{}"), &config)
}
