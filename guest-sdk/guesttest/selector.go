package guesttest

import (
	"errors"
	"regexp"
	"slices"
	"strings"
)

// requirementPattern is one requirement of a label selector: an optional !, a key, and
// an operator with its operand. Commas inside of parentheses belong to the operand.
var requirementPattern = regexp.MustCompile(`^\s*(!?)\s*([A-Za-z0-9][-A-Za-z0-9_./]*)\s*(?:(==|=|!=)\s*([-A-Za-z0-9_.]*)|\s(in|notin)\s*\(([^()]*)\))?\s*(?:,|$)`)

// parseSelector understands label selectors in the syntax of kubectl -l.
func parseSelector(selector string) (func(labels map[string]any) bool, error) {
	var requirements []func(map[string]any) bool
	for rest := selector; strings.TrimSpace(rest) != ""; {
		m := requirementPattern.FindStringSubmatch(rest)
		if m == nil || (m[1] != "" && (m[3] != "" || m[5] != "")) {
			return nil, errors.New("label selector " + selector)
		}
		requirements = append(requirements, requirement(m))
		rest = rest[len(m[0]):]
	}
	return func(labels map[string]any) bool {
		for _, matches := range requirements {
			if !matches(labels) {
				return false
			}
		}
		return true
	}, nil
}

func requirement(m []string) func(map[string]any) bool {
	key, operator, operand := m[2], m[3]+m[5], []string{m[4]}
	if m[5] != "" {
		operand = strings.Split(m[6], ",")
		for i := range operand {
			operand[i] = strings.TrimSpace(operand[i])
		}
	}
	return func(labels map[string]any) bool {
		value, present := labels[key].(string)
		switch operator {
		case "":
			return present == (m[1] == "")
		case "=", "==", "in":
			return present && slices.Contains(operand, value)
		default: // != and notin also match what has no such label, as in Kubernetes
			return !present || !slices.Contains(operand, value)
		}
	}
}
