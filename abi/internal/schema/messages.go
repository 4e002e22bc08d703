package schema

import (
	"reflect"

	"github.com/caisson-dev/caisson/abi"
)

// direction says who writes a message. A module must take a word that it does not know
// from a host of a later minor version, so lists of values are open in what a host writes.
type direction int

const (
	fromHost direction = iota
	fromModule
)

// message is one schema file.
type message struct {
	name string
	typ  reflect.Type
	by   direction
	// answers is the result in the answer of a host function, or nil.
	answers reflect.Type
}

// messages lists every message of the ABI.
func messages() []message {
	all := []message{
		{name: "input", typ: reflect.TypeFor[abi.Input](), by: fromHost},
		{name: "output", typ: reflect.TypeFor[abi.Output](), by: fromModule},
		{name: "manifest", typ: reflect.TypeFor[abi.Manifest](), by: fromModule},
		{name: "error", typ: reflect.TypeFor[abi.CallError](), by: fromHost},
	}
	for _, f := range abi.Functions() {
		request, result := typesOf(f)
		all = append(all,
			message{name: string(f) + ".request", typ: request, by: fromModule},
			message{name: string(f) + ".answer", typ: reflect.TypeFor[abi.Response](), by: fromHost, answers: result})
	}
	return all
}

// typesOf returns the types of a host function's request and result.
func typesOf(f abi.Function) (request, result reflect.Type) {
	switch f {
	case abi.AppEnsure:
		return reflect.TypeFor[abi.AppSpec](), reflect.TypeFor[abi.AppStatus]()
	case abi.AppRemove:
		return reflect.TypeFor[abi.AppRef](), reflect.TypeFor[abi.AppStatus]()
	case abi.AppList:
		return reflect.TypeFor[abi.AppListRequest](), reflect.TypeFor[abi.AppListResult]()
	case abi.KubeGet:
		return reflect.TypeFor[abi.KubeGetRequest](), reflect.TypeFor[abi.KubeGetResult]()
	case abi.KubeList:
		return reflect.TypeFor[abi.KubeListRequest](), reflect.TypeFor[abi.KubeListResult]()
	case abi.KubeApply:
		return reflect.TypeFor[abi.KubeApplyRequest](), reflect.TypeFor[abi.KubeApplyResult]()
	case abi.KubeDelete:
		return reflect.TypeFor[abi.KubeDeleteRequest](), reflect.TypeFor[abi.KubeDeleteResult]()
	case abi.SecretRead:
		return reflect.TypeFor[abi.SecretReadRequest](), reflect.TypeFor[abi.SecretReadResult]()
	case abi.Event:
		return reflect.TypeFor[abi.EventRequest](), reflect.TypeFor[abi.EventResult]()
	default:
		return nil, nil
	}
}
