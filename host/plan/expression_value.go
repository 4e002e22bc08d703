package plan

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// maxResultBytes bounds what the expressions of one document may produce together. It
// is far below what etcd stores in one object (1.5 MiB), and a list that refers to
// itself a few times over grows beyond any bound without costing CEL anything.
const maxResultBytes = 256 << 10

// maxResultDepth bounds the nesting of what one expression produces.
const maxResultDepth = 64

var errResultTooLarge = fmt.Errorf("the result is larger than %d bytes or nested deeper than %d", maxResultBytes, maxResultDepth)

// decodeJSON parses one JSON document and keeps its numbers as they are written.
func decodeJSON(raw []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("text follows the JSON document")
	}
	return value, nil
}

// encodeJSON is json.Marshal without the escaping of <, > and &.
func encodeJSON(value any) ([]byte, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n")), nil
}

// plain returns a decoded document with its numbers as int64 where they are integers
// that fit, and float64 otherwise, which is what the Kubernetes API makes of them.
func plain(value any) (any, error) {
	switch v := value.(type) {
	case json.Number:
		return plainNumber(v)
	case map[string]any:
		object := make(map[string]any, len(v))
		for key, item := range v {
			p, err := plain(item)
			if err != nil {
				return nil, err
			}
			object[key] = p
		}
		return object, nil
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			p, err := plain(item)
			if err != nil {
				return nil, err
			}
			list[i] = p
		}
		return list, nil
	default:
		return value, nil
	}
}

func plainNumber(n json.Number) (any, error) {
	if i, err := strconv.ParseInt(n.String(), 10, 64); err == nil {
		return i, nil
	}
	f, err := n.Float64()
	if err != nil {
		return nil, fmt.Errorf("the number %s is out of range", clip(n.String()))
	}
	return f, nil
}

// exporter turns results of CEL into JSON values and counts what they take.
type exporter struct {
	left int
}

func (e *exporter) spend(bytes int) error {
	e.left -= bytes
	if e.left < 0 {
		return errResultTooLarge
	}
	return nil
}

// export returns the JSON value of a CEL value.
func (e *exporter) export(value ref.Val, depth int) (any, error) {
	if depth > maxResultDepth {
		return nil, errResultTooLarge
	}
	if err := e.spend(1); err != nil {
		return nil, err
	}
	switch v := value.(type) {
	case types.Null:
		return nil, nil //nolint:nilnil // JSON null is a value.
	case types.Bool:
		return bool(v), nil
	case types.Int:
		return int64(v), nil
	case types.Uint:
		if v <= math.MaxInt64 {
			return int64(v), nil
		}
		return json.Number(strconv.FormatUint(uint64(v), 10)), nil
	case types.Double:
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, errors.New("the result is not a number that JSON has")
		}
		return float64(v), nil
	case types.String:
		return string(v), e.spend(len(v))
	case types.Bytes:
		text := base64.StdEncoding.EncodeToString(v)
		return text, e.spend(len(text))
	case types.Timestamp:
		return v.UTC().Format(time.RFC3339Nano), nil
	case types.Duration:
		return v.String(), nil
	case traits.Mapper:
		return e.exportMap(v, depth)
	case traits.Lister:
		return e.exportList(v, depth)
	default:
		return nil, fmt.Errorf("a result of type %s has no JSON form", value.Type().TypeName())
	}
}

func (e *exporter) exportMap(m traits.Mapper, depth int) (any, error) {
	object := map[string]any{}
	for it := m.Iterator(); it.HasNext() == types.True; {
		key, ok := it.Next().(types.String)
		if !ok {
			return nil, errors.New("a map with keys that are not strings has no JSON form")
		}
		if err := e.spend(len(key)); err != nil {
			return nil, err
		}
		item, err := e.export(m.Get(key), depth+1)
		if err != nil {
			return nil, err
		}
		object[string(key)] = item
	}
	return object, nil
}

func (e *exporter) exportList(l traits.Lister, depth int) (any, error) {
	list := []any{}
	for it := l.Iterator(); it.HasNext() == types.True; {
		item, err := e.export(it.Next(), depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	return list, nil
}

// clip keeps a long text of the spec from filling a message.
func clip(s string) string {
	const enough = 80
	if len(s) <= enough {
		return s
	}
	return string(bytes.ToValidUTF8([]byte(s[:enough]), nil)) + "…"
}
