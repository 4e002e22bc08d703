package wire

import (
	"math"

	"github.com/caisson-dev/caisson/abi"
)

// The fields of the messages that are read, between spaces; a test compares them with the
// types.
const (
	inputFields = "abi operation node owner config facts state generationState stickyState scope teardown installed capabilities now deadlineMillis"
	nodeFields  = "name path"
	ownerFields = "apiVersion kind namespace name uid generation"
	scopeFields = "id remote host port state"
)

// DecodeInput decodes an envelope, whose raw documents alias data. The config comes once
// more as what was read of it already.
func DecodeInput(data []byte) (in abi.Input, config Value, err error) {
	root, err := Parse(data)
	if err != nil {
		return in, config, err
	}
	err = root.fields(inputFields, func(name []byte, v Value) (bool, error) {
		if string(name) == "config" {
			config = v
		}
		return readInput(&in, name, v)
	})
	return in, config, err
}

func readInput(in *abi.Input, name []byte, v Value) (bool, error) {
	switch string(name) {
	case "abi":
		return true, integer(v, &in.ABI, math.MinInt, math.MaxInt)
	case "operation":
		return true, text(v, &in.Operation)
	case "node":
		return true, readNode(v, &in.Node)
	case "owner":
		return true, readOwner(v, &in.Owner)
	case "config":
		in.Config = v.Raw()
		return true, nil
	case "facts":
		return true, documents(v, &in.Facts)
	case "state":
		in.State = v.Raw()
		return true, nil
	case "generationState":
		in.GenerationState = v.Raw()
		return true, nil
	case "stickyState":
		in.StickyState = v.Raw()
		return true, nil
	case "scope":
		return true, readScope(v, &in.Scope)
	case "teardown":
		return true, text(v, &in.Teardown)
	case "installed":
		return true, flag(v, &in.Installed)
	case "capabilities":
		return true, list(v, &in.Capabilities, text[abi.Function])
	case "now":
		return true, text(v, &in.Now)
	case "deadlineMillis":
		return true, integer(v, &in.DeadlineMillis, math.MinInt64, math.MaxInt64)
	default:
		return false, nil
	}
}

func readNode(v Value, n *abi.Node) error {
	return v.fields(nodeFields, func(name []byte, v Value) (bool, error) {
		switch string(name) {
		case "name":
			return true, text(v, &n.Name)
		case "path":
			return true, text(v, &n.Path)
		default:
			return false, nil
		}
	})
}

func readOwner(v Value, o *abi.Owner) error {
	return v.fields(ownerFields, func(name []byte, v Value) (bool, error) {
		switch string(name) {
		case "apiVersion":
			return true, text(v, &o.APIVersion)
		case "kind":
			return true, text(v, &o.Kind)
		case "namespace":
			return true, text(v, &o.Namespace)
		case "name":
			return true, text(v, &o.Name)
		case "uid":
			return true, text(v, &o.UID)
		case "generation":
			return true, integer(v, &o.Generation, math.MinInt64, math.MaxInt64)
		default:
			return false, nil
		}
	})
}

func readScope(v Value, s *abi.Scope) error {
	return v.fields(scopeFields, func(name []byte, v Value) (bool, error) {
		switch string(name) {
		case "id":
			return true, text(v, &s.ID)
		case "remote":
			return true, flag(v, &s.Remote)
		case "host":
			return true, text(v, &s.Host)
		case "port":
			return true, integer(v, &s.Port, math.MinInt, math.MaxInt)
		case "state":
			return true, text(v, &s.State)
		default:
			return false, nil
		}
	})
}
