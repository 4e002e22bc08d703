package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

const (
	dialect = "https://json-schema.org/draft/2020-12/schema"
	// base is where the schemas are known by; nothing has to be served there.
	base = "https://caisson.dev/schema/abi/v1/"
)

// Generate returns the schema files by name. source is the directory of package abi.
func Generate(source string) (map[string][]byte, error) {
	s, err := readSource(source)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, m := range messages() {
		b := builder{source: s, by: m.by, defs: map[string]object{}}
		raw, err := json.Marshal(b.file(m))
		if err != nil {
			return nil, fmt.Errorf("encode the schema %s: %w", m.name, err)
		}
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, raw, "", "  "); err != nil {
			return nil, fmt.Errorf("indent the schema %s: %w", m.name, err)
		}
		pretty.WriteByte('\n')
		files[m.name+".json"] = pretty.Bytes()
	}
	return files, nil
}

// builder builds one file; named structs of fields become definitions.
type builder struct {
	source *source
	by     direction
	defs   map[string]object
	order  []string
}

func (b *builder) file(m message) object {
	head := object{{"$schema", dialect}, {"$id", base + m.name + ".json"}, {"title", "abi." + m.typ.Name()}}
	var body object
	if m.answers == nil {
		body = b.structure(m.typ)
	} else {
		body = b.answer(m.answers)
	}
	head = append(head, body...)
	if len(b.order) == 0 {
		return head
	}
	var defs object
	for _, name := range b.order {
		defs = append(defs, member{name, b.defs[name]})
	}
	return append(head, member{"$defs", defs})
}

// answer is a response with the result of one host function.
func (b *builder) answer(result reflect.Type) object {
	return object{
		{"description", b.source.docs["Response"]},
		{"type", "object"},
		{"properties", object{{"result", b.reference(result)}, {"error", b.reference(messages()[3].typ)}}},
		{"oneOf", []object{{{"required", []string{"result"}}}, {{"required", []string{"error"}}}}},
	}
}

// structure is the schema of a struct.
func (b *builder) structure(typ reflect.Type) object {
	properties, required := object{}, []string{}
	for _, field := range reflect.VisibleFields(typ) {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" {
			continue // an embedded struct, whose fields are visible themselves
		}
		owner := typ
		if len(field.Index) > 1 {
			owner = typ.FieldByIndex(field.Index[:len(field.Index)-1]).Type
		}
		property := object{}
		if doc := b.source.docs[owner.Name()+"."+field.Name]; doc != "" {
			property = object{{"description", doc}}
		}
		property = append(property, b.value(field.Type)...).with(fieldRules()[typ.Name()+"."+name])
		properties = append(properties, member{name, property})
		if options != "omitempty" {
			required = append(required, name)
		}
	}
	s := object{{"description", b.source.docs[typ.Name()]}, {"type", "object"}, {"properties", properties}}
	if len(required) > 0 {
		s = append(s, member{"required", required})
	}
	return s.with(typeRules()[typ.Name()])
}

// reference makes a struct a definition and refers to it.
func (b *builder) reference(typ reflect.Type) object {
	if _, known := b.defs[typ.Name()]; !known {
		b.defs[typ.Name()] = nil
		b.order = append(b.order, typ.Name())
		b.defs[typ.Name()] = b.structure(typ)
	}
	return object{{"$ref", "#/$defs/" + typ.Name()}}
}

// value is the schema of a field's type.
func (b *builder) value(typ reflect.Type) object {
	if typ == reflect.TypeFor[json.RawMessage]() {
		return object{} // any JSON
	}
	switch typ.Kind() {
	case reflect.String:
		return b.named(typ, "string")
	case reflect.Int, reflect.Int32, reflect.Int64:
		return b.named(typ, "integer")
	case reflect.Bool:
		return object{{"type", "boolean"}}
	case reflect.Map:
		return object{{"type", "object"}, {"additionalProperties", b.value(typ.Elem())}}
	case reflect.Slice:
		if typ.Elem().Kind() == reflect.Uint8 {
			return object{{"type", "string"}, {"contentEncoding", "base64"}}
		}
		return object{{"type", "array"}, {"items", b.value(typ.Elem())}}
	case reflect.Struct:
		return b.reference(typ)
	case reflect.Pointer:
		return b.value(typ.Elem())
	default:
		// A field of any other kind has no business in a message; the tests of this package
		// look for this word.
		return object{{"type", "no JSON type"}}
	}
}

// named lists the values of a type that has constants: as a rule where a module writes
// it, as examples where a host does.
func (b *builder) named(typ reflect.Type, kind string) object {
	s := object{{"type", kind}}
	values := b.source.values[typ.Name()]
	switch {
	case len(values) == 0:
		return s
	case b.by == fromModule:
		return append(s, member{"enum", values})
	default:
		return append(s, member{"examples", values})
	}
}
