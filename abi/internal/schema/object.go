package schema

import (
	"bytes"
	"encoding/json"
)

// object is a JSON object whose members keep their order, so that a schema reads in the
// order of the Go type.
type object []member

type member struct {
	key   string
	value any
}

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		for j, part := range []any{m.key, m.value} {
			if j == 1 {
				b.WriteByte(':')
			}
			e := json.NewEncoder(&b)
			e.SetEscapeHTML(false)
			if err := e.Encode(part); err != nil {
				return nil, err
			}
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// with returns o with the members of rules; those that it has already are replaced.
func (o object) with(rules object) object {
	for _, rule := range rules {
		replaced := false
		for i := range o {
			if o[i].key == rule.key {
				o[i].value, replaced = rule.value, true
			}
		}
		if !replaced {
			o = append(o, rule)
		}
	}
	return o
}
