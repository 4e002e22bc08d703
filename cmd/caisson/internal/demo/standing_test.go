package demo

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestChanges(t *testing.T) {
	cases := map[string]struct {
		reason        string
		before, after standing
		want          []string
	}{
		"Nothing":  {reason: "the same", before: standing{"a": {uid: "1"}}, after: standing{"a": {uid: "1"}}},
		"Added":    {reason: "an orphan", before: standing{}, after: standing{"a": {}}, want: []string{"+ a"}},
		"Removed":  {reason: "something is lost", before: standing{"a": {}}, after: standing{}, want: []string{"- a"}},
		"Replaced": {reason: "the same name, another object", before: standing{"a": {uid: "1"}}, after: standing{"a": {uid: "2"}}, want: []string{"! a"}},
		"Changed":  {reason: "the same object, another spec", before: standing{"a": {uid: "1", generation: 1}}, after: standing{"a": {uid: "1", generation: 2}}, want: []string{"~ a"}},
		"Sorted":   {reason: "for a reader", before: standing{"c": {}, "b": {}}, after: standing{"d": {}, "a": {}}, want: []string{"- b", "- c", "+ a", "+ d"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, changes(tc.before, tc.after), tc.reason) })
	}
}

func TestSettled(t *testing.T) {
	before := standing{
		"workload: Secret/kube-system/sh.helm.release.v1.cni.v1":     {uid: "1"},
		"workload: Deployment/kube-system/cilium-operator":           {uid: "2", generation: 1},
		"home: Stack/platform/platform":                              {uid: "3", generation: 1},
		"workload: Secret/kube-system/sh.helm.release.v1.other.v1.x": {uid: "4"},
	}
	after := standing{
		"workload: Secret/kube-system/sh.helm.release.v1.cni.v2":     {uid: "5"},
		"workload: Deployment/kube-system/cilium-operator":           {uid: "2", generation: 7},
		"home: Stack/platform/platform":                              {uid: "3", generation: 9},
		"workload: Secret/kube-system/sh.helm.release.v1.other.v1.x": {uid: "4"},
	}
	require.Empty(t, changes(before.settled(), after.settled()), "an upgrade in place is no change")
	require.NotEmpty(t, changes(before, after))

	after["workload: Secret/kube-system/sh.helm.release.v1.cni-2.v1"] = identity{}
	require.Equal(t, []string{"+ workload: Secret/kube-system/sh.helm.release.v1.cni-2"}, changes(before.settled(), after.settled()), "a second release is one")

	replaced := standing{"workload: Deployment/kube-system/cilium-operator": {uid: "9"}}
	only := before.without(func(name string) bool { return name != "workload: Deployment/kube-system/cilium-operator" })
	require.Equal(t, []string{"! workload: Deployment/kube-system/cilium-operator"}, changes(only.settled(), replaced.settled()))
	require.Empty(t, changes(only.names(), replaced.names()), "unless only the names are asked for")
}

// record is Helm's of a revision.
func record(name, version, status string) corev1.Secret {
	return corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: "kube-system", Name: "sh.helm.release.v1." + name + ".v" + version,
		Labels: map[string]string{"owner": "helm", "name": name, "version": version, "status": status},
	}}
}

func TestDeployedOnce(t *testing.T) {
	cases := map[string]struct {
		reason  string
		records []corev1.Secret
		want    map[string]string
		err     string
	}{
		"Upgraded": {
			reason: "the last one counts", records: []corev1.Secret{record("a", "1", "superseded"), record("a", "2", "deployed"), record("b", "1", "deployed")},
			want: map[string]string{"kube-system/a": "2", "kube-system/b": "1"},
		},
		"None":    {reason: "nothing is nothing", want: map[string]string{}},
		"Twice":   {reason: "two processes at once", records: []corev1.Secret{record("a", "1", "deployed"), record("a", "2", "deployed")}, err: "release kube-system/a is deployed as revisions 1 and 2"},
		"Locked":  {reason: "what was cut off was not taken up", records: []corev1.Secret{record("a", "1", "deployed"), record("a", "2", "pending-upgrade")}, err: "revision 2 of release kube-system/a is pending-upgrade"},
		"Failed":  {reason: "and never repeated", records: []corev1.Secret{record("a", "1", "failed")}, err: "no revision of release kube-system/a is deployed"},
		"Removed": {reason: "a removal that did not end", records: []corev1.Secret{record("a", "1", "uninstalling")}, err: "no revision of release kube-system/a is deployed"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := deployedOnce(tc.records)
			if tc.err != "" {
				require.EqualError(t, err, tc.err, tc.reason)
				return
			}
			require.NoError(t, err, tc.reason)
			require.Equal(t, tc.want, got, tc.reason)
		})
	}
}

// inventoryOf is the Secret that lists what an owner has installed.
func inventoryOf(owner string, applications ...string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: inventoryPrefix + owner}, Data: map[string][]byte{"state.x": nil}}
	for _, a := range applications {
		s.Data["application."+a] = []byte("{}")
	}
	return s
}

func TestUnharmed(t *testing.T) {
	first, second := record("a", "1", "deployed"), record("a", "2", "deployed")
	cases := map[string]struct {
		reason string
		change func(t *testing.T, d *demo)
		want   string
	}{
		"Same":    {reason: "nothing was done", change: func(*testing.T, *demo) {}},
		"Orphan":  {reason: "something is there that nobody lists", change: func(t *testing.T, d *demo) { put(t, d.workload, configMap("kube-system", "x"), true) }, want: "+ workload: ConfigMap/kube-system/x"},
		"Lost":    {reason: "something that was there is not", change: func(t *testing.T, d *demo) { put(t, d.workload, configMap("kube-system", "kept"), false) }, want: "- workload: ConfigMap/kube-system/kept"},
		"Entry":   {reason: "an entry of the inventory is lost", change: func(t *testing.T, d *demo) { put(t, d.home, inventoryOf("o"), true) }, want: "- home: entry caisson-inventory-o/application.a"},
		"Doubled": {reason: "the same release twice", change: func(t *testing.T, d *demo) { put(t, d.workload, &second, true) }, want: "deployed as revisions"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := quietly(t, inventoryOf("o", "a"))
			d.home = discoverable(t, d.home)
			d.workload = discoverable(t, fakeCluster(t, "workload", interceptor.Funcs{}, first.DeepCopy(), configMap("kube-system", "kept")))
			before, err := d.standing(t.Context())
			require.NoError(t, err)
			tc.change(t, d)
			err = d.unharmed(t.Context(), before, "")
			if tc.want == "" {
				require.NoError(t, err, tc.reason)
				return
			}
			require.ErrorContains(t, err, tc.want, tc.reason)
		})
	}
}

func TestUnharmedCountsEntries(t *testing.T) {
	d := quietly(t, inventoryOf("o", "a", "b"))
	d.home = discoverable(t, d.home)
	only := record("a", "1", "deployed")
	d.workload = discoverable(t, fakeCluster(t, "workload", interceptor.Funcs{}, &only))
	before, err := d.standing(t.Context())
	require.NoError(t, err)
	require.ErrorContains(t, d.unharmed(t.Context(), before, ""), "the inventories list 2 applications, and there are 1 releases")
}

func TestReleasesFails(t *testing.T) {
	refused := errors.New("refused")
	c := fakeCluster(t, "workload", interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return refused }})
	_, err := c.releases(t.Context())
	require.ErrorIs(t, err, refused)
}

func TestChurn(t *testing.T) {
	for _, kind := range []string{"Pod", "ReplicaSet", "ControllerRevision", "Endpoints", "EndpointSlice"} {
		require.True(t, churn(kind), kind)
	}
	for _, kind := range []string{"Deployment", "Secret", "Service", "Namespace"} {
		require.False(t, churn(kind), kind)
	}
}
