package guest

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"

	"github.com/caisson-dev/caisson/guest-sdk/internal/wire"
)

// Values are the values of a chart. A nil stays a JSON null, which removes a default of
// the chart. Strings may contain the handle of a secret; see [Call.Secret].
//
// They are made of strings, booleans, numbers of any size, nil, further Values, maps from
// string to any or to string, lists ([]any, []string, []int, []Values, []map[string]any),
// a [Doc] that is passed on, and json.RawMessage. A [Module] takes whatever encoding/json
// takes; in a [Lean] one encode anything else first.
type Values map[string]any

// marshal encodes what encode does not know.
type marshal func(value any) ([]byte, error)

// maxNesting bounds how deep a value may be nested, which ends one that contains itself:
// the limit of those who read it.
const maxNesting = 10000

// encode encodes a value as encoding/json does, without reflection. others, unless it is
// nil, encodes the types that it does not know. An error names the path to what JSON
// cannot express.
func encode(value any, others marshal) (json.RawMessage, error) {
	e := encoder{others: others}
	if err := e.append(value, 0); err != nil {
		return nil, err
	}
	return e.out, nil
}

type encoder struct {
	out    []byte
	others marshal
}

// valueError says where in a value a problem is; the path grows on the way out.
type valueError struct{ path, problem string }

func (e *valueError) Error() string {
	if e.path == "" {
		return e.problem
	}
	return e.path + ": " + e.problem
}

// maxPath bounds the path in an error, which is for people.
const maxPath = 200

// below adds a part to the front of an error's path.
func below(part string, err error) error {
	if err == nil {
		return nil
	}
	e := &valueError{problem: err.Error()}
	if deeper, ok := err.(*valueError); ok { //nolint:errorlint // It is never wrapped.
		e = deeper
	}
	if len(e.path) <= maxPath {
		e.path = wire.JoinPath(part, e.path)
	}
	return e
}

func (e *encoder) append(value any, depth int) error {
	if depth > maxNesting {
		return errors.New("is nested too deep")
	}
	switch v := value.(type) {
	case nil:
		e.out = append(e.out, "null"...)
	case bool:
		e.out = strconv.AppendBool(e.out, v)
	case string:
		e.out = wire.AppendText(e.out, v)
	case Values:
		return appendMap(e, v, depth)
	case map[string]any:
		return appendMap(e, v, depth)
	case map[string]string:
		return appendMap(e, v, depth)
	case []any:
		return appendList(e, v, depth)
	case []string:
		return appendList(e, v, depth)
	case []int:
		return appendList(e, v, depth)
	case []Values:
		return appendList(e, v, depth)
	case []map[string]any:
		return appendList(e, v, depth)
	case json.RawMessage:
		return e.document(v)
	case Doc:
		return e.document(v.Raw())
	default:
		return e.number(value)
	}
	return nil
}

// number encodes the numeric types, and leaves what is none to others.
func (e *encoder) number(value any) (err error) {
	switch v := value.(type) {
	case int:
		e.out = strconv.AppendInt(e.out, int64(v), 10)
	case int8:
		e.out = strconv.AppendInt(e.out, int64(v), 10)
	case int16:
		e.out = strconv.AppendInt(e.out, int64(v), 10)
	case int32:
		e.out = strconv.AppendInt(e.out, int64(v), 10)
	case int64:
		e.out = strconv.AppendInt(e.out, v, 10)
	case uint:
		e.out = strconv.AppendUint(e.out, uint64(v), 10)
	case uint8:
		e.out = strconv.AppendUint(e.out, uint64(v), 10)
	case uint16:
		e.out = strconv.AppendUint(e.out, uint64(v), 10)
	case uint32:
		e.out = strconv.AppendUint(e.out, uint64(v), 10)
	case uint64:
		e.out = strconv.AppendUint(e.out, v, 10)
	case float32:
		e.out, err = wire.AppendFloat(e.out, float64(v), 32)
	case float64:
		e.out, err = wire.AppendFloat(e.out, v, 64)
	default:
		return e.other(value)
	}
	return err
}

func (e *encoder) other(value any) error {
	if e.others == nil {
		return errors.New("is of a type that guest.Values does not list; encode it first, for instance with json.Marshal")
	}
	raw, err := e.others(value)
	e.out = append(e.out, raw...)
	return err
}

func (e *encoder) document(raw []byte) (err error) {
	if raw == nil {
		e.out = append(e.out, "null"...)
		return nil
	}
	e.out, err = wire.AppendDocument(e.out, raw)
	return err
}

func appendMap[M ~map[string]V, V any](e *encoder, m M, depth int) error {
	if m == nil {
		e.out = append(e.out, "null"...)
		return nil
	}
	e.out = append(e.out, '{')
	for i, key := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			e.out = append(e.out, ',')
		}
		e.out = append(wire.AppendText(e.out, key), ':')
		if err := e.append(m[key], depth+1); err != nil {
			return below(wire.MemberPath("", key), err)
		}
	}
	e.out = append(e.out, '}')
	return nil
}

func appendList[V any](e *encoder, list []V, depth int) error {
	if list == nil {
		e.out = append(e.out, "null"...)
		return nil
	}
	e.out = append(e.out, '[')
	for i, value := range list {
		if i > 0 {
			e.out = append(e.out, ',')
		}
		if err := e.append(value, depth+1); err != nil {
			return below(wire.ElementPath("", i), err)
		}
	}
	e.out = append(e.out, ']')
	return nil
}
