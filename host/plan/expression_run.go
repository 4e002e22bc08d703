package plan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/cel-go/common/types"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/conditional"
	"github.com/caisson-dev/caisson/host/scope"
)

// evaluator evaluates the expressions of one pass.
type evaluator struct {
	compiled *compiled
	facts    *facts
}

// variables returns what expressions can read at this moment, in the scope that the
// context carries.
func (e *evaluator) variables(ctx context.Context) map[string]any {
	return map[string]any{
		variableResource:   e.compiled.resource,
		variableParameters: e.compiled.parameters,
		variableFacts:      e.facts.variable(),
		variableScope:      scopeVariable(ctx),
	}
}

// scopeVariable has the fields that abi.Scope gives to modules.
func scopeVariable(ctx context.Context) map[string]any {
	s, ok := scope.FromContext(ctx)
	if !ok {
		return map[string]any{}
	}
	host, port := s.Address()
	return map[string]any{"id": s.ID(), "host": host, "port": int64(port), "remote": s.IsRemote()}
}

// condition returns the predicate of a conditional node. It is unknown while a fact is
// absent, and when the expression fails: neither must remove what is there.
func (e *evaluator) condition(node string) conditional.Predicate {
	when := e.compiled.conditions[node]
	return func(ctx context.Context) conditional.Decision {
		if when == nil {
			return conditional.Unknown(notCompiled(node))
		}
		value, err := when.evaluate(ctx, e.variables(ctx))
		if err != nil {
			return conditional.Unknown(expressionFailed(ctx, err))
		}
		verdict, ok := value.(types.Bool)
		switch {
		case !ok:
			return conditional.Unknown(expressionFailed(ctx, fmt.Errorf("%s: the result is of type %s and must be true or false", when.path, value.Type().TypeName())))
		case bool(verdict):
			return conditional.True()
		default:
			return conditional.False()
		}
	}
}

// document returns the evaluated config or values of a node, which is a JSON object.
//
// In a provision an absent fact is a Yield facts_missing, and any other failure of an
// expression Terminal invalid_expression. In a removal nothing fails: what cannot be
// evaluated is left out.
func (e *evaluator) document(ctx context.Context, node string, removal removal) (json.RawMessage, error) {
	t := e.compiled.documents[node]
	run := newEvaluation(e.variables(ctx))
	if removal == forRemoval {
		run = newRemovalEvaluation(e.variables(ctx))
		if t == nil {
			t = &template{root: map[string]any{}}
		}
	}
	if t == nil {
		return nil, notCompiled(node)
	}
	value, err := run.run(ctx, t)
	if err != nil {
		return nil, expressionFailed(ctx, err)
	}
	if _, ok := value.(map[string]any); !ok {
		if removal == forRemoval {
			return json.RawMessage("{}"), nil
		}
		return nil, provisioner.Terminal(abi.ReasonInvalidConfig, nodePath(node)+": the result is not an object")
	}
	encoded, err := encodeJSON(value)
	if err != nil {
		return nil, fmt.Errorf("encode the document of %s: %w", nodePath(node), err)
	}
	return encoded, nil
}

// removal says what a document is evaluated for.
type removal int

const (
	forProvision removal = iota
	forRemoval
)

// expressionFailed gives a failed expression its disposition. One that failed because
// the pass ended says nothing about the spec.
func expressionFailed(ctx context.Context, err error) error {
	if interrupted := provisioner.Interrupted(ctx); interrupted != nil {
		return interrupted
	}
	switch {
	case errors.Is(err, errFactMissing):
		return provisioner.Yield(abi.ReasonFactsMissing, "").WithCause(err)
	case errors.Is(err, context.DeadlineExceeded):
		return provisioner.Retry(abi.ReasonDeadlineExceeded, "").WithCause(err)
	}
	return provisioner.Terminal(abi.ReasonInvalidExpression, "").WithCause(err)
}

// notCompiled is what a node comes to whose expressions do not compile. Build accepts
// such a Stack only to take it down.
func notCompiled(node string) error {
	return provisioner.Terminal(abi.ReasonInvalidExpression, nodePath(node)+": its expressions do not compile")
}
