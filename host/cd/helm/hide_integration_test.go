package helm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/cd/cdtest"
	"github.com/caisson-dev/caisson/host/provisioner"
)

const marked = "marked-hunter2"

// refusals are charts whose removal somebody refuses with a text that quotes the password.
func refusals() map[string]string {
	hook := `annotations: {"helm.sh/hook": pre-delete, "helm.sh/hook-delete-policy": before-hook-creation}`
	return map[string]string{
		// The API server quotes the rules that are more than who makes the Role may do.
		"RoleHook": "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata:\n  name: quoted\n  " + hook + "\n" +
			`rules: [{apiGroups: [""], resources: [pods], verbs: [get], resourceNames: ["{{ .Values.password }}"]}]` + "\n",
		"ConfigMapHook": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: quoted\n  " + hook + "\ndata: {password: \"{{ .Values.password }}\"}\n",
		// The password is a part of what is known.
		"PieceHook": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: quoted\n  " + hook + "\ndata: {password: \"{{ (urlParse .Values.url).userinfo | trimPrefix \"u:\" }}\"}\n",
		"Deletion":  "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: quoted\ndata: {password: \"{{ .Values.password }}\"}\n",
	}
}

// TestRefusedRemovalHidesSecrets: what a removal runs into may quote what was installed
// from Secrets. A driver that has just started knows no values but those of the release.
func TestRefusedRemovalHidesSecrets(t *testing.T) {
	for name, template := range refusals() {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.Repository.Publish(t, cdtest.Chart{Name: "quoting", Version: "1.0.0", Files: map[string]string{"templates/a.yaml": template}})
			app := b.tenant.Application()
			app.Chart = "quoting"
			app.Values = map[string]any{"password": marked, "url": "https://u:" + testHandle + "@db"}
			app.Confidential = []string{marked}
			app.Secrets = cd.SecretExpander(func(text string) (string, error) { return strings.ReplaceAll(text, testHandle, marked), nil })
			cdtest.Ready(t, b.ensure(t, app))
			role := b.impoverish(t)
			policy := b.quotePasswords(t)

			var log strings.Builder
			logger := funcr.New(func(prefix, args string) { fmt.Fprintln(&log, prefix, args) }, funcr.Options{Verbosity: 10})
			b.driver = newDriver(t, b.Operator, b.Namespace, func(o *Options) { o.Logger = logger })
			var whys []string
			refused := cdtest.Until(t, b.remove(t, app), func(o provisioner.Outcome) bool {
				whys = append(whys, o.Headline.Why)
				return o.Class == abi.UserActionRequired
			})
			require.Contains(t, []string{abi.ReasonForbidden, abi.ReasonApplicationFailed}, refused.Headline.Reason, "no values can be corrected any more")
			told := strings.Join(whys, "\n")
			require.NotContains(t, told, marked)
			require.Contains(t, told, hidden, "it was quoted")

			require.NoError(t, b.Admin.Delete(t.Context(), policy))
			require.NoError(t, b.Admin.Update(t.Context(), role))
			b.restart(t)
			cdtest.Ready(t, b.remove(t, app))
			require.NotContains(t, log.String(), marked)
			require.Contains(t, log.String(), "action failed")
		})
	}
}

// impoverish leaves the tenant's account no right that it could hand on but those on
// what the charts are made of, and returns the role as it is to be put back.
func (b *bench) impoverish(t *testing.T) *rbacv1.Role {
	t.Helper()
	role := &rbacv1.Role{}
	require.NoError(t, b.Admin.Get(t.Context(), client.ObjectKey{Namespace: b.tenant.Namespace, Name: "tenant"}, role))
	all := role.DeepCopy()
	role.Rules = []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets", "configmaps"}, Verbs: []string{"*"}},
		{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles"}, Verbs: []string{"get", "list", "watch", "create", "patch", "update", "delete"}},
	}
	require.NoError(t, b.Admin.Update(t.Context(), role))
	all.ResourceVersion = role.ResourceVersion
	return all
}

// quotePasswords makes a policy for the tenant's namespace that lets nobody make or
// delete a ConfigMap with a password, and says which one it was. It waits until the policy
// is in force.
func (b *bench) quotePasswords(t *testing.T) client.Object {
	t.Helper()
	name := "quote-" + b.tenant.Namespace
	fail := admissionv1.Fail
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: &fail,
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Delete},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}}}},
			Variables: []admissionv1.Variable{{Name: "it", Expression: `request.operation == "DELETE" ? oldObject : object`}},
			Validations: []admissionv1.Validation{{
				Expression:        `!has(variables.it.data) || !("password" in variables.it.data)`,
				MessageExpression: `"the password " + variables.it.data.password + " is denied"`,
			}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			MatchResources: &admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": b.tenant.Namespace}}},
		},
	}
	require.NoError(t, b.Admin.Create(t.Context(), policy))
	require.NoError(t, b.Admin.Create(t.Context(), binding))
	try := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: b.tenant.Namespace, Name: "try"}, Data: map[string]string{"password": marked}}
	cdtest.Poll(t, func() (bool, string) {
		err := b.Admin.Create(t.Context(), try.DeepCopy(), client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), marked), fmt.Sprint(err)
	})
	return binding
}
