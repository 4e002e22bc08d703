package plan

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// The variables of an expression.
const (
	variableResource   = "resource"
	variableParameters = "parameters"
	variableFacts      = "facts"
	variableScope      = "scope"
)

const (
	// maxExpressionLength is in characters. It is what the CRD allows for a condition,
	// and with maxComprehensions it bounds how far a result can be multiplied.
	maxExpressionLength = 2048
	// maxExpressionCost is in CEL's own units: a tenth of what the Kubernetes API server
	// allows one call (PerCallLimit in k8s.io/apiserver/pkg/apis/cel), since a Stack may
	// have hundreds of expressions and every pass evaluates them. It is some ten
	// milliseconds of work, or thousands of steps over facts and parameters.
	maxExpressionCost = 100_000
	// maxExpressionTime is a net below the cost limit, checked while a comprehension
	// runs. What is within that limit takes milliseconds, so only a starved process gets
	// here, and running out of it is no fault of the spec.
	maxExpressionTime = 5 * time.Second
	// maxComprehensions bounds map, filter, exists, all and their like in one
	// expression. CEL's cost does not see that [x, x] nested a few times over is large,
	// so that comparing it would take hours.
	maxComprehensions = 3
	// maxAdditions bounds the operator + for the same reason.
	maxAdditions = 32
	// interruptEvery is how many steps of a comprehension pass between two looks at the
	// context.
	interruptEvery = 100
)

// errFactMissing marks the failure of an expression that reads a fact which has not
// been published.
var errFactMissing = errors.New("fact not published")

// expression is one compiled CEL expression. It is safe for concurrent use.
type expression struct {
	// path says where in the spec it stands.
	path    string
	program cel.Program
	// roots are the names of the variables at the bottom of each selection, by node of
	// the syntax tree.
	roots map[int64]string
	// readsFacts says whether facts occur at all.
	readsFacts bool
}

// compiler compiles expressions against the variables that all of them share.
type compiler struct {
	env *cel.Env
}

func newCompiler() (*compiler, error) {
	return newCompilerFor(variableResource, variableParameters, variableFacts, variableScope)
}

// newCompilerFor returns a compiler for expressions that may use these variables only.
func newCompilerFor(variables ...string) (*compiler, error) {
	options := []cel.EnvOption{
		cel.OptionalTypes(),
		cel.CrossTypeNumericComparisons(true),
		cel.DefaultUTCTimeZone(true),
		cel.ParserExpressionSizeLimit(maxExpressionLength),
	}
	for _, name := range variables {
		options = append(options, cel.Variable(name, cel.MapType(cel.StringType, cel.DynType)))
	}
	env, err := cel.NewEnv(options...)
	if err != nil {
		return nil, fmt.Errorf("make the CEL environment: %w", err)
	}
	return &compiler{env: env}, nil
}

// compile compiles an expression of any type. The error is about the source alone.
func (c *compiler) compile(path, source string) (*expression, error) {
	return c.build(path, source, func(*cel.Type) bool { return true })
}

// compileCondition compiles an expression that must be true or false.
func (c *compiler) compileCondition(path, source string) (*expression, error) {
	return c.build(path, source, func(t *cel.Type) bool {
		return t.IsExactType(cel.BoolType) || t.IsExactType(cel.DynType)
	})
}

func (c *compiler) build(path, source string, accepts func(*cel.Type) bool) (*expression, error) {
	if strings.TrimSpace(source) == "" {
		return nil, errEmptyExpression
	}
	checked, issues := c.env.Compile(source)
	if err := issues.Err(); err != nil {
		return nil, errors.New(firstIssue(issues))
	}
	if !accepts(checked.OutputType()) {
		return nil, fmt.Errorf("the expression must be true or false, and is of type %s", checked.OutputType())
	}
	e := &expression{path: path, roots: map[int64]string{}}
	if err := e.inspect(checked.NativeRep()); err != nil {
		return nil, err
	}
	program, err := c.env.Program(checked,
		cel.CostLimit(maxExpressionCost), cel.InterruptCheckFrequency(interruptEvery))
	if err != nil {
		return nil, fmt.Errorf("plan the expression: %w", err)
	}
	e.program = program
	return e, nil
}

// inspect notes which variable each selection starts from, and refuses what the cost
// limit cannot bound.
func (e *expression) inspect(tree *ast.AST) error {
	comprehensions, additions := 0, 0
	ast.PreOrderVisit(ast.NavigateAST(tree), ast.NewExprVisitor(func(node ast.Expr) {
		e.roots[node.ID()] = rootOf(node)
		switch node.Kind() {
		case ast.IdentKind:
			e.readsFacts = e.readsFacts || node.AsIdent() == variableFacts
		case ast.ComprehensionKind:
			comprehensions++
		case ast.CallKind:
			if node.AsCall().FunctionName() == operators.Add {
				additions++
			}
		default:
		}
	}))
	if comprehensions > maxComprehensions {
		return fmt.Errorf("the expression has %d comprehensions and %d are allowed", comprehensions, maxComprehensions)
	}
	if additions > maxAdditions {
		return fmt.Errorf("the expression has %d additions and %d are allowed", additions, maxAdditions)
	}
	return nil
}

// rootOf returns the identifier that a chain of selections and indexes starts from, or
// "".
func rootOf(node ast.Expr) string {
	for {
		switch node.Kind() {
		case ast.IdentKind:
			return node.AsIdent()
		case ast.SelectKind:
			node = node.AsSelect().Operand()
		case ast.CallKind:
			call := node.AsCall()
			switch call.FunctionName() {
			case operators.Index, operators.OptIndex, operators.OptSelect:
				node = call.Args()[0]
			default:
				return ""
			}
		default:
			return ""
		}
	}
}

// evaluate runs the expression. The error Is errFactMissing when it fails because a
// fact is absent, and context.DeadlineExceeded or Canceled when it was broken off; any
// other error is a fault of the expression.
func (e *expression) evaluate(ctx context.Context, variables map[string]any) (ref.Val, error) {
	ctx, cancel := context.WithTimeout(ctx, maxExpressionTime)
	defer cancel()
	value, _, err := e.program.ContextEval(ctx, variables)
	if err == nil {
		return value, nil
	}
	if stopped := ctx.Err(); stopped != nil {
		return nil, placed(e.path, stopped)
	}
	if e.missesFact(err) {
		return nil, placed(e.path, fmt.Errorf("%w: %w", errFactMissing, err))
	}
	return nil, placed(e.path, err)
}

// missesFact decides whether a failed selection is one into the facts. What starts
// from the variable of a comprehension may be an element of a fact, so it counts when
// the expression reads facts at all.
func (e *expression) missesFact(err error) bool {
	var failure *types.Err
	if !errors.As(err, &failure) || !isMissing(failure.Error()) {
		return false
	}
	switch e.roots[failure.NodeID()] {
	case variableFacts:
		return true
	case variableParameters, variableResource, variableScope:
		return false
	default:
		return e.readsFacts
	}
}

// isMissing recognises the failures of a selection by their text, because the type
// that cel-go gives them is internal to its interpreter (resolutionError).
func isMissing(text string) bool {
	return strings.HasPrefix(text, "no such key") || strings.HasPrefix(text, "index out of bounds")
}

// firstIssue is the first line of what the compiler found, without its drawing of the
// source.
func firstIssue(issues *cel.Issues) string {
	for _, found := range issues.Errors() {
		return fmt.Sprintf("at character %d: %s", found.Location.Column()+1, clip(strings.ReplaceAll(found.Message, "\n", " ")))
	}
	return "the expression does not compile"
}
