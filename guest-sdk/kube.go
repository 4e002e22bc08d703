package guest

import (
	"encoding/json"
	"errors"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/guest-sdk/internal/wire"
)

// Kube reads and writes Kubernetes objects, within the rules of the module's manifest
// and grant and the rights of the tenant. Its methods fail with an [Error] that wraps
// an [abi.CallError]: return it, or look with [IsAbsent] and its like first.
type Kube struct{ call *Call }

// Kube returns the way to Kubernetes objects.
func (c *Call) Kube() Kube { return Kube{call: c} }

// Get decodes an object into a struct, a map or a *json.RawMessage. Declare only the fields that
// are needed: decoding is the expensive part of a call. Capability: kube_get.
func (k Kube) Get(ref abi.ObjectRef, into any) error {
	object, err := k.GetDoc(ref)
	if err != nil {
		return err
	}
	return decodeObject(abi.KubeGet, object, into)
}

// GetDoc is like [Kube.Get], for reading an object without decoding it. Capability:
// kube_get.
func (k Kube) GetDoc(ref abi.ObjectRef) (Doc, error) {
	body := wire.EncodeKubeGet(&abi.KubeGetRequest{ObjectRef: ref})
	object, err := exchange(k.call, abi.KubeGet, kubeGet, body, wire.DecodeObject)
	if err != nil {
		return Doc{}, err
	}
	return objectDoc(abi.KubeGet, ref.Kind, object)
}

// objectDoc refuses an answer without an object: it must not read as one without fields.
func objectDoc(f abi.Function, kind string, object wire.Value) (Doc, error) {
	if object.Kind() == wire.KindNone {
		return Doc{}, Retry(abi.ReasonUnexpected, string(f)+": the host answered without an object")
	}
	return newDoc(kind, object), nil
}

func decodeObject(f abi.Function, object Doc, into any) error {
	if err := json.Unmarshal(object.Raw(), into); err != nil {
		return Retry(abi.ReasonUnexpected, string(f)+": decode the object: "+err.Error())
	}
	return nil
}

// List decodes the objects of all pages into a slice that into points to. A Limit in the
// query is the size of a page, not of the result. A cursor that has expired on the way is
// a conflict; the next call starts over. Capability: kube_list.
func (k Kube) List(query abi.KubeListRequest, into any) error {
	items, err := k.items(query)
	if err != nil {
		return err
	}
	all := []byte{'['}
	for i, item := range items {
		if i > 0 {
			all = append(all, ',')
		}
		all = append(all, item.Raw()...)
	}
	if err := json.Unmarshal(append(all, ']'), into); err != nil {
		return errors.New("decode the list of " + query.Kind + ": " + err.Error())
	}
	return nil
}

// ListDocs is like [Kube.List], for reading the objects without decoding them.
// Capability: kube_list.
func (k Kube) ListDocs(query abi.KubeListRequest) ([]Doc, error) {
	items, err := k.items(query)
	if err != nil {
		return nil, err
	}
	docs := make([]Doc, 0, len(items))
	for _, item := range items {
		docs = append(docs, newDoc(query.Kind, item))
	}
	return docs, nil
}

// items returns the objects of all pages.
func (k Kube) items(query abi.KubeListRequest) ([]wire.Value, error) {
	var all []wire.Value
	for {
		page, err := exchange(k.call, abi.KubeList, kubeList, wire.EncodeKubeList(&query), wire.DecodeKubeList)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if page.Continue == "" {
			return all, nil
		}
		query.Continue = page.Continue
	}
}

// Apply applies an object, which must be named, as server-side apply does. It is of a type
// that [Values] lists, or in a [Module] of any that encoding/json takes. What it looks
// like afterwards is decoded into into, unless that is nil. Capability: kube_apply.
func (k Kube) Apply(scope abi.KubeScope, object, into any) error {
	after, err := k.ApplyDoc(scope, object)
	if err != nil || into == nil {
		return err
	}
	return decodeObject(abi.KubeApply, after, into)
}

// ApplyDoc is like [Kube.Apply], for reading the object without decoding it. Capability:
// kube_apply.
func (k Kube) ApplyDoc(scope abi.KubeScope, object any) (Doc, error) {
	raw, err := encode(object, k.call.marshal)
	if err != nil {
		return Doc{}, errors.New("encode the object: " + err.Error())
	}
	body, err := wire.EncodeKubeApply(&abi.KubeApplyRequest{Scope: scope, Object: raw})
	if err != nil {
		return Doc{}, errors.New("encode the request: " + err.Error())
	}
	after, err := exchange(k.call, abi.KubeApply, kubeApply, body, wire.DecodeObject)
	if err != nil {
		return Doc{}, err
	}
	return objectDoc(abi.KubeApply, "object", after)
}

// Delete deletes an object and reports whether it is gone. One that was still there is on
// its way now: yield and call again. What never existed is gone. Capability: kube_delete.
func (k Kube) Delete(request abi.KubeDeleteRequest) (gone bool, err error) {
	result, err := exchange(k.call, abi.KubeDelete, kubeDelete, wire.EncodeKubeDelete(&request), wire.DecodeKubeDelete)
	if IsAbsent(err) {
		return true, nil
	}
	return result.Gone, err
}
