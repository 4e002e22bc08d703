//go:build wasip1

// Command prober is a module that asks the host for everything that its config tells it
// to, and publishes the answers. Its manifest declares all that a manifest can.
package main

import (
	"encoding/json"
	"strings"
)

const manifest = `{
  "abi": 1,
  "name": "prober",
  "version": "0.1.0",
  "capabilities": ["app_ensure", "app_remove", "app_list", "kube_get", "kube_list", "kube_apply", "kube_delete", "secret_read", "event"],
  "kube": [
    {"kinds": ["ConfigMap", "ServiceAccount", "Pod", "Namespace"], "verbs": ["get", "list", "apply", "delete"]},
    {"apiGroup": "caisson.dev", "kinds": ["Stack", "Module"], "verbs": ["get", "list", "apply", "delete"]},
    {"apiGroup": "rbac.authorization.k8s.io", "kinds": ["RoleBinding", "ClusterRoleBinding"], "verbs": ["get", "list", "apply", "delete"]}
  ],
  "reasons": [{"code": "probed", "sentence": "The module has tried something."}]
}`

//go:wasmimport extism:host/env alloc
func alloc(size uint64) uint64

//go:wasmimport extism:host/env length
func length(offset uint64) uint64

//go:wasmimport extism:host/env load_u8
func load(offset uint64) uint32

//go:wasmimport extism:host/env store_u8
func store(offset uint64, value uint32)

//go:wasmimport extism:host/env input_offset
func inputOffset() uint64

//go:wasmimport extism:host/env output_set
func outputSet(offset, size uint64)

//go:wasmimport extism:host/user app_ensure
func appEnsure(request uint64) uint64

//go:wasmimport extism:host/user app_remove
func appRemove(request uint64) uint64

//go:wasmimport extism:host/user app_list
func appList(request uint64) uint64

//go:wasmimport extism:host/user kube_get
func kubeGet(request uint64) uint64

//go:wasmimport extism:host/user kube_list
func kubeList(request uint64) uint64

//go:wasmimport extism:host/user kube_apply
func kubeApply(request uint64) uint64

//go:wasmimport extism:host/user kube_delete
func kubeDelete(request uint64) uint64

//go:wasmimport extism:host/user secret_read
func secretRead(request uint64) uint64

//go:wasmimport extism:host/user event
func event(request uint64) uint64

// functions are the host's, by name.
func functions() map[string]func(uint64) uint64 {
	return map[string]func(uint64) uint64{
		"app_ensure": appEnsure, "app_remove": appRemove, "app_list": appList,
		"kube_get": kubeGet, "kube_list": kubeList, "kube_apply": kubeApply, "kube_delete": kubeDelete,
		"secret_read": secretRead, "event": event,
	}
}

func read(offset uint64) []byte {
	text := make([]byte, length(offset))
	for i := range text {
		text[i] = byte(load(offset + uint64(i)))
	}
	return text
}

func write(text string) uint64 {
	offset := alloc(uint64(len(text)))
	for i := range len(text) {
		store(offset+uint64(i), uint32(text[i]))
	}
	return offset
}

func answer(code int32, text string) int32 {
	outputSet(write(text), uint64(len(text)))
	return code
}

//go:wasmexport describe
func describe() int32 { return answer(0, manifest) }

// envelope is what the prober reads of its input.
type envelope struct {
	Config struct {
		// Fact is the name of the fact that holds the answers.
		Fact   string `json:"fact"`
		Probes []struct {
			Name     string          `json:"name"`
			Function string          `json:"function"`
			Request  json.RawMessage `json:"request"`
			// Hide is the name that was asked for; answers about two names can be compared
			// without it.
			Hide string `json:"hide"`
		} `json:"probes"`
	} `json:"config"`
}

// tells is how much of an answer is published; facts are bounded.
const tells = 240

//go:wasmexport provision
func provision() int32 {
	var input envelope
	if err := json.Unmarshal(read(inputOffset()), &input); err != nil {
		return answer(4, `{"reason":"probed","why":"the input cannot be read"}`)
	}
	handle := ""
	answers := map[string]string{}
	for _, p := range input.Config.Probes {
		// HANDLE stands for the handle that was got last.
		text := string(read(functions()[p.Function](write(strings.ReplaceAll(string(p.Request), "HANDLE", handle)))))
		if _, rest, found := strings.Cut(text, `"handle":"`); found {
			handle, _, _ = strings.Cut(rest, `"`)
		}
		if p.Hide != "" {
			text = strings.ReplaceAll(text, p.Hide, "X")
		}
		answers[p.Name] = text[:min(len(text), tells)]
	}
	output, err := json.Marshal(map[string]any{"facts": map[string]any{input.Config.Fact: answers}})
	if err != nil {
		return answer(4, `{"reason":"probed","why":"the answers cannot be written"}`)
	}
	return answer(0, string(output))
}

//go:wasmexport deprovision
func deprovision() int32 { return answer(0, `{}`) }

func main() {}
