package host_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/registry"
)

// TestModuleDigestRevives: another artifact under the tag of a module that a parked Stack
// waits for wakes it; the same artifact again does not.
func TestModuleDigestRevives(t *testing.T) {
	r := needRig(t)
	push, err := registry.New(registry.Options{})
	require.NoError(t, err)
	ref, err := registry.ParseReference(r.registry.Ref("modules/parks:1"))
	require.NoError(t, err)
	publish := func(wasm []byte) {
		_, err = push.Push(t.Context(), ref, wasm, nil)
		require.NoError(t, err)
	}
	publish(r.wasm["hostile"])
	namespace := r.tenant(t, "digest")
	r.module(t, "parks", "reference: "+r.registry.Ref("modules/parks:1")+`
pollInterval: 1s
allowedNamespaces: ["*"]
grant: {capabilities: [secret_read]}
`)
	r.awaitModule(t, "parks", "True/Loaded")
	key := r.stack(t, namespace, "web", hostileStack("parks", "patient"))
	told := func(calls int) {
		t.Helper()
		eventually(t, fmt.Sprintf("call %d", calls), func() (bool, string) {
			stack := r.get(t, key)
			count := string(stack.Status.Facts["sticky"].Raw)
			return count == fmt.Sprint(calls) && stack.Status.Parked != nil && stack.Status.Parked.Reason == "told_to", count
		})
	}
	told(1)
	publish(r.wasm["hostile"])
	r.requireSleeps(t, key)

	// A custom section makes other bytes of the same module.
	publish(append(append([]byte{}, r.wasm["hostile"]...), 0, 6, 5, 'o', 't', 'h', 'e', 'r'))
	told(2)
	r.requireSleeps(t, key)
}

// TestConfigMapRevives: a ConfigMap that is made, changed and made again in another
// namespace.
func TestConfigMapRevives(t *testing.T) {
	r := needRig(t)
	namespace, elsewhere := r.tenant(t, "configmap"), r.tenant(t, "configmap")
	r.empower(t, namespace)
	r.catalogueEntry(t, "configured", "oci://"+r.registry.Ref("nowhere"), "web")
	key := r.stack(t, namespace, "web", `
serviceAccountName: builder
root: web
provisioners:
  - {name: web, application: {ref: configured, version: 1.0.0, namespace: `+namespace+`, valuesFrom: [{kind: ConfigMap, name: values}]}}
`)
	r.awaitParkedOn(t, key, abi.ReasonValuesMissing)
	values := func(namespace, text string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "values"}, Data: map[string]string{"values.yaml": text}}
	}
	require.NoError(t, r.admin.Create(t.Context(), values(elsewhere, "a: map")))
	r.secret(t, namespace, "values", "values.yaml", []byte("a: map"))
	r.requireSleeps(t, key)
	require.NoError(t, r.admin.Create(t.Context(), values(namespace, "[no map]")))
	r.awaitParkedOn(t, key, abi.ReasonInvalidConfig)
	require.NoError(t, r.admin.Update(t.Context(), values(namespace, "a: map")))
	r.awaitParkedOn(t, key, abi.ReasonChartNotFound)
	require.NoError(t, r.admin.Delete(t.Context(), values(namespace, "")))
	r.awaitParkedOn(t, key, abi.ReasonValuesMissing)
}

// TestDriverEventRevives: a Stack that waits for somebody because of one node is woken by
// the driver for the sake of another, whose object was deleted, and then waits again.
func TestDriverEventRevives(t *testing.T) {
	r := needRig(t)
	namespace := r.tenant(t, "event")
	r.empower(t, namespace)
	r.hostileModule(t, "waits-on")
	r.publishChart(t, "park", "park-plain", map[string]string{
		"templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: plain}\ndata: {a: b}\n",
	})
	key := r.stack(t, namespace, "web", `
serviceAccountName: builder
root: all
provisioners:
  - {name: all, concurrent: {children: [web, leaf]}}
  - {name: web, application: {ref: park-plain, version: 1.0.0, namespace: `+namespace+`}}
  - {name: leaf, module: {ref: waits-on, config: {behaviour: secret}}}
`)
	r.awaitNode(t, key, "web", abi.OK.String(), "")
	r.awaitParkedOn(t, key, abi.ReasonSecretMissing)
	r.requireSleeps(t, key)
	plain := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "plain"}}
	require.NoError(t, r.admin.Get(t.Context(), client.ObjectKeyFromObject(plain), plain))
	first := plain.UID
	require.NoError(t, r.admin.Delete(t.Context(), plain))
	eventually(t, "another ConfigMap", func() (bool, string) {
		err := r.admin.Get(t.Context(), client.ObjectKeyFromObject(plain), plain)
		return err == nil && plain.UID != first, fmt.Sprint(err)
	})
	r.awaitParkedOn(t, key, abi.ReasonSecretMissing)
	r.requireSleeps(t, key)
}
