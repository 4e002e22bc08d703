package application

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Merge lays value maps over each other, later ones winning. Maps are merged key by key;
// anything else, lists included, is replaced. A null is a value like any other: it
// replaces what was there and stays a null, with which Helm removes a chart's default.
// The result shares nothing with its arguments and is never nil.
func Merge(layers ...map[string]any) map[string]any {
	merged := map[string]any{}
	for _, layer := range layers {
		overlay(merged, layer)
	}
	return merged
}

func overlay(base, layer map[string]any) {
	for key, value := range layer {
		over, isMap := value.(map[string]any)
		under, wasMap := base[key].(map[string]any)
		if isMap && wasMap {
			overlay(under, over)
			continue
		}
		base[key] = clone(value)
	}
}

func clone(value any) any {
	switch v := value.(type) {
	case map[string]any:
		copied := make(map[string]any, len(v))
		for key, item := range v {
			copied[key] = clone(item)
		}
		return copied
	case []any:
		copied := make([]any, len(v))
		for i, item := range v {
			copied[i] = clone(item)
		}
		return copied
	default:
		return v
	}
}

var errNoObject = errors.New("is not a JSON object")

// DecodeValues reads a JSON object as chart values. Whole numbers become int64, because
// a template prints a float64 of a million as 1e+06; a number that fits neither int64
// nor float64 stays a json.Number. Empty input and null are no values, and nil.
func DecodeValues(raw []byte) (map[string]any, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var document any
	if err := decoder.Decode(&document); err != nil {
		return nil, fmt.Errorf("decode values: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("decode values: there is something after the JSON document")
	}
	if document == nil {
		return nil, nil
	}
	values, ok := document.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("decode values: %w", errNoObject)
	}
	return plain(values).(map[string]any), nil
}

// plain replaces the json.Number leaves in place.
func plain(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, item := range v {
			v[key] = plain(item)
		}
	case []any:
		for i, item := range v {
			v[i] = plain(item)
		}
	case json.Number:
		if whole, err := v.Int64(); err == nil {
			return whole
		}
		if fraction, err := v.Float64(); err == nil {
			return fraction
		}
	}
	return value
}
