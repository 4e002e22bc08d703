package plan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/cel-go/common/types"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// MaxResourceBytes bounds the owner that a Stack carries. With the tree it must fit what
// etcd stores in one object (1.5 MiB), beside the Stack's status.
const MaxResourceBytes = 256 << 10

// Blueprint is a compiled Blueprint. It is immutable and safe for concurrent use.
type Blueprint struct {
	spec       *v1alpha1.BlueprintSpec
	suspend    *expression
	parameters map[string]*template
}

// CompileBlueprint checks the tree of a Blueprint and compiles its expressions, those of
// the tree included. What is wrong with it is an [*InvalidError] with all that was found;
// any other error is none of the Blueprint's, and may be retried.
func CompileBlueprint(object *v1alpha1.Blueprint) (*Blueprint, error) {
	spec := object.Spec.DeepCopy()
	b := &Blueprint{spec: spec, parameters: map[string]*template{}}
	tree, err := compile(&v1alpha1.Stack{Spec: b.tree()})
	if err != nil {
		return nil, err
	}
	found := tree.found
	checkKind(spec.Resource, &found)
	compiler, err := newCompilerFor(variableResource)
	if err != nil {
		return nil, err
	}
	if spec.Suspend != "" {
		if b.suspend, err = compiler.compileCondition("suspend", spec.Suspend); err != nil {
			found.addExpressions("", []problem{{"suspend", err}})
		}
	}
	for name, value := range spec.Parameters {
		t, problems := compiler.compileTemplate("parameters"+fieldPath(name), rawOf(value))
		found.addExpressions("", problems)
		b.parameters[name] = t
	}
	if all := found.sorted(); len(all) > 0 {
		return nil, &InvalidError{Findings: all}
	}
	return b, nil
}

// checkKind refuses what the schema refuses as well: a copy of a Secret in a Stack would
// be out of the Secret's protection, and Stacks of Stacks would have no end.
func checkKind(kind v1alpha1.ResourceKind, found *findings) {
	switch {
	case kind.Group == v1alpha1.GroupName:
		found.addf("resource", "", "the kinds of %s cannot be owners", v1alpha1.GroupName)
	case kind.Group == "" && kind.Kind == "Secret":
		found.addf("resource", "", "Secrets cannot be owners: their contents would be copied into Stacks")
	}
}

// tree returns the spec of a Stack without what depends on the owner.
func (b *Blueprint) tree() v1alpha1.StackSpec {
	spec := b.spec.DeepCopy()
	return v1alpha1.StackSpec{
		ServiceAccountName: spec.ServiceAccountName, Remotes: spec.Remotes, Root: spec.Root, Provisioners: spec.Provisioners,
	}
}

// Stack returns the spec of the Stack of an owner, which is given as expressions will see
// it. An owner that makes none, because an expression fails over it or because it is
// larger than [MaxResourceBytes], is an [*InvalidError]; if the context ends, that is the
// error.
func (b *Blueprint) Stack(ctx context.Context, resource json.RawMessage) (v1alpha1.StackSpec, error) {
	owner, err := givenResource(resource)
	if err != nil {
		return v1alpha1.StackSpec{}, &InvalidError{Findings: []Finding{{Path: "resource", Problem: err.Error()}}}
	}
	variables := map[string]any{variableResource: owner}
	spec := b.tree()
	spec.Resource = &apiextensionsv1.JSON{Raw: resource}
	var found findings
	if spec.Suspend, err = b.suspended(ctx, variables); err != nil {
		found.addPlaced("suspend", err)
	}
	for name, t := range b.parameters {
		path := "parameters" + fieldPath(name)
		value, err := newEvaluation(variables).run(ctx, t)
		if err != nil {
			found.addPlaced(path, err)
			continue
		}
		encoded, err := encodeJSON(value)
		if err != nil {
			return v1alpha1.StackSpec{}, fmt.Errorf("encode %s: %w", path, err)
		}
		if spec.Parameters == nil {
			spec.Parameters = map[string]apiextensionsv1.JSON{}
		}
		spec.Parameters[name] = apiextensionsv1.JSON{Raw: encoded}
	}
	if err := ctx.Err(); err != nil {
		return v1alpha1.StackSpec{}, fmt.Errorf("evaluate the blueprint: %w", err)
	}
	if all := found.sorted(); len(all) > 0 {
		return v1alpha1.StackSpec{}, &InvalidError{Findings: all}
	}
	return spec, nil
}

func (b *Blueprint) suspended(ctx context.Context, variables map[string]any) (bool, error) {
	if b.suspend == nil {
		return false, nil
	}
	value, err := b.suspend.evaluate(ctx, variables)
	if err != nil {
		return false, err
	}
	verdict, ok := value.(types.Bool)
	if !ok {
		return false, fmt.Errorf("the result is of type %s and must be true or false", value.Type().TypeName())
	}
	return bool(verdict), nil
}

// givenResource decodes an owner that is not the Stack itself.
func givenResource(raw []byte) (map[string]any, error) {
	if len(raw) > MaxResourceBytes {
		return nil, fmt.Errorf("it has %d bytes and %d are allowed", len(raw), MaxResourceBytes)
	}
	decoded, err := plainDocument(raw)
	if err != nil {
		return nil, err
	}
	object, ok := decoded.(map[string]any)
	if !ok {
		return nil, errors.New("it is not an object")
	}
	return object, nil
}
