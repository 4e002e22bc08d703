package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/internal/testenv"
)

// crds is the directory of the generated CRDs, seen from this package.
const crds = "../../../deploy/crds"

// examples is the directory of the example that newcomers see first.
const examples = "../../../examples/platform"

// demoStack uses every kind of node, and a null wherever one can be.
const demoStack = `
spec:
  serviceAccountName: platform
  parameters: {gpu: false, podCIDR: 10.0.0.0/16, none: null, nested: {a: [1, null, "x"]}}
  remotes:
  - {name: workload, owned: true, teardown: Discard, kubeconfigSecret: {name: workload-kubeconfig}}
  - {name: capi, clusterAPI: {name: workload, namespace: clusters}}
  - {name: virtual, vcluster: {name: dev, server: "https://dev.vclusters:443"}}
  - {name: inner, within: workload, unreachableGrace: 1.5m, kubeconfigSecret: {name: inner, key: config}}
  root: all
  provisioners:
  - {name: all, serial: {children: [on-workload]}}
  - {name: on-workload, remotecluster: {remote: workload, child: platform}}
  - {name: platform, serial: {children: [cni, addons, gpu]}}
  - {name: addons, concurrent: {children: [metrics], limit: 8, upConcurrentDownSerial: true}}
  - {name: gpu, conditional: {when: "parameters.gpu", child: gpu-operator}}
  - {name: gpu-operator, application: {ref: gpu-operator}}
  - {name: cni, module: {ref: cilium, config: {podCIDR: "${parameters.podCIDR}", big: 9007199254740993, unset: null, deep: {list: [null, 1.5]}}}}
  - {name: metrics, application: {ref: metrics-server, version: 3.x, namespace: kube-system, values: {tolerations: null, args: [null]}, valuesFrom: [{kind: Secret, name: extra, optional: true}], parameters: [{name: a.b, value: "1"}]}}
`

// TestCRDs uses one control plane for all that the API server must accept and refuse.
func TestCRDs(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	api, err := testenv.Start(t).Client(scheme)
	require.NoError(t, err)
	_, err = testenv.ApplyPath(t.Context(), api, crds)
	require.NoError(t, err, "the generated CRDs install")
	for _, list := range []client.ObjectList{&v1alpha1.StackList{}, &v1alpha1.ModuleList{}, &v1alpha1.ApplicationList{}} {
		require.Eventually(t, func() bool { return api.List(t.Context(), list) == nil }, time.Minute, 100*time.Millisecond, "%T is served", list)
	}
	namespace := testenv.Namespace(t, api, "crd-")

	t.Run("Accepted", func(t *testing.T) { testAccepted(t, api, namespace) })
	t.Run("Largest", func(t *testing.T) { testLargest(t, api, namespace) })
	t.Run("RefusedStacks", func(t *testing.T) { testRefusedStacks(t, api, namespace) })
	t.Run("RefusedOthers", func(t *testing.T) { testRefusedOthers(t, api) })
	t.Run("Grants", func(t *testing.T) { testGrants(t, api) })
	t.Run("UnknownFields", func(t *testing.T) { testUnknownFields(t, api, namespace) })
	t.Run("Examples", func(t *testing.T) {
		applied, err := testenv.ApplyPath(t.Context(), api, examples)
		require.NoError(t, err, "what the examples show is valid")
		require.NotEmpty(t, applied)
	})
	t.Run("Conditions", func(t *testing.T) { testConditions(t, api, namespace) })
	t.Run("NewStatus", func(t *testing.T) { testNewStatus(t, api, namespace) })
	t.Run("Status", func(t *testing.T) { testStatus(t, api, namespace) })
}

// object makes an object of this group from the YAML of its body.
func object(t *testing.T, kind, namespace, name, body string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(body))
	require.NoError(t, err)
	content := map[string]any{}
	require.NoError(t, json.Unmarshal(raw, &content), "with integers as integers")
	o := &unstructured.Unstructured{Object: content}
	o.SetAPIVersion(v1alpha1.GroupVersion().String())
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

// testUnknownFields sends what Caisson does not offer, as kubectl does: it is told, and
// not dropped.
func testUnknownFields(t *testing.T, api client.Client, namespace string) {
	for name, tc := range map[string]struct {
		reason, kind, body, want string
	}{
		"Case090Branch":                     {"git sources are not offered", "Application", `spec: {versions: [{version: 1.2.0, repo: "https://r", chart: c, branch: main, path: charts/c}]}`, `unknown field "spec.versions[0].branch"`},
		"Case097NamespaceMetadata":          {"nor is metadata of namespaces", "Application", `spec: {versions: [{version: 1.2.0, repo: "https://r", chart: c, namespaceMetadata: {labels: {a: b}}}]}`, `unknown field "spec.versions[0].namespaceMetadata"`},
		"Case097NamespaceMetadataAndCreate": {"with the namespace made either", "Stack", `spec: {root: a, provisioners: [{name: a, application: {ref: m, createNamespace: true, namespaceMetadata: {labels: {a: b}}}}]}`, `unknown field "spec.provisioners[0].application.namespaceMetadata"`},
	} {
		t.Run(name, func(t *testing.T) {
			o := object(t, tc.kind, "", "unknown-"+strings.ToLower(name), tc.body)
			if tc.kind == "Stack" {
				o.SetNamespace(namespace)
			}
			err := client.WithFieldValidation(api, metav1.FieldValidationStrict).Create(t.Context(), o)
			require.ErrorContains(t, err, tc.want, tc.reason)
		})
	}
}

func testAccepted(t *testing.T, api client.Client, namespace string) {
	require.NoError(t, api.Create(t.Context(), object(t, "Stack", namespace, "demo", demoStack)))
	var stack v1alpha1.Stack
	require.NoError(t, api.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "demo"}, &stack))

	nodes := map[string]v1alpha1.Node{}
	for _, node := range stack.Spec.Provisioners {
		require.NotEmpty(t, node.Kind(), "every node of the demo has one kind")
		nodes[node.Name] = node
	}
	require.JSONEq(t, `{"podCIDR":"${parameters.podCIDR}","big":9007199254740993,"unset":null,"deep":{"list":[null,1.5]}}`, string(nodes["cni"].Module.Config.Raw), "nulls in a config are preserved")
	require.Contains(t, string(nodes["cni"].Module.Config.Raw), "9007199254740993", "and so are 64 bits")
	require.JSONEq(t, `{"tolerations":null,"args":[null]}`, string(nodes["metrics"].Application.Values.Raw), "nulls in values are preserved")
	null, ok := stack.Spec.Parameters["none"]
	require.True(t, ok, "a parameter may be null")
	require.Empty(t, null.Raw, "which the Go type holds as nothing")
	require.JSONEq(t, `{"a":[1,null,"x"]}`, string(stack.Spec.Parameters["nested"].Raw))

	require.Equal(t, "workload", stack.Spec.Remotes[3].Within)
	require.Equal(t, "value", stack.Spec.Remotes[0].KubeconfigSecret.Key, "the key has a default")
	require.Equal(t, "Drain", stack.Spec.Remotes[3].Teardown, "so has the teardown")
	require.Equal(t, v1alpha1.DefaultUnreachableGrace, stack.Spec.Remotes[0].UnreachableGrace.Duration, "and the grace, as the constant says")
	require.Equal(t, 90*time.Second, stack.Spec.Remotes[3].UnreachableGrace.Duration)
	require.Equal(t, "values.yaml", nodes["metrics"].Application.ValuesFrom[0].Key)

	updated := stack.DeepCopy()
	updated.Spec.Suspend = true
	require.NoError(t, api.Update(t.Context(), updated), "a typed update passes the same rules")
	require.JSONEq(t, string(nodes["cni"].Module.Config.Raw), string(updated.Spec.Provisioners[6].Module.Config.Raw), "and keeps the nulls")
}

// testLargest proves that the rules fit the API server's budget at run time for the
// largest tree that they allow.
func testLargest(t *testing.T, api client.Client, namespace string) {
	require.NoError(t, api.Create(t.Context(), object(t, "Stack", namespace, "largest", flatStack(128))))
	err := api.Create(t.Context(), object(t, "Stack", namespace, "larger", flatStack(129)))
	require.True(t, apierrors.IsInvalid(err), "%v", err)
	require.ErrorContains(t, err, "must have at most 128 items")
}

// flatStack is a tree of so many nodes, two levels of combinators above them.
func flatStack(nodes int) string {
	var b strings.Builder
	b.WriteString("spec:\n  root: n0\n  provisioners:\n")
	fmt.Fprintf(&b, "  - {name: n0, serial: {children: [n1, n2, n3]}}\n")
	for half := 1; half <= 2; half++ {
		var children []string
		for i := 3 + half; i < nodes; i += 2 {
			children = append(children, fmt.Sprintf("n%d", i))
		}
		fmt.Fprintf(&b, "  - {name: n%d, concurrent: {children: [%s]}}\n", half, strings.Join(children, ", "))
	}
	for i := 3; i < nodes; i++ {
		fmt.Fprintf(&b, "  - {name: n%d, serial: {children: []}}\n", i)
	}
	return b.String()
}

func testRefusedStacks(t *testing.T, api client.Client, namespace string) {
	const leaf = "{name: a, module: {ref: m}}"
	stack := func(nodes ...string) string {
		return "spec:\n  root: a\n  provisioners:\n  - " + strings.Join(nodes, "\n  - ") + "\n"
	}
	remotes := func(list string) string { return stack(leaf) + "  remotes: " + list + "\n" }
	for name, tc := range map[string]struct {
		reason string
		body   string
		want   string
	}{
		"TwoKinds":      {reason: "a node is one thing", body: stack("{name: a, serial: {children: []}, module: {ref: m}}"), want: "a provisioner must have exactly one kind: serial, concurrent, conditional, remotecluster, application or module"},
		"NoKind":        {reason: "a node is something", body: stack("{name: a}"), want: "a provisioner must have exactly one kind"},
		"UnknownRoot":   {reason: "the root exists", body: "spec: {root: b, provisioners: [" + leaf + "]}", want: "root must name one of the provisioners"},
		"NoRoot":        {reason: "there is a root", body: "spec: {provisioners: [" + leaf + "]}", want: "spec.root: Required value"},
		"NoNodes":       {reason: "there is a node", body: "spec: {root: a, provisioners: []}", want: "spec.provisioners"},
		"BadName":       {reason: "names become parts of others", body: stack(leaf, "{name: Not_OK, module: {ref: m}}"), want: "spec.provisioners[1].name"},
		"LongName":      {reason: "and are labels", body: stack(leaf, "{name: "+strings.Repeat("x", 64)+", module: {ref: m}}"), want: "spec.provisioners[1].name"},
		"Duplicate":     {reason: "a name is used once", body: stack(leaf, leaf), want: "spec.provisioners[1]: Duplicate value"},
		"SerialChild":   {reason: "children of a serial exist", body: stack("{name: a, serial: {children: [b]}}"), want: "every child of a serial must name one of the provisioners"},
		"Concurrent":    {reason: "children of a concurrent exist", body: stack("{name: a, concurrent: {children: [a, b]}}"), want: "every child of a concurrent must name one of the provisioners"},
		"Conditional":   {reason: "the child of a conditional exists", body: stack("{name: a, conditional: {when: 'true', child: b}}"), want: "the child of a conditional must name one of the provisioners"},
		"RemoteChild":   {reason: "the child of a remotecluster exists", body: stack("{name: a, remotecluster: {remote: r, child: b}}") + "  remotes: [{name: r, kubeconfigSecret: {name: s}}]\n", want: "the child of a remotecluster must name one of the provisioners"},
		"UnknownRemote": {reason: "the remote exists", body: stack("{name: a, remotecluster: {remote: r, child: b}}", "{name: b, module: {ref: m}}"), want: "a remotecluster must name one of the remotes"},
		"UnknownWithin": {reason: "what a remote is within exists", body: remotes("[{name: r, within: q, kubeconfigSecret: {name: s}}]"), want: "within must name one of the remotes"},
		"NoSource":      {reason: "a remote has a kubeconfig", body: remotes("[{name: r}]"), want: "a remote must say where its kubeconfig comes from: exactly one of kubeconfigSecret, clusterAPI and vcluster"},
		"TwoSources":    {reason: "and only one", body: remotes("[{name: r, kubeconfigSecret: {name: s}, vcluster: {name: v}}]"), want: "exactly one of kubeconfigSecret, clusterAPI and vcluster"},
		"AllSources":    {reason: "and only one", body: remotes("[{name: r, kubeconfigSecret: {name: s}, clusterAPI: {name: c}, vcluster: {name: v}}]"), want: "exactly one of kubeconfigSecret, clusterAPI and vcluster"},
		"NoCluster":     {reason: "it has a name", body: remotes("[{name: r, clusterAPI: {name: ''}}]"), want: "spec.remotes[0].clusterAPI.name"},
		"Server":        {reason: "a credential is not sent in the clear", body: remotes("[{name: r, vcluster: {name: v, server: 'http://v.example'}}]"), want: "spec.remotes[0].vcluster.server"},
		"TwoRemotes":    {reason: "a remote is declared once", body: remotes("[{name: r, kubeconfigSecret: {name: s}}, {name: r, kubeconfigSecret: {name: t}}]"), want: "spec.remotes[1]: Duplicate value"},
		"Teardown":      {reason: "policies are known", body: remotes("[{name: r, teardown: Maybe, kubeconfigSecret: {name: s}}]"), want: `supported values: "Drain", "Discard", "Orphan"`},
		"Grace":         {reason: "a text that is no duration would break the list of all", body: remotes("[{name: r, unreachableGrace: soon, kubeconfigSecret: {name: s}}]"), want: "spec.remotes[0].unreachableGrace"},
		"GraceEmpty":    {reason: "nothing is no duration", body: remotes("[{name: r, unreachableGrace: '', kubeconfigSecret: {name: s}}]"), want: "spec.remotes[0].unreachableGrace"},
		"GraceNegative": {reason: "nothing ends before it begins", body: remotes("[{name: r, unreachableGrace: -1m, kubeconfigSecret: {name: s}}]"), want: "spec.remotes[0].unreachableGrace"},
		"GraceHuge":     {reason: "what does not fit into a duration is none", body: remotes("[{name: r, unreachableGrace: 9999999h, kubeconfigSecret: {name: s}}]"), want: "spec.remotes[0].unreachableGrace"},
		"Account":       {reason: "an account is one of the Stack's namespace", body: stack(leaf) + "  serviceAccountName: 'kube-system:builder'\n", want: "spec.serviceAccountName"},
		"AccountPath":   {reason: "and not somewhere else", body: stack(leaf) + "  serviceAccountName: ../builder\n", want: "spec.serviceAccountName"},
		"EmptyRef":      {reason: "a leaf names something", body: stack("{name: a, module: {ref: ''}}"), want: "spec.provisioners[0].module.ref"},
		"EmptyWhen":     {reason: "a condition says something", body: stack("{name: a, conditional: {when: '', child: a}}"), want: "spec.provisioners[0].conditional.when"},
		"ValuesKind":    {reason: "values come from two kinds", body: stack("{name: a, application: {ref: x, valuesFrom: [{kind: Pod, name: p}]}}"), want: `supported values: "ConfigMap", "Secret"`},
		"Limit":         {reason: "a limit is not negative", body: stack("{name: a, concurrent: {children: [], limit: -1}}"), want: "spec.provisioners[0].concurrent.limit"},
	} {
		t.Run(name, func(t *testing.T) {
			err := api.Create(t.Context(), object(t, "Stack", namespace, "refused-"+strings.ToLower(name), tc.body))
			require.True(t, apierrors.IsInvalid(err), "%s: %v", tc.reason, err)
			require.ErrorContains(t, err, tc.want, tc.reason)
		})
	}
}

func testRefusedOthers(t *testing.T, api client.Client) {
	for name, tc := range map[string]struct {
		reason string
		kind   string
		body   string
		want   string // "" if it is accepted
	}{
		"Module":          {reason: "a whole module is accepted", kind: "Module", body: `spec: {reference: "r.example.com/m:1", allowedNamespaces: ["*"], grant: {capabilities: [app_ensure, secret_read], secrets: [{namespace: $(owner), names: ["*"]}]}, limits: {timeout: 10s, memory: 64Mi}}`},
		"Capability":      {reason: "capabilities are known", kind: "Module", body: `spec: {reference: r/m, allowedNamespaces: [], grant: {capabilities: [http_get]}}`, want: "spec.grant.capabilities[0]: Unsupported value"},
		"Grant":           {reason: "an admin says what is granted, even if nothing", kind: "Module", body: `spec: {reference: r/m, allowedNamespaces: []}`, want: "spec.grant: Required value"},
		"Verb":            {reason: "verbs are known", kind: "Module", body: `spec: {reference: r/m, allowedNamespaces: [], grant: {capabilities: [], kube: [{apiGroup: "", kinds: [Pod], verbs: [watch], namespaces: []}]}}`, want: "Unsupported value"},
		"NothingGranted":  {reason: "nothing is a grant", kind: "Module", body: `spec: {reference: r/m, allowedNamespaces: [], grant: {capabilities: []}}`},
		"UnsetNamespaces": {reason: "who may use a module is said, even if nobody", kind: "Module", body: `spec: {reference: r/m, grant: {capabilities: []}}`, want: "spec.allowedNamespaces: Required value"},
		"Poll":            {reason: "a text that is no duration would break the list of all", kind: "Module", body: `spec: {reference: r/m, allowedNamespaces: [], grant: {capabilities: []}, pollInterval: often}`, want: "spec.pollInterval"},
		"Limits":          {reason: "every limit can be set", kind: "Module", body: `spec: {reference: r/m, allowedNamespaces: [], grant: {capabilities: []}, limits: {timeout: 1h, cpu: 500ms, memory: 4Gi, tableElements: 1, input: 1Ki, output: 256Mi, hostCalls: 1, hostCallSize: 1000, hostCallTotal: 512Mi, logLines: 1, logSize: "1", concurrency: 1024}}`},
		"InProcess":       {reason: "a module may be trusted", kind: "Module", body: `spec: {reference: r/m, allowedNamespaces: [], grant: {capabilities: []}, isolation: InProcess}`},
		"Isolation":       {reason: "there is nothing in between", kind: "Module", body: `spec: {reference: r/m, allowedNamespaces: [], grant: {capabilities: []}, isolation: None}`, want: "spec.isolation: Unsupported value"},
		"NoTime":          {reason: "no limit is switched off by 0", kind: "Module", body: `spec: {reference: r/m, allowedNamespaces: [], grant: {capabilities: []}, limits: {timeout: 0s}}`, want: "spec.limits.timeout: Invalid value: \"0s\": must be between 1ms and 24h"},
		"NoCPU":           {reason: "nor this one", kind: "Module", body: `spec: {reference: r/m, allowedNamespaces: [], grant: {capabilities: []}, limits: {cpu: 25h}}`, want: "spec.limits.cpu: Invalid value: \"25h\": must be between 1ms and 24h"},
		"LittleMemory":    {reason: "less than a page of Wasm is none", kind: "Module", body: `spec: {reference: r/m, allowedNamespaces: [], grant: {capabilities: []}, limits: {memory: 63Ki}}`, want: "must be between 64Ki and 4Gi"},
		"MuchMemory":      {reason: "more than Wasm can address", kind: "Module", body: `spec: {reference: r/m, allowedNamespaces: [], grant: {capabilities: []}, limits: {memory: 5Gi}}`, want: "must be between 64Ki and 4Gi"},
		"MemoryNumber":    {reason: "a number without a unit is one of bytes", kind: "Module", body: `spec: {reference: r/m, allowedNamespaces: [], grant: {capabilities: []}, limits: {memory: 1000}}`, want: "must be between 64Ki and 4Gi"},
		"NoOutput":        {reason: "a module must be able to answer", kind: "Module", body: `spec: {reference: r/m, allowedNamespaces: [], grant: {capabilities: []}, limits: {output: "0"}}`, want: "must be between 1 and 256Mi"},
		"MuchInput":       {reason: "offsets are 31 bits", kind: "Module", body: `spec: {reference: r/m, allowedNamespaces: [], grant: {capabilities: []}, limits: {input: 257Mi}}`, want: "must be between 1 and 256Mi"},
		"NoHostCalls":     {reason: "a grant of nothing is for that", kind: "Module", body: `spec: {reference: r/m, allowedNamespaces: [], grant: {capabilities: []}, limits: {hostCalls: 0}}`, want: "spec.limits.hostCalls"},
		"NoConcurrency":   {reason: "a module that cannot be called", kind: "Module", body: `spec: {reference: r/m, allowedNamespaces: [], grant: {capabilities: []}, limits: {concurrency: 0}}`, want: "spec.limits.concurrency"},
		"MuchTable":       {reason: "a table of a gigabyte", kind: "Module", body: `spec: {reference: r/m, allowedNamespaces: [], grant: {capabilities: []}, limits: {tableElements: 134217729}}`, want: "spec.limits.tableElements"},
		"Timeout":         {reason: "likewise", kind: "Module", body: `spec: {reference: r/m, allowedNamespaces: [], grant: {capabilities: []}, limits: {timeout: ""}}`, want: "spec.limits.timeout"},
		"Application":     {reason: "a whole application is accepted", kind: "Application", body: `spec: {versions: [{version: 1.0.0, repo: "oci://r.example.com/charts", chart: c, values: {a: null}}]}`},
		"Repo":            {reason: "repositories are OCI or HTTP", kind: "Application", body: `spec: {versions: [{version: 1.0.0, repo: "file:///etc", chart: c}]}`, want: "spec.versions[0].repo"},
		"NoVersions":      {reason: "there is a version", kind: "Application", body: `spec: {versions: []}`, want: "spec.versions"},
		"VersionRepeated": {reason: "a version is listed once", kind: "Application", body: `spec: {versions: [{version: 1.0.0, repo: "https://r", chart: c}, {version: 1.0.0, repo: "https://r", chart: c}]}`, want: "Duplicate value"},
		"Case091LeadingV": {reason: "either could be meant", kind: "Application", body: `spec: {versions: [{version: 1.2.3, repo: "https://r", chart: c}, {version: v1.2.3, repo: "https://r", chart: c}]}`, want: "no two versions may be equal"},
		"Case091Build":    {reason: "build metadata does not count", kind: "Application", body: `spec: {versions: [{version: 1.2.3+a, repo: "https://r", chart: c}, {version: 2.0.0, repo: "https://r", chart: c}, {version: v1.2.3+b, repo: "https://r", chart: c}]}`, want: "no two versions may be equal"},
		"Case091Distinct": {reason: "pre-releases and tags are versions of their own", kind: "Application", body: `spec: {versions: [{version: v1.2.3, repo: "https://r", chart: c}, {version: 1.2.3-rc.1, repo: "https://r", chart: c}, {version: dev, repo: "https://r", chart: c}]}`},
		"Case090Git":      {reason: "a git source is refused: there is no version of a branch", kind: "Application", body: `spec: {versions: [{version: 1.2.0, repo: "git+https://git.example.com/r.git", chart: c}]}`, want: "spec.versions[0].repo"},
		"Case090SSH":      {reason: "however it is spelled", kind: "Application", body: `spec: {versions: [{version: 1.2.0, repo: "git@git.example.com:r.git", chart: c}]}`, want: "spec.versions[0].repo"},
	} {
		t.Run(name, func(t *testing.T) {
			err := api.Create(t.Context(), object(t, tc.kind, "", "other-"+strings.ToLower(name), tc.body))
			if tc.want == "" {
				require.NoError(t, err, tc.reason)
				return
			}
			require.True(t, apierrors.IsInvalid(err), "%s: %v", tc.reason, err)
			require.ErrorContains(t, err, tc.want, tc.reason)
		})
	}
}

// testGrants sends grants that would mean nothing, or look as if they meant everything: an
// admin learns of it when they write it, and not when a module is denied.
func testGrants(t *testing.T, api client.Client) {
	kube := func(rule string) string { return "{capabilities: [kube_get], kube: [" + rule + "]}" }
	secrets := func(rule string) string { return "{capabilities: [secret_read], secrets: [" + rule + "]}" }
	for name, tc := range map[string]struct {
		reason, grant, want string
	}{
		"EveryFunction":    {reason: "all there are", grant: "{capabilities: [app_ensure, app_remove, app_list, kube_get, kube_list, kube_apply, kube_delete, secret_read, event]}"},
		"Capability":       {reason: "a function of another host", grant: "{capabilities: [kube_exec]}", want: "grant.capabilities[0]: Unsupported value"},
		"CapabilityAny":    {reason: "functions have no wildcard", grant: "{capabilities: ['*']}", want: "grant.capabilities[0]: Unsupported value"},
		"CapabilityPrefix": {reason: "nor a prefix", grant: "{capabilities: ['kube_*']}", want: "grant.capabilities[0]: Unsupported value"},
		"CapabilityEmpty":  {reason: "nothing is no name", grant: "{capabilities: ['']}", want: "grant.capabilities[0]: Unsupported value"},
		"CapabilityTwice":  {reason: "a set", grant: "{capabilities: [event, event]}", want: "grant.capabilities[1]: Duplicate value"},
		"CapabilityUnset":  {reason: "unset could be taken for all", grant: "{}", want: "grant.capabilities: Required value"},
		"CapabilityNull":   {reason: "so could null", grant: "{capabilities: null}", want: "grant.capabilities"},

		"Kube":            {reason: "namespaces have a wildcard", grant: kube("{apiGroup: apps, kinds: [Deployment], verbs: [get], namespaces: ['*'], scopes: [current, home]}")},
		"KubeNowhere":     {reason: "no namespaces are none", grant: kube("{kinds: [Pod], verbs: [get], namespaces: []}")},
		"NamespacesUnset": {reason: "unset could be taken for every one", grant: kube("{kinds: [Pod], verbs: [get]}"), want: "grant.kube[0].namespaces: Required value"},
		"Namespace":       {reason: "no such thing can exist", grant: kube("{kinds: [Pod], verbs: [get], namespaces: ['team-*']}"), want: "grant.kube[0].namespaces[0]"},
		"NamespaceEmpty":  {reason: "the empty one is not all of them", grant: kube("{kinds: [Pod], verbs: [get], namespaces: ['']}"), want: "grant.kube[0].namespaces[0]"},
		"KindAny":         {reason: "kinds have no wildcard", grant: kube("{kinds: ['*'], verbs: [get], namespaces: ['*']}"), want: "grant.kube[0].kinds[0]"},
		"KindResource":    {reason: "kinds are not resources", grant: kube("{kinds: [pods], verbs: [get], namespaces: ['*']}"), want: "grant.kube[0].kinds[0]"},
		"KindPath":        {reason: "nor subresources", grant: kube("{kinds: [Pod/exec], verbs: [get], namespaces: ['*']}"), want: "grant.kube[0].kinds[0]"},
		"KindsNone":       {reason: "a rule is about something", grant: kube("{kinds: [], verbs: [get], namespaces: ['*']}"), want: "grant.kube[0].kinds"},
		"GroupAny":        {reason: "groups have no wildcard", grant: kube("{apiGroup: '*', kinds: [Pod], verbs: [get], namespaces: ['*']}"), want: "grant.kube[0].apiGroup"},
		"VerbAny":         {reason: "verbs have no wildcard", grant: kube("{kinds: [Pod], verbs: ['*'], namespaces: ['*']}"), want: "grant.kube[0].verbs[0]: Unsupported value"},
		"ScopeAny":        {reason: "scopes have no wildcard", grant: kube("{kinds: [Pod], verbs: [get], namespaces: ['*'], scopes: ['*']}"), want: "grant.kube[0].scopes[0]: Unsupported value"},
		"Secret":          {reason: "no grant lets kube_* reach Secrets", grant: kube("{apiGroup: '', kinds: [ConfigMap, Secret], verbs: [get], namespaces: [a]}"), want: "Secrets are not reached through kube_*"},
		"SecretNoGroup":   {reason: "however the core group is spelled", grant: kube("{kinds: [Secret], verbs: [get], namespaces: [a]}"), want: "Secrets are not reached through kube_*"},
		"OtherSecret":     {reason: "another group's Secret is another kind", grant: kube("{apiGroup: vault.example.com, kinds: [Secret], verbs: [get], namespaces: [a]}")},

		"Secrets":           {reason: "the names of Secrets have a wildcard", grant: secrets("{namespace: $(owner), names: ['*'], scopes: [home], raw: true}")},
		"SecretsNamespace":  {reason: "their namespaces have none", grant: secrets("{namespace: '*', names: [a]}"), want: "grant.secrets[0].namespace"},
		"SecretsNowhere":    {reason: "the empty one is not all of them", grant: secrets("{namespace: '', names: [a]}"), want: "grant.secrets[0].namespace"},
		"SecretsOther":      {reason: "there is one placeholder", grant: secrets("{namespace: $(stack), names: [a]}"), want: "grant.secrets[0].namespace"},
		"SecretsNames":      {reason: "a rule is about something", grant: secrets("{namespace: a, names: []}"), want: "grant.secrets[0].names"},
		"SecretsNamesUnset": {reason: "unset could be taken for every one", grant: secrets("{namespace: a}"), want: "grant.secrets[0].names: Required value"},
		"SecretsName":       {reason: "names are exact", grant: secrets("{namespace: a, names: ['b*']}"), want: "grant.secrets[0].names[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			body := `spec: {reference: r/m, allowedNamespaces: ["*"], grant: ` + tc.grant + "}"
			err := api.Create(t.Context(), object(t, "Module", "", "grant-"+strings.ToLower(name), body))
			if tc.want == "" {
				require.NoError(t, err, tc.reason)
				return
			}
			require.True(t, apierrors.IsInvalid(err), "%s: %v", tc.reason, err)
			require.ErrorContains(t, err, tc.want, tc.reason)
		})
	}
	for name, allowed := range map[string]string{"prefix": "'team-*'", "empty": "''", "upper": "Team"} {
		err := api.Create(t.Context(), object(t, "Module", "", "allowed-"+name, "spec: {reference: r/m, allowedNamespaces: ["+allowed+"], grant: {capabilities: []}}"))
		require.ErrorContains(t, err, "spec.allowedNamespaces[0]", "%s is no namespace", name)
	}
}

// testNewStatus: an object that nobody has looked at yet says so, for tools that take one
// without a status for finished.
func testNewStatus(t *testing.T, api client.Client, namespace string) {
	var stack v1alpha1.Stack
	require.NoError(t, api.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "demo"}, &stack))
	require.Equal(t, v1alpha1.StackStatus{ObservedGeneration: -1}, stack.Status)
}

// testStatus proves that facts of any shape survive in the status, and that a write to
// the status cannot change the spec.
func testStatus(t *testing.T, api client.Client, namespace string) {
	var stack v1alpha1.Stack
	require.NoError(t, api.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "demo"}, &stack))
	generation := stack.Generation
	patch := `{"spec":{"root":"cni"},"status":{"observedGeneration":1,"facts":{"net":{"id":null,"n":9007199254740993},"text":"x"}}}`
	require.NoError(t, api.Status().Patch(t.Context(), &stack, client.RawPatch("application/merge-patch+json", []byte(patch))))
	require.NoError(t, api.Get(t.Context(), client.ObjectKeyFromObject(&stack), &stack))
	require.Equal(t, "all", stack.Spec.Root)
	require.Equal(t, generation, stack.Generation)
	require.Contains(t, string(stack.Status.Facts["net"].Raw), "9007199254740993")
	require.JSONEq(t, `"x"`, string(stack.Status.Facts["text"].Raw))
	// A merge patch takes a null out, so this one has to be written in full.
	stack.Status.Facts["none"] = apiextensionsv1.JSON{}
	require.NoError(t, api.Status().Update(t.Context(), &stack))
	require.NoError(t, api.Get(t.Context(), client.ObjectKeyFromObject(&stack), &stack))
	require.Contains(t, stack.Status.Facts, "none", "a fact may be null")
}

// testConditions proves that a status of our types passes the schema, that lists keep
// one entry for each name, and that what must be there is asked for.
func testConditions(t *testing.T, api client.Client, namespace string) {
	var stack v1alpha1.Stack
	require.NoError(t, api.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "largest"}, &stack))
	now := metav1.Now()
	node := v1alpha1.NodeStatus{Name: "n0", Path: "n0", Kind: v1alpha1.KindSerial, Disposition: v1alpha1.NodeWaiting, LastTransitionTime: now}
	condition := metav1.Condition{
		Type: v1alpha1.ConditionAvailable, Status: metav1.ConditionFalse, ObservedGeneration: 1,
		Reason: v1alpha1.ReasonProvisioning, Message: "n0: sentence (reason)", LastTransitionTime: now,
	}
	stack.Status = v1alpha1.StackStatus{
		ObservedGeneration: 1,
		Conditions:         []metav1.Condition{condition},
		Summary:            "0/125",
		Nodes:              []v1alpha1.NodeStatus{node},
		Inputs:             []v1alpha1.InputRecord{{Scope: "home", Kind: "Secret", Namespace: namespace, Name: "s", Absent: true}},
		Parked:             &v1alpha1.Parked{Disposition: "Terminal", Reason: "forbidden", Path: "n0", Generation: 1, InputsDigest: "d", Since: now},
	}
	want := *stack.Status.DeepCopy()
	require.NoError(t, api.Status().Update(t.Context(), &stack))
	require.NoError(t, api.Get(t.Context(), client.ObjectKeyFromObject(&stack), &stack))
	require.Equal(t, want.Summary, stack.Status.Summary)
	require.Equal(t, want.Nodes[0].Disposition, stack.Status.Nodes[0].Disposition)
	require.Equal(t, want.Inputs, stack.Status.Inputs)
	require.Equal(t, want.Parked.Reason, stack.Status.Parked.Reason)
	require.Equal(t, condition.Message, stack.Status.Conditions[0].Message)

	for name, spoil := range map[string]func(*v1alpha1.StackStatus){
		"two conditions of one type": func(s *v1alpha1.StackStatus) { s.Conditions = append(s.Conditions, condition) },
		"two nodes of one name":      func(s *v1alpha1.StackStatus) { s.Nodes = append(s.Nodes, node) },
		"a reason that is no word":   func(s *v1alpha1.StackStatus) { s.Conditions[0].Reason = "not a word" },
	} {
		spoilt := stack.DeepCopy()
		spoil(&spoilt.Status)
		err := api.Status().Update(t.Context(), spoilt)
		require.True(t, apierrors.IsInvalid(err), "%s: %v", name, err)
	}
}

// TestDeepCopies proves that a copy shares nothing that a user of the cache could change.
func TestDeepCopies(t *testing.T) {
	raw, err := yaml.YAMLToJSON([]byte(demoStack))
	require.NoError(t, err)
	var stack v1alpha1.Stack
	require.NoError(t, json.Unmarshal(raw, &stack))
	want, err := json.Marshal(stack)
	require.NoError(t, err)
	copied := stack.DeepCopy()
	copied.Spec.Parameters["podCIDR"].Raw[0] = 'x'
	copied.Spec.Remotes[0].KubeconfigSecret.Name = "x"
	copied.Spec.Provisioners[0].Serial.Children[0] = "x"
	copied.Spec.Provisioners[6].Module.Config.Raw[0] = 'x'
	copied.Spec.Provisioners[7].Application.ValuesFrom[0].Name = "x"
	got, err := json.Marshal(stack)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}
