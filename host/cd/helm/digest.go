package helm

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/caisson-dev/caisson/host/cd"
)

// The labels on a release that say what was asked for. Helm copies the labels of the
// last revision, so every action sets all of them.
const (
	// labelOwner is the hash of the owner and the place in its tree. A release without
	// it, or with another, belongs to somebody else.
	labelOwner = "caisson.dev/owner"
	// labelChart identifies repository, chart and version.
	labelChart = "caisson.dev/chart"
	// labelValues identifies values, parameters and the secrets behind the handles.
	labelValues = "caisson.dev/values"
)

// labelDigest is how many hex digits of SHA-256 a label keeps: 128 bits, well below the
// 63 characters that a label value may have.
const labelDigest = 32

// identity is what was asked for, in a form that fits into labels.
type identity struct {
	owner  string
	chart  string
	values string
}

// identify derives the identity of an application. Values that cannot be written as
// JSON are an error.
func identify(app *cd.Application) (identity, error) {
	values := app.ValuesDigest
	if values == "" {
		canonical, err := canonicalValues(app)
		if err != nil {
			return identity{}, err
		}
		values = string(canonical)
	}
	return identity{
		owner:  app.ID.Hash(),
		chart:  shortDigest(app.Repo + "\x00" + app.Chart + "\x00" + app.Version),
		values: shortDigest(values),
	}, nil
}

func (i identity) labels() map[string]string {
	return map[string]string{labelOwner: i.owner, labelChart: i.chart, labelValues: i.values}
}

// owns reports whether a release with these labels was made for the same application.
func (i identity) owns(labels map[string]string) bool { return labels[labelOwner] == i.owner }

// describes reports whether a release with these labels is what is asked for now.
func (i identity) describes(labels map[string]string) bool {
	return i.owns(labels) && labels[labelChart] == i.chart && labels[labelValues] == i.values
}

// digest is the whole identity as one string, to compare attempts by.
func (i identity) digest() string { return i.owner + "/" + i.chart + "/" + i.values }

func shortDigest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:labelDigest]
}

// canonicalValues is JSON with sorted keys in which equal numbers are equal text, so
// that 1 and 1.0, which YAML, JSON and Go make of one another, are no difference.
func canonicalValues(app *cd.Application) ([]byte, error) {
	values := app.Values
	if values == nil {
		values = map[string]any{}
	}
	raw, err := json.Marshal([]any{values, app.Parameters})
	if err != nil {
		return nil, fmt.Errorf("encoding values: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var tree any
	if err := decoder.Decode(&tree); err != nil {
		return nil, fmt.Errorf("decoding values: %w", err)
	}
	canonical, err := json.Marshal(canonicalNumbers(tree))
	if err != nil {
		return nil, fmt.Errorf("encoding values: %w", err)
	}
	return canonical, nil
}

func canonicalNumbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, item := range v {
			v[key] = canonicalNumbers(item)
		}
	case []any:
		for i, item := range v {
			v[i] = canonicalNumbers(item)
		}
	case json.Number:
		return canonicalNumber(v)
	}
	return v
}

// exactFloat is 2^53: below it every whole float64 is exactly that integer.
const exactFloat = 1 << 53

func canonicalNumber(n json.Number) json.Number {
	if _, err := strconv.ParseInt(n.String(), 10, 64); err == nil {
		return n
	}
	f, err := strconv.ParseFloat(n.String(), 64)
	if err != nil {
		return n
	}
	if f == math.Trunc(f) && math.Abs(f) < exactFloat {
		return json.Number(strconv.FormatInt(int64(f), 10))
	}
	return json.Number(strconv.FormatFloat(f, 'g', -1, 64))
}
