package blueprint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// writer writes the conditions of owners of one kind.
type writer struct {
	client client.Client
	kind   *kind
	prefix string
	// refused is set when the API server lets the operator not write.
	refused bool
}

// heed takes note of a refusal.
func (w *writer) heed(err error) error {
	w.refused = w.refused || apierrors.IsForbidden(err)
	return err
}

// trouble is why an owner could not be told in its conditions; the zero value is none.
type trouble struct {
	// reason is one of those of the condition ConditionsWritten.
	reason  string
	message string
}

// entriesOf returns what status.conditions holds, as it is; nil if it is no list.
func entriesOf(owner *unstructured.Unstructured) []any {
	value, found, err := unstructured.NestedFieldNoCopy(owner.Object, "status", "conditions")
	list, ok := value.([]any)
	if err != nil || !found || !ok {
		return nil
	}
	return list
}

// conditionsOf decodes what status.conditions holds, except for what is no condition.
func conditionsOf(owner *unstructured.Unstructured) []metav1.Condition {
	var conditions []metav1.Condition
	for _, entry := range entriesOf(owner) {
		fields, ok := entry.(map[string]any)
		if !ok {
			continue
		}
		var c metav1.Condition
		if runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &c) == nil {
			conditions = append(conditions, c)
		}
	}
	return conditions
}

// own returns the conditions of an owner that are ours, without the prefix.
func (w *writer) own(owner *unstructured.Unstructured) []metav1.Condition {
	mine := claims(owner)
	if w.kind.shape.list == listKeyed {
		mine = appliedTypes(owner)
	}
	var conditions []metav1.Condition
	for _, c := range conditionsOf(owner) {
		name, prefixed := strings.CutPrefix(c.Type, w.prefix)
		if prefixed && slices.Contains(mine, c.Type) {
			c.Type = name
			conditions = append(conditions, c)
		}
	}
	return conditions
}

func typeOf(entry any) string {
	fields, _ := entry.(map[string]any)
	name, _ := fields["type"].(string)
	return name
}

// write tells the owner, by conditions whose prefix is theirs. What the owner says already
// is not written again.
func (w *writer) write(ctx context.Context, owner *unstructured.Unstructured, conditions []metav1.Condition) (trouble, error) {
	entries, err := w.entries(conditions)
	if err != nil {
		return trouble{}, err
	}
	switch w.kind.shape.list {
	case listKeyed:
		return w.apply(ctx, owner, entries)
	case listPlain:
		return w.merge(ctx, owner, entries)
	default:
		return trouble{v1alpha1.ReasonNotInSchema, fmt.Sprintf("There is no CRD of %s with status.conditions, so that events tell how the Stacks are doing.", w.kind)}, nil
	}
}

// entries cuts conditions to what the schema has room for.
func (w *writer) entries(conditions []metav1.Condition) ([]any, error) {
	entries := make([]any, 0, len(conditions))
	for _, c := range conditions {
		if !w.kind.shape.observes() {
			c.ObservedGeneration = 0
		}
		fields, err := toMap(c)
		if err != nil {
			return nil, err
		}
		for field := range fields {
			if !w.kind.shape.allows(field) {
				delete(fields, field)
			}
		}
		entries = append(entries, fields)
	}
	return entries, nil
}

// apply writes a keyed list. What another manager owns stays theirs, and is told.
func (w *writer) apply(ctx context.Context, owner *unstructured.Unstructured, entries []any) (trouble, error) {
	mine := appliedTypes(owner)
	if says(entriesOf(owner), entries, mine) {
		return trouble{}, nil
	}
	err := w.send(ctx, owner, entries)
	taken := conflictsOf(err)
	if len(taken) == 0 {
		return refusal(err)
	}
	rest := slices.DeleteFunc(slices.Clone(entries), func(e any) bool { _, other := taken[typeOf(e)]; return other })
	if !says(entriesOf(owner), rest, mine) {
		if err := w.send(ctx, owner, rest); err != nil {
			return refusal(err)
		}
	}
	return trouble{v1alpha1.ReasonFieldConflict, conflictMessage(taken)}, nil
}

func (w *writer) send(ctx context.Context, owner *unstructured.Unstructured, entries []any) error {
	o := w.kind.object()
	o.SetNamespace(owner.GetNamespace())
	o.SetName(owner.GetName())
	// An owner that has gone, or that another of the same name has taken the place of, must
	// not be made by telling it.
	o.SetUID(owner.GetUID())
	if len(entries) > 0 {
		o.Object["status"] = map[string]any{"conditions": entries}
	}
	configuration := client.ApplyConfigurationFromUnstructured(o)
	if w.kind.shape.subresource {
		return w.heed(w.client.Status().Apply(ctx, configuration, client.FieldOwner(v1alpha1.BlueprintFieldManager)))
	}
	return w.heed(w.client.Apply(ctx, configuration, client.FieldOwner(v1alpha1.BlueprintFieldManager)))
}

// merge writes a list that is one value: with the entries of the others in it, and only
// over the object that they were read from. An entry of one of our types that was there
// before we wrote any is another's, and stays.
func (w *writer) merge(ctx context.Context, owner *unstructured.Unstructured, entries []any) (trouble, error) {
	mine, foreign := claims(owner), map[string]string{}
	present := map[string]bool{}
	for _, e := range entriesOf(owner) {
		present[typeOf(e)] = true
	}
	claimed := slices.Clone(mine)
	entries = slices.DeleteFunc(slices.Clone(entries), func(e any) bool {
		name := typeOf(e)
		if slices.Contains(mine, name) {
			return false
		}
		if present[name] {
			foreign[name] = "another controller"
			return true
		}
		claimed = append(claimed, name)
		return false
	})
	told := trouble{}
	if len(foreign) > 0 {
		told = trouble{v1alpha1.ReasonFieldConflict, conflictMessage(foreign)}
	}
	if says(entriesOf(owner), entries, mine) {
		return told, nil
	}
	if len(claimed) > len(mine) {
		// Before anything is written: a crash between the two would make ours another's.
		if err := w.claim(ctx, owner, claimed); err != nil {
			return trouble{}, err
		}
	}
	if err := w.replace(ctx, owner, merged(entriesOf(owner), entries, claimed)); err != nil {
		return refusal(err)
	}
	return told, nil
}

// claims are the types that are ours in a list without keys.
func claims(owner *unstructured.Unstructured) []string {
	value := owner.GetAnnotations()[v1alpha1.ConditionsAnnotation]
	if value == "" {
		return nil
	}
	return strings.Split(value, ",")
}

func (w *writer) claim(ctx context.Context, owner *unstructured.Unstructured, types []string) error {
	before := owner.DeepCopy()
	annotations := owner.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	slices.Sort(types)
	annotations[v1alpha1.ConditionsAnnotation] = strings.Join(types, ",")
	owner.SetAnnotations(annotations)
	if err := w.patch(ctx, owner, before); err != nil {
		return fmt.Errorf("note which conditions are ours: %w", err)
	}
	return nil
}

// patch writes what differs, over the version that was read.
func (w *writer) patch(ctx context.Context, owner, before *unstructured.Unstructured) error {
	return w.heed(w.client.Patch(ctx, owner, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(v1alpha1.FieldManager)))
}

// replace writes the whole list.
func (w *writer) replace(ctx context.Context, owner *unstructured.Unstructured, entries []any) error {
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": owner.GetResourceVersion(), "uid": string(owner.GetUID())},
		"status":   map[string]any{"conditions": entries},
	})
	if err != nil {
		return fmt.Errorf("encode conditions: %w", err)
	}
	patch := client.RawPatch("application/merge-patch+json", data)
	target := owner.DeepCopy()
	if w.kind.shape.subresource {
		return w.heed(w.client.Status().Patch(ctx, target, patch, client.FieldOwner(v1alpha1.BlueprintFieldManager)))
	}
	return w.heed(w.client.Patch(ctx, target, patch, client.FieldOwner(v1alpha1.BlueprintFieldManager)))
}

// merged puts our entries into a list, where they were or at the end, and removes those of
// ours that are not among them.
func merged(list, entries []any, ours []string) []any {
	result := []any{}
	left := slices.Clone(entries)
	for _, entry := range list {
		at := slices.IndexFunc(left, func(e any) bool { return typeOf(e) == typeOf(entry) })
		switch {
		case at >= 0:
			result = append(result, left[at])
			left = slices.Delete(left, at, at+1)
		case !slices.Contains(ours, typeOf(entry)):
			result = append(result, entry)
		}
	}
	return append(result, left...)
}

// says reports whether a list holds the entries, and none of ours beside them.
func says(list, entries []any, ours []string) bool {
	wanted := map[string]any{}
	for _, e := range entries {
		wanted[typeOf(e)] = e
	}
	for _, entry := range list {
		name := typeOf(entry)
		want, ok := wanted[name]
		if !ok {
			if slices.Contains(ours, name) {
				return false
			}
			continue
		}
		if !covers(entry, want) {
			return false
		}
		delete(wanted, name)
	}
	return len(wanted) == 0
}

// appliedTypes are the types that we own in a keyed list, by the record of the API
// server.
func appliedTypes(owner *unstructured.Unstructured) []string {
	var types []string
	for _, entry := range owner.GetManagedFields() {
		if entry.Manager != v1alpha1.BlueprintFieldManager || entry.FieldsV1 == nil {
			continue
		}
		var fields struct {
			Status struct {
				Conditions map[string]json.RawMessage `json:"f:conditions"`
			} `json:"f:status"`
		}
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		for key := range fields.Status.Conditions {
			var id struct {
				Type string `json:"type"`
			}
			if name, keyed := strings.CutPrefix(key, "k:"); keyed && json.Unmarshal([]byte(name), &id) == nil {
				types = append(types, id.Type)
			}
		}
	}
	return types
}

// refusal makes a trouble of what the schema refuses. Any other error is to be retried.
func refusal(err error) (trouble, error) {
	switch {
	case err == nil:
		return trouble{}, nil
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), isSchemaError(err):
		return trouble{v1alpha1.ReasonRefused, "The API server refuses the conditions: " + clip(err.Error())}, nil
	}
	return trouble{}, fmt.Errorf("write conditions: %w", err)
}

// isSchemaError recognises what the API server says, as an internal error, of fields that
// a schema does not have.
func isSchemaError(err error) bool {
	return apierrors.IsInternalError(err) && strings.Contains(err.Error(), "not declared in schema")
}

// What the API server says of a conflict; the error has no fields for it.
var (
	conflictType    = regexp.MustCompile(`\[type="([^"]+)"\]`)
	conflictManager = regexp.MustCompile(`conflict with "([^"]+)"`)
)

// conflictsOf returns, by the type of the condition, which manager owns what was to be
// applied.
func conflictsOf(err error) map[string]string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsConflict(err) || status.Status().Details == nil {
		return nil
	}
	taken := map[string]string{}
	for _, cause := range status.Status().Details.Causes {
		if cause.Type != metav1.CauseTypeFieldManagerConflict {
			continue
		}
		name := conflictType.FindStringSubmatch(cause.Field)
		manager := conflictManager.FindStringSubmatch(cause.Message)
		if len(name) == 2 && len(manager) == 2 {
			taken[name[1]] = "the field manager " + manager[1]
		}
	}
	return taken
}

func conflictMessage(taken map[string]string) string {
	types := make([]string, 0, len(taken))
	for name, who := range taken {
		types = append(types, fmt.Sprintf("the condition %s belongs to %s", name, who))
	}
	slices.Sort(types)
	text := strings.Join(types, ", and ")
	return strings.ToUpper(text[:1]) + text[1:] + ", and is left to it; set conditionPrefix on the Blueprint to have others."
}
