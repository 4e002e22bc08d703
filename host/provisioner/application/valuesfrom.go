package application

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

// defaultValuesKey is the key that Flux and Helm users expect.
const defaultValuesKey = "values.yaml"

// The kinds that values can be taken from.
const (
	KindConfigMap = "ConfigMap"
	KindSecret    = "Secret"
)

// ValuesReference takes YAML values from a key of a ConfigMap or Secret in the owner's
// namespace.
type ValuesReference struct {
	// Kind is [KindConfigMap] or [KindSecret].
	Kind string
	Name string
	// Key is values.yaml if empty.
	Key string
	// Optional tolerates that the object or the key is absent.
	Optional bool
}

// ReadValues reads the references in order, at home and as the tenant, whatever scope s
// is. Each object that was looked for is recorded as an input; recorder may be nil.
//
// An absent object or key is UserActionRequired values_missing unless it is optional, a
// refusal by the API server UserActionRequired forbidden, and text that is not a YAML
// map Terminal invalid_config. No error holds any of the contents.
func ReadValues(ctx context.Context, s scope.Scope, refs []ValuesReference, recorder provisioner.InputRecorder) ([]map[string]any, error) {
	layers, _, err := readValues(ctx, s, refs, recorder)
	return layers, err
}

// readValues is ReadValues with the texts that came from Secrets.
func readValues(ctx context.Context, s scope.Scope, refs []ValuesReference, recorder provisioner.InputRecorder) ([]map[string]any, []string, error) {
	if len(refs) == 0 {
		return nil, nil, nil
	}
	home := s.Home()
	c := home.Client()
	if c == nil {
		return nil, nil, errors.New("read values: the home scope has no client")
	}
	layers := make([]map[string]any, 0, len(refs))
	var confidential []string
	for _, ref := range refs {
		layer, err := readReference(ctx, c, home.Owner().Namespace, ref, recorder)
		if err != nil {
			return nil, nil, err
		}
		if layer == nil {
			continue
		}
		layers = append(layers, layer)
		if ref.Kind == KindSecret {
			confidential = texts(confidential, layer)
		}
	}
	slices.Sort(confidential)
	return layers, slices.Compact(confidential), nil
}

// texts appends what a value looks like wherever it is quoted. Neither keys nor booleans
// and nulls are secrets.
func texts(list []string, value any) []string {
	switch v := value.(type) {
	case map[string]any:
		for _, item := range v {
			list = texts(list, item)
		}
	case []any:
		for _, item := range v {
			list = texts(list, item)
		}
	case string:
		list = append(list, v)
	case int64, float64, json.Number:
		list = append(list, fmt.Sprint(v))
	}
	return list
}

func readReference(ctx context.Context, c client.Reader, namespace string, ref ValuesReference, recorder provisioner.InputRecorder) (map[string]any, error) {
	if ref.Key == "" {
		ref.Key = defaultValuesKey
	}
	where := fmt.Sprintf("%s %s/%s key %s", ref.Kind, namespace, ref.Name, ref.Key)
	input := provisioner.Input{ScopeID: scope.HomeID, Kind: ref.Kind, Namespace: namespace, Name: ref.Name}
	text, version, err := readKey(ctx, c, namespace, ref)
	switch {
	case apierrors.IsNotFound(err):
		input.Absent = true
		record(recorder, input)
	case apierrors.IsForbidden(err):
		return nil, provisioner.UserActionRequired(abi.ReasonForbidden, "read values from "+where).WithCause(err)
	case err != nil:
		return nil, fmt.Errorf("read values from %s: %w", where, err)
	default:
		input.Version = version
		record(recorder, input)
	}
	if text == nil {
		if ref.Optional {
			return nil, nil
		}
		return nil, provisioner.UserActionRequired(abi.ReasonValuesMissing, "values from "+where)
	}
	// The parser quotes what it does not like, so its text must not leave this function.
	document, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, provisioner.Terminal(abi.ReasonInvalidConfig, "values from "+where+" are not YAML")
	}
	values, err := DecodeValues(document)
	if err != nil {
		return nil, provisioner.Terminal(abi.ReasonInvalidConfig, "values from "+where+" are not a YAML map")
	}
	return values, nil
}

// readKey returns the bytes of the key, nil if the object lacks it, and the resource
// version that they were read at.
func readKey(ctx context.Context, c client.Reader, namespace string, ref ValuesReference) ([]byte, string, error) {
	key := client.ObjectKey{Namespace: namespace, Name: ref.Name}
	switch ref.Kind {
	case KindConfigMap:
		var object corev1.ConfigMap
		if err := c.Get(ctx, key, &object); err != nil {
			return nil, "", err
		}
		if text, ok := object.Data[ref.Key]; ok {
			return []byte(text), object.ResourceVersion, nil
		}
		return present(object.BinaryData, ref.Key), object.ResourceVersion, nil
	case KindSecret:
		var object corev1.Secret
		if err := c.Get(ctx, key, &object); err != nil {
			return nil, "", err
		}
		return present(object.Data, ref.Key), object.ResourceVersion, nil
	default:
		return nil, "", provisioner.Terminal(abi.ReasonInvalidConfig, "values cannot be taken from kind "+clip(ref.Kind))
	}
}

// present tells an empty value from an absent key.
func present(data map[string][]byte, key string) []byte {
	text, ok := data[key]
	if ok && text == nil {
		return []byte{}
	}
	return text
}
