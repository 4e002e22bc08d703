package host_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
)

// evilCharts publishes charts that reach for what is not their tenant's, and evil-plain,
// which does not.
func (r *rig) evilCharts(t *testing.T) {
	t.Helper()
	for name, files := range evilCharts() {
		r.publishChart(t, "evil", name, files)
	}
}

func evilCharts() map[string]map[string]string {
	template := func(text string) map[string]string { return map[string]string{"templates/a.yaml": text} }
	rbac := "apiVersion: rbac.authorization.k8s.io/v1\n"
	lookup := func(expression string) map[string]string {
		return template("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: looked-{{ .Release.Name }}}\ndata:\n  found: {{ " + expression + " | toJson | quote }}\n")
	}
	configMap := func(namespace, name, more string) map[string]string {
		return template("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  namespace: " + namespace + "\n  name: " + name + "\n" + more + "data: {by: {{ .Release.Namespace }}}\n")
	}
	return map[string]map[string]string{
		"evil-plain": template("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: plain-{{ .Release.Name }}}\ndata: {password: {{ .Values.password | quote }}}\n"),
		"evil-binding": template(rbac + "kind: ClusterRoleBinding\nmetadata: {name: planted-{{ .Release.Namespace }}}\n" +
			"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}\nsubjects: [{kind: ServiceAccount, name: builder, namespace: {{ .Release.Namespace }}}]\n"),
		"evil-role": template(rbac + "kind: ClusterRole\nmetadata: {name: planted-{{ .Release.Namespace }}}\nrules: [{apiGroups: ['*'], resources: ['*'], verbs: ['*']}]\n"),
		"evil-grab": template(rbac + "kind: RoleBinding\nmetadata: {namespace: {{ .Values.victim }}, name: planted}\n" +
			"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: admin}\nsubjects: [{kind: ServiceAccount, name: builder, namespace: {{ .Release.Namespace }}}]\n"),
		"evil-hook": configMap("{{ .Values.victim }}", "private",
			"  annotations: {helm.sh/hook: 'pre-install,pre-upgrade', helm.sh/hook-delete-policy: before-hook-creation}\n"),
		"evil-hook-new": configMap("{{ .Values.victim }}", "planted", "  annotations: {helm.sh/hook: 'pre-install,pre-upgrade'}\n"),
		"evil-crd": {"crds/a.yaml": "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: planteds.example.com}\n" +
			"spec: {group: example.com, scope: Namespaced, names: {plural: planteds, singular: planted, kind: Planted}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}\n"},
		"evil-namespace":   template("apiVersion: v1\nkind: Namespace\nmetadata: {name: {{ .Values.victim }}, labels: {pod-security.kubernetes.io/enforce: privileged}}\n"),
		"evil-system":      configMap("kube-system", "planted", ""),
		"evil-operator":    template("apiVersion: v1\nkind: Secret\nmetadata: {namespace: " + operatorNamespace + ", name: planted}\n"),
		"evil-takeover":    configMap("{{ .Values.victim }}", "private", ""),
		"evil-takeover-no": configMap("{{ .Values.victim }}", "nobody", ""),
		"evil-look":        lookup(`lookup "v1" "Secret" .Values.victim "private"`),
		"evil-look-no":     lookup(`lookup "v1" "Secret" .Values.victim "nobody"`),
		"evil-look-all":    lookup(`lookup "v1" "Secret" "" ""`),
		"evil-look-own":    lookup(`(lookup "v1" "ConfigMap" .Release.Namespace "private").metadata.name`),
	}
}

// installEvil installs each evil chart in the party's own namespace, a harmless one in
// namespaces that are not its own, and one that looks for what its party may see.
func (r *rig) installEvil(t *testing.T, mine, theirs *party) {
	var nodes, children []string
	add := func(name, ref, namespace, more string) {
		children = append(children, name)
		nodes = append(nodes, fmt.Sprintf("  - {name: %s, application: {ref: %s, version: 1.0.0, release: %s, namespace: %s, values: {victim: %s}%s}}",
			name, ref, name, namespace, theirs.namespace, more))
	}
	for chart := range evilCharts() {
		if chart != "evil-plain" {
			add(chart, chart, mine.namespace, "")
		}
	}
	add("into-theirs", "evil-plain", theirs.namespace, "")
	add("into-system", "evil-plain", "kube-system", "")
	add("into-operator", "evil-plain", operatorNamespace, "")
	add("into-new", "evil-plain", "planted-"+mine.namespace, ", createNamespace: true")
	slices.Sort(children)
	slices.Sort(nodes)
	key := r.stack(t, mine.namespace, "install", "serviceAccountName: builder\nroot: all\nprovisioners:\n  - {name: all, concurrent: {children: ["+
		strings.Join(children, ", ")+"]}}\n"+strings.Join(nodes, "\n")+"\n")

	for _, child := range children {
		if child == "evil-look-own" {
			r.awaitNode(t, key, child, abi.OK.String(), "")
			continue
		}
		r.awaitNode(t, key, child, abi.UserActionRequired.String(), abi.ReasonForbidden)
	}
	log := r.log.String()
	for _, name := range []string{"private", "nobody"} {
		require.Contains(t, log, fmt.Sprintf(`secrets \"%s\" is forbidden: User \"system:serviceaccount:%s:builder\" cannot get resource`, name, mine.namespace),
			"a chart looks as its tenant")
	}
}

// reachOut names the other party's namespace wherever a Stack may name one: its virtual
// clusters are found by the tenant's rights alone.
func (r *rig) reachOut(t *testing.T, mine, theirs *party) {
	key := r.stack(t, mine.namespace, "reach", strings.ReplaceAll(`
serviceAccountName: builder
remotes:
  - {name: there, owned: true, vcluster: {name: dev, namespace: THEIRS, server: "https://dev.example:443"}}
  - {name: nowhere, owned: true, vcluster: {name: nobody, namespace: THEIRS, server: "https://dev.example:443"}}
root: all
provisioners:
  - {name: all, concurrent: {children: [on-there, on-nowhere]}}
  - {name: on-there, remotecluster: {remote: there, child: a}}
  - {name: on-nowhere, remotecluster: {remote: nowhere, child: b}}
  - {name: a, module: {ref: probes}}
  - {name: b, module: {ref: probes}}
`, "THEIRS", theirs.namespace))
	for _, node := range []string{"on-there", "on-nowhere"} {
		r.awaitNode(t, key, node, abi.UserActionRequired.String(), abi.ReasonForbidden)
	}
	stack := r.get(t, key)
	require.NotContains(t, fmt.Sprint(stack.Status.Inputs), theirs.namespace)
	require.Nil(t, r.registration(t, key, "there"))
}
