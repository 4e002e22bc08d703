package host_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// The marked secrets of TestSecretsStayOut. They are spelled like reasons, so that a module
// can use one as such.
const (
	toldSecret       = "marked_secret_told_"
	chartSecret      = "marked_secret_chart"
	kubeconfigSecret = "marked_secret_kubeconfig"
	urlSecret        = "marked_secret_url"
)

// leakyCharts are charts that fail with a value in the text of the error.
func leakyCharts() map[string]map[string]string {
	configMap := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata:\n  password: {{ .Values.password | quote }}\n"
	return map[string]map[string]string{
		"leaky-template": {"templates/a.yaml": `{{ fail (printf "bad password %s" .Values.password) }}`},
		"leaky-schema": {
			"templates/a.yaml":   fmt.Sprintf(configMap, "leaky-schema"),
			"values.schema.json": `{"properties":{"password":{"type":"string","enum":["another"]}}}`,
		},
		"leaky-yaml":    {"templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: leaky-yaml}\n{{ .Values.password }}: {\n"},
		"leaky-invalid": {"templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: leaky-invalid}\ndata:\n  \"a b {{ .Values.password }}\": x\n"},
		"leaky-denied":  {"templates/a.yaml": fmt.Sprintf(configMap, "leaky-denied")},
	}
}

// TestSecretsStayOut runs Stacks whose failures carry secrets, each in another way, and
// looks for these in everything that Caisson writes: status, conditions, events, the names
// and labels of what it keeps, metrics, and what it logs by default.
func TestSecretsStayOut(t *testing.T) {
	r := needRig(t)
	logged := len(r.log.String())
	r.tellTaleModule(t)
	wants := map[client.ObjectKey]string{}
	for n, want := range map[int]string{1: abi.ReasonModuleTrap, 2: abi.ReasonUnspecified, 3: abi.ReasonModuleBadOutput, 4: abi.ReasonModuleBadCode} {
		namespace := r.tenant(t, "told")
		r.secret(t, namespace, "token", "key", []byte(toldSecret+fmt.Sprint(n)))
		wants[r.stack(t, namespace, "web", hostileStack("tells", "tells"))] = want
	}
	namespace := r.leakyTenant(t)
	for chart, want := range map[string]string{
		"leaky-template": abi.ReasonRenderFailed, "leaky-schema": abi.ReasonRenderFailed, "leaky-yaml": abi.ReasonRenderFailed,
		"leaky-invalid": abi.ReasonRenderFailed, "leaky-denied": abi.ReasonRenderFailed, "leaky-url": abi.ReasonChartUnavailable,
	} {
		wants[r.stack(t, namespace, chart, applicationStack(namespace, chart))] = want
	}
	key := r.stack(t, namespace, "refused", `
serviceAccountName: builder
remotes:
  - {name: workload, owned: true, teardown: Drain, kubeconfigSecret: {name: workload-kubeconfig}}
root: remote
provisioners:
  - {name: remote, remotecluster: {remote: workload, child: leaf}}
  - {name: leaf, module: {ref: tells, config: {behaviour: ok}}}
`)
	wants[key] = abi.ReasonForbidden

	for key, want := range wants {
		eventually(t, key.Name+" fails", func() (bool, string) {
			for _, n := range r.get(t, key).Status.Nodes {
				if n.Kind != v1alpha1.KindSerial && n.Reason == want {
					return true, ""
				}
			}
			return false, describeStack(r.get(t, key))
		})
	}
	r.awaitModule(t, "leaky-reference", "False/InvalidReference")
	for where, text := range r.written(t) {
		requireNoMark(t, where, text)
	}
	for line := range strings.Lines(r.log.String()[logged:]) {
		// What a module logs itself is its own, and an admin who lets it see the bytes of a
		// secret trusts it with them.
		if !strings.Contains(line, `"level"=1`) && !strings.Contains(line, `"module log"`) {
			requireNoMark(t, "the log", line)
		}
	}
}

// tellTaleModule may see the bytes of secrets, and there is a Module with credentials in
// its reference.
func (r *rig) tellTaleModule(t *testing.T) {
	t.Helper()
	r.module(t, "tells", `
reference: registry.example.com/modules/hostile:1
allowedNamespaces: ["*"]
grant:
  capabilities: [secret_read]
  secrets: [{namespace: $(owner), names: [token], raw: true}]
`)
	r.awaitModule(t, "tells", "True/Loaded")
	r.module(t, "leaky-reference", "reference: https://user:"+urlSecret+"@registry.example.com/modules/hostile:1"+anyGrant)
}

// leakyTenant has the secret values, the refused kubeconfig, and a policy that quotes what
// it denies; its account may do everything in its namespace. The catalogue has the charts.
func (r *rig) leakyTenant(t *testing.T) string {
	t.Helper()
	namespace := r.tenant(t, "leaky")
	r.empower(t, namespace)
	r.secret(t, namespace, "values", "values.yaml", []byte("password: "+chartSecret+"\n"))
	refused := regexp.MustCompile(`(?m)^(\s*)token: .*$`).ReplaceAll(r.workload.Kubeconfig, []byte("${1}token: "+kubeconfigSecret))
	require.Contains(t, string(refused), kubeconfigSecret)
	r.secret(t, namespace, "workload-kubeconfig", "value", refused)
	r.denyPasswords(t, namespace)

	for name, files := range leakyCharts() {
		r.publishChart(t, "leaky", name, files)
	}
	r.catalogueEntry(t, "leaky-url", "https://user:"+urlSecret+"@"+r.registry.Ref("leaky"), "leaky-url")
	return namespace
}

// denyPasswords makes a policy whose message quotes the password of a ConfigMap, and waits
// until it is in force.
func (r *rig) denyPasswords(t *testing.T, namespace string) {
	t.Helper()
	fail := admissionv1.Fail
	rule := admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{admissionv1.OperationAll},
		Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
	}
	r.create(t, &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "deny-passwords"},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy:    &fail,
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: rule}}},
			Validations: []admissionv1.Validation{{
				Expression:        `!has(object.data) || !("password" in object.data)`,
				MessageExpression: `"the password " + object.data.password + " is denied"`,
			}},
		},
	})
	r.create(t, &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "deny-passwords"},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "deny-passwords", ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			MatchResources: &admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": namespace}}},
		},
	})
	eventually(t, "the policy", func() (bool, string) {
		try := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "try"}, Data: map[string]string{"password": chartSecret}}
		err := r.admin.Create(t.Context(), try, client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), chartSecret), fmt.Sprint(err)
	})
}

// written is everything that Caisson writes, by what it is: of Stacks and Modules what is
// not their spec, which is the user's own; of Secrets what is not their content.
func (r *rig) written(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	add := func(what string, o client.Object, part any) {
		raw, err := json.Marshal(part)
		require.NoError(t, err)
		texts[what+" "+o.GetNamespace()+"/"+o.GetName()] = string(raw)
	}
	for _, stack := range r.stacks(t) {
		add("Stack", &stack, []any{stack.Status, stack.Labels, stack.Annotations, stack.Finalizers})
	}
	modules, happened, secrets := &v1alpha1.ModuleList{}, &eventsv1.EventList{}, &corev1.SecretList{}
	for _, list := range []client.ObjectList{modules, happened, secrets} {
		require.NoError(t, r.admin.List(t.Context(), list))
	}
	for _, m := range modules.Items {
		add("Module", &m, m.Status)
	}
	for _, e := range happened.Items {
		add("Event", &e, e)
	}
	for _, s := range secrets.Items {
		if s.Namespace == operatorNamespace {
			add("Secret", &s, s.ObjectMeta)
		}
	}
	families, err := r.collectors.Gather()
	require.NoError(t, err)
	for _, family := range families {
		texts["metric "+family.GetName()] = family.String()
	}
	return texts
}

func requireNoMark(t *testing.T, where, text string) {
	t.Helper()
	assert.NotContains(t, text, "marked_secret", "%s holds a secret", where)
}
