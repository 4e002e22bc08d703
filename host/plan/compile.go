package plan

import (
	"encoding/json"
	"errors"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// compiled is what depends on the generation of a Stack alone: its checked structure and
// its expressions. It is immutable and safe for concurrent use.
type compiled struct {
	*structure
	// conditions and documents belong to nodes, by name. A document is a module's config
	// or an application's values.
	conditions map[string]*expression
	documents  map[string]*template
	// resource and parameters are variables of every expression.
	resource   map[string]any
	parameters map[string]any
	found      findings
}

// compile checks a Stack and compiles its expressions. What is wrong with it is in the
// result; the error is for a failure that is none of the Stack's.
func compile(stack *v1alpha1.Stack) (*compiled, error) {
	spec := stack.Spec.DeepCopy()
	c := &compiled{conditions: map[string]*expression{}, documents: map[string]*template{}}
	c.structure = validate(spec, &c.found)
	c.parameters = map[string]any{}
	for name, value := range spec.Parameters {
		decoded, err := plainDocument(rawOf(value))
		if err != nil {
			c.found.addf("parameters"+fieldPath(name), "", "%s", err.Error())
			continue
		}
		c.parameters[name] = decoded
	}
	var err error
	if c.resource, err = resourceOf(stack); err != nil {
		c.found.addf("resource", "", "%s", err.Error())
	}
	compiler, err := newCompiler()
	if err != nil {
		return nil, err
	}
	for i := range spec.Provisioners {
		if node := &spec.Provisioners[i]; c.nodes[node.Name] == node {
			c.compileNode(compiler, node)
		}
	}
	return c, nil
}

func (c *compiled) compileNode(compiler *compiler, node *v1alpha1.Node) {
	path := nodePath(node.Name)
	switch {
	case node.Conditional != nil:
		when, err := compiler.compileCondition(path+".when", node.Conditional.When)
		if err != nil {
			c.found.addExpressions(node.Name, []problem{{path + ".when", err}})
			return
		}
		c.conditions[node.Name] = when
	case node.Module != nil:
		c.compileDocument(compiler, node.Name, path+".config", node.Module.Config)
	case node.Application != nil:
		c.compileDocument(compiler, node.Name, path+".values", node.Application.Values)
	}
}

func (c *compiled) compileDocument(compiler *compiler, node, path string, document *apiextensionsv1.JSON) {
	raw := []byte("{}")
	if document != nil && len(document.Raw) > 0 && string(document.Raw) != "null" {
		raw = document.Raw
	}
	t, problems := compiler.compileTemplate(path, raw)
	if len(problems) > 0 {
		c.found.addExpressions(node, problems)
	}
	if t == nil {
		return
	}
	switch root := t.root.(type) {
	case map[string]any, unusable:
	case *interpolation:
		if len(root.parts) != 1 {
			c.found.addf(path, node, "it must be an object")
		}
	default:
		c.found.addf(path, node, "it must be an object")
	}
	c.documents[node] = t
}

// rawOf returns the text of a JSON value; apiextensions holds null as nothing.
func rawOf(value apiextensionsv1.JSON) []byte {
	if len(value.Raw) == 0 {
		return []byte("null")
	}
	return value.Raw
}

func plainDocument(raw []byte) (any, error) {
	decoded, err := decodeJSON(raw)
	if err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	return plain(decoded)
}

// resourceOf returns the owner as expressions see it: what the spec says, or the Stack
// itself. Of that, labels and annotations are left out: they change without a new
// generation, and nothing would run again.
func resourceOf(stack *v1alpha1.Stack) (map[string]any, error) {
	if stack.Spec.Resource != nil {
		return givenResource(stack.Spec.Resource.Raw)
	}
	raw, err := json.Marshal(stack.Spec)
	if err != nil {
		return nil, fmt.Errorf("encode the spec: %w", err)
	}
	spec, err := plainDocument(raw)
	if err != nil {
		return nil, err
	}
	object, ok := spec.(map[string]any)
	if !ok {
		return nil, errors.New("the spec is not an object")
	}
	return map[string]any{
		"apiVersion": v1alpha1.GroupVersion().String(),
		"kind":       stackKind,
		"metadata": map[string]any{
			"name":       stack.Name,
			"namespace":  stack.Namespace,
			"uid":        string(stack.UID),
			"generation": stack.Generation,
		},
		"spec": object,
	}, nil
}

// stackKind is the kind of the owner that this package plans for.
const stackKind = "Stack"
