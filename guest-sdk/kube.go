package guest

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/caisson-dev/caisson/abi"
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
	result := struct {
		Object any `json:"object"`
	}{into}
	return k.call.exchange(abi.KubeGet, kubeGet, &abi.KubeGetRequest{ObjectRef: ref}, &result)
}

// List decodes the objects of all pages into a slice that into points to. A Limit in the
// query is the size of a page, not of the result. A cursor that has expired on the way is
// a conflict; the next call starts over. Capability: kube_list.
func (k Kube) List(query abi.KubeListRequest, into any) error {
	var all bytes.Buffer
	all.WriteByte('[')
	for {
		var page struct {
			Items    json.RawMessage `json:"items"`
			Continue string          `json:"continue"`
		}
		if err := k.call.exchange(abi.KubeList, kubeList, &query, &page); err != nil {
			return err
		}
		appendItems(&all, page.Items)
		if page.Continue == "" {
			break
		}
		query.Continue = page.Continue
	}
	all.WriteByte(']')
	if err := json.Unmarshal(all.Bytes(), into); err != nil {
		return errors.New("decode the list of " + query.Kind + ": " + err.Error())
	}
	return nil
}

// appendItems appends the elements of a JSON array without decoding them.
func appendItems(all *bytes.Buffer, array json.RawMessage) {
	array = bytes.TrimSpace(array)
	if len(array) < 2 || array[0] != '[' {
		return
	}
	items := bytes.TrimSpace(array[1 : len(array)-1])
	if len(items) == 0 {
		return
	}
	if all.Len() > 1 {
		all.WriteByte(',')
	}
	all.Write(items)
}

// Apply applies an object, which must be named, as server-side apply does. What it looks
// like afterwards is decoded into into, unless that is nil. Capability: kube_apply.
func (k Kube) Apply(scope abi.KubeScope, object, into any) error {
	raw, err := json.Marshal(object)
	if err != nil {
		return errors.New("encode the object: " + err.Error())
	}
	if into == nil {
		into = new(json.RawMessage)
	}
	result := struct {
		Object any `json:"object"`
	}{into}
	return k.call.exchange(abi.KubeApply, kubeApply, &abi.KubeApplyRequest{Scope: scope, Object: raw}, &result)
}

// Delete deletes an object and reports whether it is gone. One that was still there is on
// its way now: yield and call again. What never existed is gone. Capability: kube_delete.
func (k Kube) Delete(request abi.KubeDeleteRequest) (gone bool, err error) {
	var result abi.KubeDeleteResult
	err = k.call.exchange(abi.KubeDelete, kubeDelete, &request, &result)
	if IsAbsent(err) {
		return true, nil
	}
	return result.Gone, err
}
