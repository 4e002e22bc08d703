package guest

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"

	"github.com/caisson-dev/caisson/guest-sdk/internal/wire"
)

// String returns a string, or "" for none.
func (d Doc) String() string { return d.StringOr("") }

// StringOr returns a string, or fallback for none and for an empty one.
func (d Doc) StringOr(fallback string) string {
	if !d.is(wire.KindString, "a string") {
		return fallback
	}
	if s := d.value.Text(); s != "" {
		return s
	}
	return fallback
}

// OneOf returns a string out of a list, and the first of it for none and for an empty one.
// Any other string is noted.
func (d Doc) OneOf(first string, others ...string) string {
	s := d.StringOr(first)
	if s == first {
		return s
	}
	list := first
	for _, other := range others {
		if s == other {
			return s
		}
		list += ", " + other
	}
	d.Refuse("must be one of " + list)
	return first
}

// Int returns a whole number, or 0 for none.
func (d Doc) Int() int { return d.IntOr(0) }

// IntOr returns a whole number, or fallback for none. One that is written with a fraction
// or an exponent is none, as in encoding/json.
func (d Doc) IntOr(fallback int) int {
	if !d.is(wire.KindNumber, "a whole number") {
		return fallback
	}
	n, err := strconv.ParseInt(string(d.value.Raw()), 10, 64)
	if err != nil || n < math.MinInt || n > math.MaxInt {
		d.Refuse("must be a whole number")
		return fallback
	}
	return int(n)
}

// Float returns a number, or 0 for none.
func (d Doc) Float() float64 { return d.FloatOr(0) }

// FloatOr returns a number, or fallback for none.
func (d Doc) FloatOr(fallback float64) float64 {
	if !d.is(wire.KindNumber, "a number") {
		return fallback
	}
	f, err := strconv.ParseFloat(string(d.value.Raw()), 64)
	if err != nil {
		d.Refuse("is out of range")
		return fallback
	}
	return f
}

// Bool returns a boolean, or false for none.
func (d Doc) Bool() bool { return d.BoolOr(false) }

// BoolOr returns a boolean, or fallback for none.
func (d Doc) BoolOr(fallback bool) bool {
	if !d.is(wire.KindBool, "a boolean") {
		return fallback
	}
	return d.value.Raw()[0] == 't'
}

// Strings returns a list of strings, or nil for none.
func (d Doc) Strings() []string {
	items := d.Items()
	if items == nil {
		return nil
	}
	list := make([]string, 0, len(items))
	for _, item := range items {
		if item.value.Kind() != wire.KindString {
			item.mistyped("a string")
			continue
		}
		list = append(list, item.String())
	}
	return list
}

// Raw returns the document as it stands, or nil for none: to pass it on, in the values of
// a chart for instance.
func (d Doc) Raw() json.RawMessage {
	d.value.Take()
	return d.value.Raw()
}

// Decode decodes the document with encoding/json, which makes the module a megabyte
// larger. It leaves into alone if d is absent. An error is noted as well.
func (d Doc) Decode(into any) error {
	raw := d.Raw()
	if raw == nil {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		d.Refuse("cannot be decoded: " + err.Error())
		return errors.New(d.Path() + ": " + err.Error())
	}
	return nil
}
