// Command conformance is a lean module that puts the guest SDK through the conformance
// vectors in WebAssembly: it tells what it reads, concludes what its config says, and asks
// what its config names.
package main

import (
	"time"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/guest-sdk"
)

var _ = guest.Register(guest.Lean[guest.Doc]{
	Manifest: abi.Manifest{Name: "conformance", Version: "0.1.0", Capabilities: abi.Functions(),
		Kube: []abi.KubeRule{{Kinds: []string{"ConfigMap", "Service"}, Verbs: []string{"get", "list", "apply", "delete"}}}},
	Config:      func(in guest.Doc) guest.Doc { in.Raw(); return in },
	Provision:   func(call *guest.Call, in guest.Doc) error { return serve(call, in) },
	Deprovision: func(call *guest.Call, in guest.Doc) error { return serve(call, in) },
})

func serve(call *guest.Call, in guest.Doc) error {
	switch {
	case in.Get("conclude").Exists():
		return conclude(call, in.Get("conclude"))
	case in.Get("ask").Exists():
		return ask(call, in.Get("ask").String())
	default:
		return tell(call)
	}
}

// tell leaves what the envelope says as the state.
func tell(call *guest.Call) error {
	facts := guest.Values{}
	for _, name := range []string{"address", "pool", "absent", "other"} {
		if fact, err := call.FactDoc(name); err == nil {
			facts[name] = fact
		}
	}
	var granted []any
	for _, f := range append(abi.Functions(), "time_travel") {
		if call.Granted(f) {
			granted = append(granted, string(f))
		}
	}
	node, owner, scope := call.Node(), call.Owner(), call.Scope()
	return call.SetState(guest.Values{
		"node":  guest.Values{"name": node.Name, "path": node.Path},
		"owner": guest.Values{"apiVersion": owner.APIVersion, "kind": owner.Kind, "namespace": owner.Namespace, "name": owner.Name, "uid": owner.UID, "generation": owner.Generation},
		"scope": guest.Values{"id": scope.ID, "remote": scope.Remote, "host": scope.Host, "port": scope.Port, "state": string(scope.State)},
		"facts": facts, "config": call.Config(), "teardown": string(call.Teardown()), "installed": call.Installed(), "capabilities": granted,
		"now":   call.Now().Format(time.RFC3339),
		"state": call.StateDoc(), "generationState": call.GenerationStateDoc(), "stickyState": call.StickyStateDoc(),
	})
}

func conclude(call *guest.Call, want guest.Doc) error {
	for name, fact := range want.Get("facts").Fields() {
		if err := call.Publish(name, fact); err != nil {
			return err
		}
	}
	for name, keep := range map[string]struct {
		set  func(any) error
		drop func()
	}{
		"state":           {call.SetState, call.DropState},
		"generationState": {call.SetGenerationState, call.DropGenerationState},
		"stickyState":     {call.SetStickyState, call.DropStickyState},
	} {
		document := want.Get(name)
		switch string(document.Raw()) {
		case "":
		case "null":
			keep.drop()
		default:
			if err := keep.set(document); err != nil {
				return err
			}
		}
	}
	reason, why := want.Get("reason").String(), want.Get("why").String()
	after := time.Duration(want.Get("retryAfterSeconds").Int()) * time.Second
	switch abi.Disposition(want.Get("disposition").Int()) {
	case abi.OK:
		return nil
	case abi.Yield:
		return guest.Yield(reason, why).After(after)
	case abi.UserActionRequired:
		return guest.UserActionRequired(reason, why)
	case abi.Terminal:
		return guest.Terminal(reason, why)
	default:
		return guest.Retry(reason, why).After(after)
	}
}

// ask makes the host call of an exchange vector, and returns what came of it.
func ask(call *guest.Call, name string) error {
	service := abi.ObjectRef{APIVersion: "v1", Kind: "Service", Namespace: "web", Name: "ingress"}
	configMap := guest.Values{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]string{"name": "a", "namespace": "web"}}
	cloud := abi.SecretReadRequest{Scope: abi.ScopeHome, Namespace: "team", Name: "cloud"}
	var err error
	switch name {
	case "app_ensure ready":
		err = call.App("").Ensure(guest.AppSpec{Repo: "https://helm.cilium.io", Chart: "cilium", Version: "1.18.2", Namespace: "kube-system",
			Values: guest.Values{"k8sServiceHost": "203.0.113.7", "tolerations": nil}})
	case "app_ensure progressing":
		err = call.App("db").Ensure(guest.AppSpec{Catalogue: "postgres", Version: "16.x", Release: "db", Namespace: "data", CreateNamespace: true, Values: guest.Values{},
			Parameters: []abi.AppParameter{{Name: "primary.size", Value: "2"}}, AllowDegraded: true})
	case "app_ensure denied":
		err = call.App("").Ensure(guest.AppSpec{Catalogue: "postgres"})
	case "app_remove deleting":
		err = call.App("db").Remove()
	case "app_remove gone":
		err = call.App("").Remove()
	case "app_list":
		_, err = call.Apps()
	case "kube_get":
		_, err = call.Kube().GetDoc(service)
	case "kube_get absent":
		_, err = call.Kube().GetDoc(abi.ObjectRef{Scope: abi.ScopeHome, APIVersion: "v1", Kind: "ConfigMap", Namespace: "team", Name: "none"})
	case "kube_list":
		_, err = call.Kube().ListDocs(abi.KubeListRequest{ObjectRef: abi.ObjectRef{APIVersion: "v1", Kind: "Service", Namespace: "web"}, LabelSelector: "app=x", Limit: 2})
	case "kube_list unavailable":
		_, err = call.Kube().ListDocs(abi.KubeListRequest{ObjectRef: abi.ObjectRef{APIVersion: "v1", Kind: "Service"}})
	case "kube_apply":
		configMap["data"] = guest.Values{"k": "v"}
		_, err = call.Kube().ApplyDoc(abi.ScopeCurrent, configMap)
	case "kube_apply conflict":
		_, err = call.Kube().ApplyDoc("", configMap)
	case "kube_delete":
		_, err = call.Kube().Delete(abi.KubeDeleteRequest{ObjectRef: service, UID: "u1"})
	case "kube_delete gone":
		service.Name = "never"
		_, err = call.Kube().Delete(abi.KubeDeleteRequest{ObjectRef: service})
	case "secret_read":
		cloud.Key, cloud.Encoding = "cloud.conf", abi.EncodingBase64
		_, err = call.Secret(cloud)
	case "secret_read raw":
		_, err = call.Secret(abi.SecretReadRequest{Name: "cloud", Key: "token", Raw: true})
	case "secret_read absent":
		cloud.Key = "none"
		_, err = call.Secret(cloud)
	case "event":
		err = call.Event(guest.Warning, "quota_exceeded")
	default:
		return guest.Terminal(abi.ReasonInvalidConfig, "no such vector")
	}
	return err
}

func main() {}
