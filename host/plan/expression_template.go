package plan

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"
)

// template is a JSON document of the spec whose strings may hold expressions. It is
// immutable and safe for concurrent use.
type template struct {
	// root is the decoded document with an *interpolation for every string that holds an
	// expression, or unusable if that does not compile.
	root any
}

// interpolation is a string with expressions.
type interpolation struct {
	parts []part
}

// part is literal text, or an expression.
type part struct {
	literal    string
	expression *expression
}

// whole returns the expression that the string consists of, or nil.
func (i *interpolation) whole() *expression {
	if len(i.parts) == 1 {
		return i.parts[0].expression
	}
	return nil
}

// unusable is a string whose expressions do not compile. Only a removal meets one.
type unusable struct {
	path string
}

// problem is a fault of an expression, and where it stands.
type problem struct {
	path string
	err  error
}

// compileTemplate compiles every expression of a document. Paths start with the one
// given. All problems are returned, not only the first.
func (c *compiler) compileTemplate(path string, raw []byte) (*template, []problem) {
	document, err := decodeJSON(raw)
	if err != nil {
		return nil, []problem{{path, fmt.Errorf("the document is not JSON: %w", err)}}
	}
	var problems []problem
	root := c.compileValue(path, document, &problems)
	return &template{root: root}, problems
}

func (c *compiler) compileValue(path string, value any, problems *[]problem) any {
	switch v := value.(type) {
	case string:
		return c.compileString(path, v, problems)
	case map[string]any:
		object := make(map[string]any, len(v))
		for _, key := range sortedKeys(v) {
			object[key] = c.compileValue(path+fieldPath(key), v[key], problems)
		}
		return object
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = c.compileValue(path+"["+strconv.Itoa(i)+"]", item, problems)
		}
		return list
	default:
		return value
	}
}

func (c *compiler) compileString(path, text string, problems *[]problem) any {
	segments, err := scan(text)
	if err != nil {
		*problems = append(*problems, problem{path, err})
		return unusable{path}
	}
	if len(segments) == 0 {
		return text
	}
	if len(segments) == 1 && !segments[0].expression {
		return segments[0].text
	}
	parts := make([]part, len(segments))
	before := len(*problems)
	for i, s := range segments {
		if !s.expression {
			parts[i] = part{literal: s.text}
			continue
		}
		compiled, err := c.compile(path, s.text)
		if err != nil {
			*problems = append(*problems, problem{path, err})
			continue
		}
		parts[i] = part{expression: compiled}
	}
	if len(*problems) > before {
		return unusable{path}
	}
	return &interpolation{parts: parts}
}

// evaluation is one evaluation of one template.
type evaluation struct {
	variables map[string]any
	exporter  exporter
	// dropFailed leaves out what cannot be evaluated instead of failing.
	dropFailed bool
}

func newEvaluation(variables map[string]any) *evaluation {
	return &evaluation{variables: variables, exporter: exporter{left: maxResultBytes}}
}

// newRemovalEvaluation returns an evaluation for a deprovision: a key whose expression
// cannot be evaluated is left out of its object, and an element of a list becomes null
// so that the others keep their places. Nothing of it can hold up a removal.
func newRemovalEvaluation(variables map[string]any) *evaluation {
	e := newEvaluation(variables)
	e.dropFailed = true
	return e
}

// errDropped says that a value is left out.
var errDropped = errors.New("left out")

// run evaluates the template into a JSON value. A document that is left out as a whole
// is an empty object.
func (e *evaluation) run(ctx context.Context, t *template) (any, error) {
	value, err := e.value(ctx, t.root)
	if errors.Is(err, errDropped) {
		return map[string]any{}, nil
	}
	return value, err
}

func (e *evaluation) value(ctx context.Context, node any) (any, error) {
	switch n := node.(type) {
	case *interpolation:
		value, err := e.interpolate(ctx, n)
		if err != nil && e.dropFailed {
			return nil, errDropped
		}
		return value, err
	case unusable:
		if e.dropFailed {
			return nil, errDropped
		}
		return nil, placed(n.path, errors.New("the expression does not compile"))
	case map[string]any:
		return e.object(ctx, n)
	case []any:
		return e.list(ctx, n)
	default:
		return node, nil
	}
}

func (e *evaluation) object(ctx context.Context, node map[string]any) (any, error) {
	object := make(map[string]any, len(node))
	for _, key := range sortedKeys(node) {
		value, err := e.value(ctx, node[key])
		switch {
		case errors.Is(err, errDropped):
		case err != nil:
			return nil, err
		default:
			object[key] = value
		}
	}
	return object, nil
}

func (e *evaluation) list(ctx context.Context, node []any) (any, error) {
	list := make([]any, len(node))
	for i, item := range node {
		value, err := e.value(ctx, item)
		if err != nil && !errors.Is(err, errDropped) {
			return nil, err
		}
		list[i] = value
	}
	return list, nil
}

func (e *evaluation) interpolate(ctx context.Context, i *interpolation) (any, error) {
	if whole := i.whole(); whole != nil {
		return e.expression(ctx, whole)
	}
	var text strings.Builder
	for _, p := range i.parts {
		if p.expression == nil {
			text.WriteString(p.literal)
			continue
		}
		value, err := e.expression(ctx, p.expression)
		if err != nil {
			return nil, err
		}
		if s, ok := value.(string); ok {
			text.WriteString(s)
			continue
		}
		encoded, err := encodeJSON(value)
		if err != nil {
			return nil, placed(p.expression.path, err)
		}
		text.Write(encoded)
	}
	return text.String(), nil
}

func (e *evaluation) expression(ctx context.Context, x *expression) (any, error) {
	result, err := x.evaluate(ctx, e.variables)
	if err != nil {
		return nil, err
	}
	value, err := e.exporter.export(result, 0)
	if err != nil {
		return nil, placed(x.path, err)
	}
	return value, nil
}

// fieldPath spells a key of an object as the next step of a path.
func fieldPath(key string) string {
	for i := range len(key) {
		if !isIdentifierByte(key[i]) && key[i] != '-' {
			return "[" + strconv.Quote(key) + "]"
		}
	}
	if key == "" {
		return `[""]`
	}
	return "." + key
}

func sortedKeys(object map[string]any) []string {
	keys := make([]string, 0, len(object))
	for key := range object {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}
