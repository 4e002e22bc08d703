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

// DecodeInput decodes an envelope. Its raw documents alias data.
func DecodeInput(data []byte) (abi.Input, error) {
	var in abi.Input
	err := document(data, func(r *Reader) error { return readInput(r, &in) })
	return in, err
}

func readInput(r *Reader, in *abi.Input) error {
	return r.fields(inputFields, func(name string) (bool, error) {
		switch name {
		case "abi":
			return true, integer(r, &in.ABI, math.MinInt, math.MaxInt)
		case "operation":
			return true, text(r, &in.Operation)
		case "node":
			return true, readNode(r, &in.Node)
		case "owner":
			return true, readOwner(r, &in.Owner)
		case "config":
			return true, raw(r, &in.Config)
		case "facts":
			return true, documents(r, &in.Facts)
		case "state":
			return true, raw(r, &in.State)
		case "generationState":
			return true, raw(r, &in.GenerationState)
		case "stickyState":
			return true, raw(r, &in.StickyState)
		case "scope":
			return true, readScope(r, &in.Scope)
		case "teardown":
			return true, text(r, &in.Teardown)
		case "installed":
			return true, flag(r, &in.Installed)
		case "capabilities":
			return true, list(r, &in.Capabilities, func(f *abi.Function) error { return text(r, f) })
		case "now":
			return true, text(r, &in.Now)
		case "deadlineMillis":
			return true, integer(r, &in.DeadlineMillis, math.MinInt64, math.MaxInt64)
		default:
			return false, nil
		}
	})
}

func readNode(r *Reader, n *abi.Node) error {
	return r.fields(nodeFields, func(name string) (bool, error) {
		switch name {
		case "name":
			return true, text(r, &n.Name)
		case "path":
			return true, text(r, &n.Path)
		default:
			return false, nil
		}
	})
}

func readOwner(r *Reader, o *abi.Owner) error {
	return r.fields(ownerFields, func(name string) (bool, error) {
		switch name {
		case "apiVersion":
			return true, text(r, &o.APIVersion)
		case "kind":
			return true, text(r, &o.Kind)
		case "namespace":
			return true, text(r, &o.Namespace)
		case "name":
			return true, text(r, &o.Name)
		case "uid":
			return true, text(r, &o.UID)
		case "generation":
			return true, integer(r, &o.Generation, math.MinInt64, math.MaxInt64)
		default:
			return false, nil
		}
	})
}

func readScope(r *Reader, s *abi.Scope) error {
	return r.fields(scopeFields, func(name string) (bool, error) {
		switch name {
		case "id":
			return true, text(r, &s.ID)
		case "remote":
			return true, flag(r, &s.Remote)
		case "host":
			return true, text(r, &s.Host)
		case "port":
			return true, integer(r, &s.Port, math.MinInt, math.MaxInt)
		case "state":
			return true, text(r, &s.State)
		default:
			return false, nil
		}
	})
}
