package wire

import "github.com/caisson-dev/caisson/abi"

// EncodeAppSpec encodes the request of app_ensure. It fails for values that are not JSON.
func EncodeAppSpec(s *abi.AppSpec) ([]byte, error) {
	o := object{dst: make([]byte, 0, 256+len(s.Values))}
	o.optText("name", s.Name)
	o.optText("catalogue", s.Catalogue)
	o.optText("repo", s.Repo)
	o.optText("chart", s.Chart)
	o.optText("version", s.Version)
	o.optText("release", s.Release)
	o.optText("namespace", s.Namespace)
	o.optTrue("createNamespace", s.CreateNamespace)
	o.optDocument("values", s.Values)
	if len(s.Parameters) > 0 {
		o.key("parameters")
		for i, p := range s.Parameters {
			o.dst = append(o.dst, "[,"[min(i, 1)])
			o.dst = AppendText(append(o.dst, `{"name":`...), p.Name)
			o.dst = AppendText(append(o.dst, `,"value":`...), p.Value)
			o.dst = append(o.dst, '}')
		}
		o.dst = append(o.dst, ']')
	}
	o.optTrue("allowDegraded", s.AllowDegraded)
	return o.end()
}

// EncodeAppRef encodes the request of app_remove.
func EncodeAppRef(ref *abi.AppRef) []byte {
	var o object
	o.optText("name", ref.Name)
	out, _ := o.end() // texts cannot fail
	return out
}

func (o *object) ref(ref *abi.ObjectRef) {
	o.optText("scope", string(ref.Scope))
	o.text("apiVersion", ref.APIVersion)
	o.text("kind", ref.Kind)
	o.optText("namespace", ref.Namespace)
	o.optText("name", ref.Name)
}

// EncodeKubeGet encodes the request of kube_get.
func EncodeKubeGet(request *abi.KubeGetRequest) []byte {
	var o object
	o.ref(&request.ObjectRef)
	out, _ := o.end()
	return out
}

// EncodeKubeList encodes the request of kube_list.
func EncodeKubeList(request *abi.KubeListRequest) []byte {
	var o object
	o.ref(&request.ObjectRef)
	o.optText("labelSelector", request.LabelSelector)
	o.optInteger("limit", int64(request.Limit))
	o.optText("continue", request.Continue)
	out, _ := o.end()
	return out
}

// EncodeKubeApply encodes the request of kube_apply. It fails for an object that is not
// JSON.
func EncodeKubeApply(request *abi.KubeApplyRequest) ([]byte, error) {
	o := object{dst: make([]byte, 0, 64+len(request.Object))}
	o.optText("scope", string(request.Scope))
	o.document("object", request.Object)
	return o.end()
}

// EncodeKubeDelete encodes the request of kube_delete.
func EncodeKubeDelete(request *abi.KubeDeleteRequest) []byte {
	var o object
	o.ref(&request.ObjectRef)
	o.optText("uid", request.UID)
	out, _ := o.end()
	return out
}

// EncodeSecret encodes the request of secret_read.
func EncodeSecret(request *abi.SecretReadRequest) []byte {
	var o object
	o.optText("scope", string(request.Scope))
	o.optText("namespace", request.Namespace)
	o.text("name", request.Name)
	o.text("key", request.Key)
	o.optText("encoding", string(request.Encoding))
	o.optTrue("raw", request.Raw)
	out, _ := o.end()
	return out
}

// EncodeEvent encodes the request of event.
func EncodeEvent(request *abi.EventRequest) []byte {
	var o object
	o.text("type", request.Type)
	o.text("reason", request.Reason)
	out, _ := o.end()
	return out
}
