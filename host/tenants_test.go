package host_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// TestTwoTenants: two tenants with one module, which an admin has granted everything that can
// be granted, everywhere. What is left is what the API server says of each tenant's
// ServiceAccount, which may do everything in its own namespace and nothing elsewhere. Each
// tries to read, write, delete and learn of what is the other's, as a module, with charts,
// and with remotes.
func TestTwoTenants(t *testing.T) {
	r := needRig(t)
	r.evilCharts(t)
	both := []*party{r.party(t, "left"), r.party(t, "right")}
	var rules []string
	for _, namespace := range []string{both[0].namespace, both[1].namespace, operatorNamespace, "kube-system"} {
		rules = append(rules, `{namespace: `+namespace+`, names: ["*"], scopes: [current, home], raw: true}`)
	}
	r.module(t, "probes", strings.ReplaceAll(probesSpec, "SECRETS", strings.Join(rules, ", ")))
	r.awaitModule(t, "probes", "True/Loaded")
	asked := r.requests.count()
	before := []map[string]string{r.fingerprints(t, both[0]), r.fingerprints(t, both[1])}

	var all sync.WaitGroup
	for i, mine := range both {
		theirs := both[1-i]
		all.Go(func() {
			t.Run(mine.prefix+" probes", func(t *testing.T) { r.probeOthers(t, mine, theirs) })
			t.Run(mine.prefix+" installs", func(t *testing.T) { r.installEvil(t, mine, theirs) })
			t.Run(mine.prefix+" reaches out", func(t *testing.T) { r.reachOut(t, mine, theirs) })
		})
	}
	all.Wait()

	for i, mine := range both {
		theirs := both[1-i]
		after := r.fingerprints(t, mine)
		for what, was := range before[i] {
			assert.Equal(t, was, after[what], "%s is as it was", what)
		}
		for what := range after {
			assert.NotContains(t, what, "planted")
			assert.NotContains(t, what, theirs.namespace, "nothing of the other's is there")
		}
		r.requireNoNews(t, mine, theirs)
	}
	for where, text := range r.written(t) {
		requireNoMark(t, where, text)
	}
	r.requireOwnIdentity(t, asked, both)
	r.requireNothingPlanted(t)
	r.alive(t)
}

// probesSpec grants all that there is.
const probesSpec = `
reference: registry.example.com/modules/prober:1
allowedNamespaces: ["*"]
grant:
  capabilities: [app_ensure, app_remove, app_list, kube_get, kube_list, kube_apply, kube_delete, secret_read, event]
  kube:
    - {apiGroup: "", kinds: [ConfigMap, ServiceAccount, Pod, Namespace], verbs: [get, list, apply, delete], namespaces: ["*"], scopes: [current, home]}
    - {apiGroup: caisson.dev, kinds: [Stack, Module], verbs: [get, list, apply, delete], namespaces: ["*"], scopes: [current, home]}
    - {apiGroup: rbac.authorization.k8s.io, kinds: [RoleBinding, ClusterRoleBinding], verbs: [get, list, apply, delete], namespaces: ["*"], scopes: [current, home]}
  secrets: [SECRETS]
`

// party is a tenant with something to lose: a Secret and a ConfigMap, and a Stack with a
// release and an inventory.
type party struct {
	prefix, namespace string
	own               client.ObjectKey
	uid, inventory    string
}

func (p *party) mark() string { return "marked_secret_of_" + p.prefix }

func (r *rig) party(t *testing.T, prefix string) *party {
	t.Helper()
	p := &party{prefix: prefix, namespace: r.tenant(t, prefix)}
	r.empower(t, p.namespace)
	r.secret(t, p.namespace, "private", "key", []byte(p.mark()))
	r.secret(t, p.namespace, "values", "values.yaml", []byte("password: "+p.mark()+"\n"))
	r.secret(t, p.namespace, "vc-dev", "config", r.workload.Kubeconfig)
	require.NoError(t, r.admin.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "private"}, Data: map[string]string{"key": p.mark()},
	}))
	private := metav1.ObjectMeta{Namespace: p.namespace, Name: "private"}
	require.NoError(t, r.admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: private}))
	require.NoError(t, r.admin.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: private, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
	}))
	p.own = r.stack(t, p.namespace, "own", `
serviceAccountName: builder
root: web
provisioners:
  - {name: web, application: {ref: evil-plain, version: 1.0.0, release: own, namespace: `+p.namespace+`, valuesFrom: [{kind: Secret, name: values}]}}
`)
	stack := r.awaitStack(t, p.own, "True/Provisioned")
	p.uid = string(stack.UID)
	kept := &corev1.SecretList{}
	require.NoError(t, r.admin.List(t.Context(), kept, client.InNamespace(operatorNamespace), client.MatchingLabels{"caisson.dev/owner-uid": p.uid}))
	require.NotEmpty(t, kept.Items)
	p.inventory = kept.Items[0].Name
	return p
}

// fingerprints are the versions of everything in a party's namespace, and of what the
// operator keeps for it, by kind and name.
func (r *rig) fingerprints(t *testing.T, p *party) map[string]string {
	t.Helper()
	prints := map[string]string{}
	add := func(list client.ObjectList, options ...client.ListOption) {
		require.NoError(t, r.admin.List(t.Context(), list, options...))
		raw, err := json.Marshal(list)
		require.NoError(t, err)
		var decoded struct {
			Items []struct {
				Metadata struct{ Name, UID, ResourceVersion string }
			}
		}
		require.NoError(t, json.Unmarshal(raw, &decoded))
		for _, item := range decoded.Items {
			prints[fmt.Sprintf("%T %s", list, item.Metadata.Name)] = item.Metadata.UID + " " + item.Metadata.ResourceVersion
		}
	}
	for _, list := range []client.ObjectList{
		&corev1.SecretList{}, &corev1.ConfigMapList{}, &corev1.ServiceAccountList{}, &corev1.PodList{},
		&rbacv1.RoleList{}, &rbacv1.RoleBindingList{}, &v1alpha1.StackList{},
	} {
		add(list, client.InNamespace(p.namespace))
	}
	add(&corev1.SecretList{}, client.InNamespace(operatorNamespace), client.MatchingLabels{"caisson.dev/owner-uid": p.uid})
	namespace := &corev1.Namespace{}
	require.NoError(t, r.admin.Get(t.Context(), client.ObjectKey{Name: p.namespace}, namespace))
	prints["Namespace"] = string(namespace.UID) + " " + namespace.ResourceVersion
	return prints
}

// probe is one request of a module. EXISTS in it is a name of something that there is in
// one run, and of something that there is not in another: the answers must be the same.
type probe struct {
	name, function, request, want string
	// exists is what stands for EXISTS when it is there.
	exists string
}

// probes are what a module of one party asks about the other's.
func probes(mine, theirs *party) []probe {
	ref := func(version, kind, namespace, name string) string {
		return fmt.Sprintf(`"scope":"home","apiVersion":%q,"kind":%q,"namespace":%q,"name":%q`, version, kind, namespace, name)
	}
	object := func(version, kind, namespace, name, rest string) string {
		return fmt.Sprintf(`{"scope":"home","object":{"apiVersion":%q,"kind":%q,"metadata":{"namespace":%q,"name":%q,"labels":{"by":%q}}%s}}`, version, kind, namespace, name, mine.namespace, rest)
	}
	var list []probe
	add := func(name, function, request, want, exists string) {
		list = append(list, probe{name, function, request, want, exists})
	}
	for _, k := range []struct{ version, kind, exists string }{
		{"v1", "ConfigMap", "private"}, {"caisson.dev/v1alpha1", "Stack", "own"}, {"v1", "ServiceAccount", "private"},
	} {
		one := "{" + ref(k.version, k.kind, theirs.namespace, "EXISTS") + "}"
		add(k.kind+" get", "kube_get", one, "forbidden", k.exists)
		add(k.kind+" delete", "kube_delete", one, "forbidden", k.exists)
		add(k.kind+" apply", "kube_apply", object(k.version, k.kind, theirs.namespace, "EXISTS", ""), "forbidden", k.exists)
		add(k.kind+" list", "kube_list", "{"+ref(k.version, k.kind, "EXISTS", "")+"}", "forbidden", theirs.namespace)
		add(k.kind+" list all", "kube_list", "{"+ref(k.version, k.kind, "", "")+"}", "forbidden", "")
	}
	for _, verb := range []string{"get", "delete"} {
		add("Namespace "+verb, "kube_"+verb, "{"+ref("v1", "Namespace", "", "EXISTS")+"}", "forbidden", theirs.namespace)
		add("Module "+verb, "kube_"+verb, "{"+ref("caisson.dev/v1alpha1", "Module", "", "EXISTS")+"}", "forbidden", "probes")
		add("Secret "+verb, "kube_"+verb, "{"+ref("v1", "Secret", theirs.namespace, "EXISTS")+"}", "denied", "private")
	}
	add("Secret list", "kube_list", "{"+ref("v1", "Secret", theirs.namespace, "")+"}", "denied", "")
	add("Secret apply", "kube_apply", object("v1", "Secret", theirs.namespace, "EXISTS", ""), "denied", "private")
	add("Pod in kube-system", "kube_apply", object("v1", "Pod", "kube-system", "planted", `,"spec":{"containers":[{"name":"a","image":"a"}]}`), "forbidden", "")
	add("RoleBinding", "kube_apply", object("rbac.authorization.k8s.io/v1", "RoleBinding", theirs.namespace, "EXISTS",
		`,"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"admin"}`), "forbidden", "private")
	add("ClusterRoleBinding", "kube_apply", `{"scope":"home","object":{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"planted"},`+
		`"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"}}}`, "forbidden", "")
	add("Module apply", "kube_apply", `{"scope":"home","object":{"apiVersion":"caisson.dev/v1alpha1","kind":"Module","metadata":{"name":"EXISTS"},`+
		`"spec":{"reference":"r/m","allowedNamespaces":["*"],"pullSecret":{"namespace":"`+theirs.namespace+`","name":"private"},"grant":{"capabilities":[]}}}}`, "forbidden", "probes")

	secret := func(namespace, name, more string) string {
		return fmt.Sprintf(`{"scope":"home","namespace":%q,"name":%q,"key":"key"%s}`, namespace, name, more)
	}
	add("secret", "secret_read", secret(theirs.namespace, "EXISTS", ""), "forbidden", "private")
	add("secret raw", "secret_read", secret(theirs.namespace, "EXISTS", `,"raw":true`), "forbidden", "private")
	add("inventory", "secret_read", secret(operatorNamespace, "EXISTS", ""), "forbidden", theirs.inventory)
	add("own secret", "secret_read", secret("", "private", ""), `"handle":"caisson-secret:`, "")
	add("own mirror", "kube_apply", object("v1", "ConfigMap", mine.namespace, "mirror", `,"data":{"a":"HANDLE"}`), `"kind":"ConfigMap"`, "")
	add("own list", "kube_list", "{"+ref("v1", "ConfigMap", mine.namespace, "")+`,"limit":1}`, `"items"`, "")

	app := func(name, release, namespace, more string) string {
		return fmt.Sprintf(`{"name":%q,"catalogue":"evil-plain","release":%q,"namespace":%q%s}`, name, release, namespace, more)
	}
	add("app takes over", "app_ensure", app("a", "EXISTS", theirs.namespace, ""), `"reason":"forbidden"`, "own")
	add("app elsewhere", "app_ensure", app("b", "x", "EXISTS", `,"createNamespace":true`), `"reason":"forbidden"`, theirs.namespace)
	add("app in kube-system", "app_ensure", app("c", "planted", "kube-system", ""), `"reason":"forbidden"`, "")
	add("app with a stolen handle", "app_ensure", app("d", "x", mine.namespace, `,"values":{"password":"caisson-secret:00112233445566778899aabbccddeeff:"}`), "invalid", "")
	add("app list", "app_list", `{"namespace":"`+theirs.namespace+`","owner":"own"}`, `"applications":[]`, "")
	add("app remove", "app_remove", `{"name":"EXISTS"}`, `"phase":"gone"`, "own")
	add("app remove by path", "app_remove", `{"name":"../own/web"}`, "invalid", "")
	add("event", "event", `{"type":"Warning","reason":"probed","owner":{"namespace":"`+theirs.namespace+`","name":"own"}}`, `{"result":{}}`, "")
	return list
}

// absent is a name that nothing has.
const absent = "nobody"

// probeOthers runs a module that asks about what the other party has, and about what it
// has not.
func (r *rig) probeOthers(t *testing.T, mine, theirs *party) {
	list := probes(mine, theirs)
	answers := map[string]map[string]string{}
	for name, there := range map[string]bool{"exists": true, "absent": false} {
		var asked []map[string]any
		for _, p := range list {
			stands := absent
			if there {
				stands = p.exists
			}
			asked = append(asked, map[string]any{
				"name": p.name, "function": p.function, "hide": stands,
				"request": json.RawMessage(strings.ReplaceAll(p.request, "EXISTS", stands)),
			})
		}
		config, err := json.Marshal(map[string]any{"fact": "answers", "probes": asked})
		require.NoError(t, err)
		stack := &v1alpha1.Stack{
			ObjectMeta: metav1.ObjectMeta{Namespace: mine.namespace, Name: "probe-" + name},
			Spec: v1alpha1.StackSpec{ServiceAccountName: "builder", Root: "leaf", Provisioners: []v1alpha1.Node{
				{Name: "leaf", Module: &v1alpha1.ModuleNode{Ref: "probes", Config: &apiextensionsv1.JSON{Raw: config}}},
			}},
		}
		r.create(t, stack)
		done := r.awaitStack(t, client.ObjectKeyFromObject(stack), "True/Provisioned")
		var told map[string]string
		require.NoError(t, json.Unmarshal(done.Status.Facts["answers"].Raw, &told))
		answers[name] = told
		for _, input := range done.Status.Inputs {
			require.Contains(t, []string{"", mine.namespace}, input.Namespace, "nobody is woken by what they may not read: %+v", input)
		}
	}
	handle := regexp.MustCompile(`caisson-secret:[0-9a-f]{32}:`)
	for _, p := range list {
		there, not := answers["exists"][p.name], answers["absent"][p.name]
		want := p.want
		if !strings.Contains(want, `"`) {
			want = `"code":"` + want + `"`
		}
		assert.Contains(t, there, want, p.name)
		if p.exists != "" {
			assert.Equal(t, not, there, "%s: what exists looks like what does not", p.name)
		}
		assert.NotContains(t, handle.ReplaceAllString(there, ""), "marked_secret")
	}
	mirror := &corev1.ConfigMap{}
	require.NoError(t, r.admin.Get(t.Context(), client.ObjectKey{Namespace: mine.namespace, Name: "mirror"}, mirror))
	require.Regexp(t, `^caisson-secret:[0-9a-f]{32}:$`, mirror.Data["a"], "a handle is no secret outside of values")
}

// requireNoNews checks that a party has no event and no object that tells of the other.
func (r *rig) requireNoNews(t *testing.T, mine, theirs *party) {
	t.Helper()
	happened := &eventsv1.EventList{}
	require.NoError(t, r.admin.List(t.Context(), happened, client.InNamespace(mine.namespace)))
	probed := 0
	for _, e := range happened.Items {
		if strings.Contains(e.Note, "The module has tried something.") {
			probed++
			require.True(t, strings.HasPrefix(e.Regarding.Name, "probe-"), "an event is on the owner: %+v", e.Regarding)
		}
	}
	require.Positive(t, probed)
	maps := &corev1.ConfigMapList{}
	require.NoError(t, r.admin.List(t.Context(), maps, client.InNamespace(mine.namespace)))
	for _, m := range maps.Items {
		require.NotContains(t, fmt.Sprint(m.Data), theirs.mark(), "ConfigMap %s", m.Name)
	}
}

// requireOwnIdentity checks whose rights were used: in a party's namespace those of a
// party, and the operator's own for its own objects and for metadata only.
func (r *rig) requireOwnIdentity(t *testing.T, since int, both []*party) {
	t.Helper()
	refused := map[string]int{}
	for _, request := range r.requests.since(since) {
		for i, p := range both {
			if !strings.Contains(request, "/namespaces/"+p.namespace+"/") {
				continue
			}
			switch other := both[1-i]; {
			case strings.HasSuffix(request, " system:serviceaccount:"+p.namespace+":builder"):
			case strings.HasSuffix(request, " system:serviceaccount:"+other.namespace+":builder"):
				refused[p.prefix]++
			default:
				require.Regexp(t, `/apis/(caisson\.dev|events\.k8s\.io)/`, request, "with the operator's own rights")
			}
		}
	}
	require.Equal(t, []string{"left", "right"}, slices.Sorted(maps.Keys(refused)), "each was asked for as the other")
}

// requireNothingPlanted looks everywhere else.
func (r *rig) requireNothingPlanted(t *testing.T) {
	t.Helper()
	for _, list := range []client.ObjectList{
		&rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{}, &rbacv1.RoleBindingList{}, &corev1.NamespaceList{},
		&corev1.ConfigMapList{}, &corev1.SecretList{}, &corev1.PodList{},
	} {
		require.NoError(t, r.admin.List(t.Context(), list))
		for _, name := range names(list) {
			require.NotContains(t, name, "planted")
		}
	}
	crds := &metav1.PartialObjectMetadataList{}
	crds.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinitionList"))
	require.NoError(t, r.admin.List(t.Context(), crds))
	for _, crd := range crds.Items {
		require.NotContains(t, crd.Name, "planted")
	}
}
