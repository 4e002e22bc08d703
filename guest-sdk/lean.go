package guest

import (
	"errors"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/guest-sdk/internal/wire"
)

// Lean is a module that reads its config itself, field by field, instead of having it
// decoded. It does all that a [Module] does, and weighs and costs less: encoding/json is
// the largest part of a call in WebAssembly, and a third of the file.
//
//	guest.Register(guest.Lean[Config]{
//		Config: func(in guest.Doc) Config {
//			return Config{Host: in.Get("host").Required().String(), Replicas: in.Get("replicas").IntOr(2)}
//		},
//		…
//	})
//
// It stays lean as long as the module keeps to the methods that return a [Doc], and to
// values of the types that [Values] lists. The methods that decode into a variable work
// as well, at the price of encoding/json.
type Lean[C any] struct {
	// Manifest is as in [Module].
	Manifest abi.Manifest
	// Config reads the config of a node. It should ask for every field each time, whatever
	// the others say, because a field that it does not ask for is taken for a mistake:
	// like a mistyped one, and one that it refuses, it makes a provision Terminal
	// invalid_config, with the path in the why. Without this function there is no config.
	Config func(in Doc) C
	// Provision and Deprovision are as in [Module]. A removal must not depend on a correct
	// config: fields that cannot be read have their defaults there.
	Provision   func(call *Call, config C) error
	Deprovision func(call *Call, config C) error
}

func (m Lean[C]) manifest() abi.Manifest { return m.Manifest }

func (m Lean[C]) warm() {}

func (m Lean[C]) handle(call *Call) error {
	handler := m.Provision
	if call.removing() {
		handler = m.Deprovision
	}
	if handler == nil {
		return errors.New("the module has no handler for " + call.input.Operation)
	}
	config, problem := readConfig(call.Config(), m.Config)
	if problem != "" && !call.removing() {
		return Terminal(abi.ReasonInvalidConfig, problem)
	}
	return handler(call, config)
}

// readConfig reads a config and says what is wrong with it. What nobody asked for is said
// beside the first problem, because a name that is misspelt explains one that is missing.
func readConfig[C any](in Doc, read func(Doc) C) (config C, problem string) {
	in.is(wire.KindObject, "an object")
	if read != nil {
		config = read(in)
	}
	problem = in.doc.problem
	unread := in.value.Unread()
	if unread.Kind() == wire.KindNone {
		return config, problem
	}
	unknown := Doc{doc: in.doc, value: unread}.Path() + " is unknown"
	if problem != "" {
		unknown = problem + "; " + unknown
	}
	return config, unknown
}
