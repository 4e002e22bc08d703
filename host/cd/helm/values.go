package helm

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/strvals"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/provisioner"
)

// handlePattern is what a secret handle looks like (DESIGN of the ABI: 128 bits in hex).
var handlePattern = regexp.MustCompile(`caisson-secret:[0-9a-f]{32}:`)

// rendering is what a chart is rendered with. It holds secrets: it lives from the start
// of an action to its end, and goes nowhere but into Helm.
type rendering struct {
	values map[string]any
	// secrets are the texts in the values that came from Secrets, and places where they are.
	secrets []string
	places  []string
}

// hide replaces the secrets in a text that is going to be logged.
func (r rendering) hide(text string) string { return hiding(r.secrets)(text) }

// render copies the values, replaces the secret handles, and applies the parameters.
// The copy is needed because Helm writes into what it is given.
func render(app *cd.Application) (rendering, error) {
	e := &expander{expand: app.Secrets, secrets: slices.Clone(app.Confidential)}
	tree, err := e.copy(app.Values)
	if err != nil {
		return rendering{}, err
	}
	values, ok := tree.(map[string]any)
	if !ok || values == nil {
		values = map[string]any{}
	}
	for _, p := range app.Parameters {
		value, err := e.text(p.Value)
		if err != nil {
			return rendering{}, err
		}
		if err := strvals.ParseInto(p.Name+"="+setValue(value), values); err != nil {
			return rendering{}, provisioner.Terminal(abi.ReasonRenderFailed, "parameter "+p.Name+" is not valid")
		}
	}
	return rendering{values: values, secrets: e.secrets, places: places(values, e.secrets)}, nil
}

// setValue writes a value so that it sets one parameter and no more: --set would read
// a comma as the start of the next one. {a,b} is its syntax for a list and stays.
func setValue(value string) string {
	if strings.HasPrefix(value, "{") && strings.HasSuffix(value, "}") {
		return value
	}
	return strings.NewReplacer(`\`, `\\`, `,`, `\,`).Replace(value)
}

// expander copies values while it replaces handles, and remembers what it put in.
type expander struct {
	expand  cd.SecretExpander
	secrets []string
}

func (e *expander) copy(v any) (any, error) {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, item := range v {
			copied, err := e.copy(item)
			if err != nil {
				return nil, err
			}
			out[key] = copied
		}
		return out, nil
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			copied, err := e.copy(item)
			if err != nil {
				return nil, err
			}
			out[i] = copied
		}
		return out, nil
	case string:
		return e.text(v)
	case float64, json.Number:
		return wholeNumber(v), nil
	default:
		return v, nil
	}
}

// wholeNumber turns what JSON made of an integer back into one: templates print the
// float64 1000000 as 1e+06, and a json.Number as a string.
func wholeNumber(v any) any {
	switch v := v.(type) {
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < exactFloat {
			return int64(v)
		}
	case json.Number:
		if whole, err := canonicalNumber(v).Int64(); err == nil {
			return whole
		}
		if f, err := v.Float64(); err == nil {
			return f
		}
		return v.String()
	}
	return v
}

func (e *expander) text(text string) (string, error) {
	if e.expand == nil || !strings.Contains(text, "caisson-secret:") {
		return text, nil
	}
	expanded, err := e.expand(text)
	if err != nil {
		return "", fmt.Errorf("replacing secret handles: %w", err)
	}
	if expanded == text {
		return text, nil
	}
	e.secrets = append(e.secrets, expanded)
	for _, handle := range handlePattern.FindAllString(text, -1) {
		if secret, err := e.expand(handle); err == nil && secret != handle {
			e.secrets = append(e.secrets, secret)
		}
	}
	return expanded, nil
}
