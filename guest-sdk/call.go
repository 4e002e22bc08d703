package guest

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/guest-sdk/internal/wire"
)

// Call is one call of a handler: what the host says about it, and the way to ask the
// host for more. It is good until the handler returns and for one goroutine.
type Call struct {
	input  abi.Input
	config wire.Value // the same as that of input
	output abi.Output
	host   Host
	// marshal encodes values of types that this package does not know, or is nil.
	marshal marshal
}

func newCall(operation string, envelope []byte, host Host) (*Call, error) {
	c := &Call{host: host}
	var err error
	if c.input, c.config, err = wire.DecodeInput(envelope); err != nil {
		return c, errors.New("decode the envelope: " + err.Error())
	}
	if c.input.ABI != abi.Version {
		return c, errors.New("the host speaks another version of the ABI than the module")
	}
	if c.input.Operation != operation {
		return c, errors.New("the envelope asks for " + c.input.Operation + ", the export is " + operation)
	}
	return c, nil
}

func (c *Call) removing() bool { return c.input.Operation == abi.ExportDeprovision }

// Scope is the cluster that the module acts on.
func (c *Call) Scope() abi.Scope { return c.input.Scope }

// Teardown says how a Deprovision is to remove things. The host heeds it in
// [App.Remove]; it concerns a module that waits for other things as well. A later host may
// know further policies, which are best taken for [abi.Drain].
func (c *Call) Teardown() abi.Teardown { return c.input.Teardown }

// Node is the module's place in its tree.
func (c *Call) Node() abi.Node { return c.input.Node }

// Owner is the object whose tree this is.
func (c *Call) Owner() abi.Owner { return c.input.Owner }

// Installed reports whether the host knows of an application of this node.
func (c *Call) Installed() bool { return c.input.Installed }

// Granted reports whether the admin's grant covers a host function, for a module that
// can do without.
func (c *Call) Granted(f abi.Function) bool {
	for _, granted := range c.input.Capabilities {
		if granted == f {
			return true
		}
	}
	return false
}

// Now is the host's clock at the start of the call, in UTC. It is the zero time if the
// host sent none.
func (c *Call) Now() time.Time {
	now, err := time.Parse(time.RFC3339, c.input.Now)
	if err != nil {
		return time.Time{}
	}
	return now
}

// Fact decodes a fact that an earlier node published. One that is not there is a Yield
// facts_missing; a Deprovision must expect that and go on without. One of another shape
// is a Terminal invalid_config.
func (c *Call) Fact(name string, into any) error {
	raw, err := c.fact(name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return Terminal(abi.ReasonInvalidConfig, "fact "+name+": "+err.Error())
	}
	return nil
}

// FactDoc is like [Call.Fact], for reading the fact without decoding it.
func (c *Call) FactDoc(name string) (Doc, error) {
	raw, err := c.fact(name)
	if err != nil {
		return Doc{}, err
	}
	return parseDoc(name, raw), nil
}

func (c *Call) fact(name string) ([]byte, error) {
	raw, ok := c.input.Facts[name]
	if !ok {
		return nil, Yield(abi.ReasonFactsMissing, "fact "+name)
	}
	return raw, nil
}

// Config is the config of the node as it came, beside what the handler gets.
func (c *Call) Config() Doc { return newDoc("config", c.config) }

// Publish makes a fact known to later nodes, whatever the handler returns. A name should
// be an identifier, so that expressions can say facts.name. The host keeps a few
// KiB for all facts of a tree: publish addresses and names, not documents. The value is of
// a type that [Values] lists, or in a [Module] any that encoding/json takes; it fails for
// others.
func (c *Call) Publish(name string, value any) error {
	raw, err := encode(value, c.marshal)
	if err != nil {
		return errors.New("publish fact " + name + ": " + err.Error())
	}
	if c.output.Facts == nil {
		c.output.Facts = map[string]json.RawMessage{}
	}
	c.output.Facts[name] = raw
	return nil
}
