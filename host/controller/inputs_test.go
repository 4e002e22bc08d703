package controller

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

func record(kind, name, version string) v1alpha1.InputRecord {
	return v1alpha1.InputRecord{Scope: scope.HomeID, Kind: kind, Namespace: "team", Name: name, ResourceVersion: version, Absent: version == ""}
}

func TestInputSet(t *testing.T) {
	s := newInputSet(func(r v1alpha1.InputRecord) string { return "own version of " + r.Name })
	for _, i := range []provisioner.Input{
		secretInput("b", "2"),
		secretInput("a", "1"),
		secretInput("a", "9"),
		secretInput("absent", ""),
		{ScopeID: scope.HomeID, Kind: inputModule, Name: "cilium", Version: "sha256:1"},
		{ScopeID: scope.HomeID, Kind: inputApplication, Name: "metrics", Version: "7"},
		{ScopeID: "remote", Kind: inputSecret, Namespace: "team", Name: "a", Version: "5"},
	} {
		s.RecordInput(i)
	}
	require.Equal(t, []v1alpha1.InputRecord{
		{Scope: scope.HomeID, Kind: inputApplication, Name: "metrics", ResourceVersion: "own version of metrics"},
		{Scope: scope.HomeID, Kind: inputModule, Name: "cilium", ResourceVersion: "own version of cilium"},
		record(inputSecret, "a", "1"),
		record(inputSecret, "absent", ""),
		record(inputSecret, "b", "2"),
		{Scope: "remote", Kind: inputSecret, Namespace: "team", Name: "a", ResourceVersion: "5"},
	}, s.sorted(), "sorted, each object once with what was read first, and one name in two scopes is two objects")
}

func TestInputSetWithoutVersions(t *testing.T) {
	s := newInputSet(nil)
	s.RecordInput(provisioner.Input{ScopeID: scope.HomeID, Kind: inputModule, Name: "cilium", Version: "sha256:1"})
	require.Equal(t, "sha256:1", s.sorted()[0].ResourceVersion)
}

func TestMergeInputs(t *testing.T) {
	a1, a2, b1, c1 := record(inputSecret, "a", "1"), record(inputSecret, "a", "2"), record(inputSecret, "b", "1"), record(inputSecret, "c", "1")
	cases := map[string]struct {
		reason               string
		previous, read, want []v1alpha1.InputRecord
	}{
		"nothing":   {reason: "nothing to merge"},
		"not read":  {reason: "a node that was not reached still depends on it", previous: []v1alpha1.InputRecord{a1, b1}, read: []v1alpha1.InputRecord{c1}, want: []v1alpha1.InputRecord{a1, b1, c1}},
		"read anew": {reason: "what was read now counts", previous: []v1alpha1.InputRecord{a1}, read: []v1alpha1.InputRecord{a2}, want: []v1alpha1.InputRecord{a2}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			previous, read := slices.Clone(c.previous), slices.Clone(c.read)
			require.Equal(t, c.want, mergeInputs(c.previous, c.read), c.reason)
			require.Equal(t, previous, c.previous, "the arguments are left alone")
			require.Equal(t, read, c.read, "the arguments are left alone")
		})
	}
}

// TestInputsDigest: every field of a record counts, and no two lists look alike because
// of where a name ends.
func TestInputsDigest(t *testing.T) {
	base := v1alpha1.InputRecord{Scope: "home", Kind: "Secret", Namespace: "a", Name: "b", ResourceVersion: "1"}
	change := func(f func(*v1alpha1.InputRecord)) []v1alpha1.InputRecord {
		r := base
		f(&r)
		return []v1alpha1.InputRecord{r}
	}
	lists := map[string][]v1alpha1.InputRecord{
		"none": nil, "base": {base}, "twice": {base, base},
		"scope":     change(func(r *v1alpha1.InputRecord) { r.Scope = "x" }),
		"kind":      change(func(r *v1alpha1.InputRecord) { r.Kind = "ConfigMap" }),
		"namespace": change(func(r *v1alpha1.InputRecord) { r.Namespace = "a b" }),
		"name":      change(func(r *v1alpha1.InputRecord) { r.Name = "c" }),
		"absent":    change(func(r *v1alpha1.InputRecord) { r.Absent = true }),
		"version":   change(func(r *v1alpha1.InputRecord) { r.ResourceVersion = "2" }),
		"shifted":   change(func(r *v1alpha1.InputRecord) { r.Namespace, r.Name = `a" "b`, "" }),
	}
	seen := map[string]string{}
	for name, list := range lists {
		digest := inputsDigest(list)
		require.Equal(t, digest, inputsDigest(slices.Clone(list)))
		require.True(t, strings.HasPrefix(digest, "sha256:"))
		require.Empty(t, seen[digest], "%s and %s", name, seen[digest])
		seen[digest] = name
	}
}

// TestInputSetHammer records from many nodes at once; the result does not depend on who
// was first.
func TestInputSetHammer(t *testing.T) {
	const nodes, objects = 16, 50
	s := newInputSet(func(v1alpha1.InputRecord) string { return "v" })
	var wg sync.WaitGroup
	for range nodes {
		order := rand.Perm(objects)
		wg.Go(func() {
			for _, i := range order {
				s.RecordInput(secretInput(fmt.Sprintf("secret-%03d", i), "1"))
				_ = s.sorted()
			}
		})
	}
	wg.Wait()
	records := s.sorted()
	require.Len(t, records, objects)
	require.True(t, slices.IsSortedFunc(records, func(a, b v1alpha1.InputRecord) int { return strings.Compare(a.Name, b.Name) }))
}

// TestCurrentInputs: what a tree records of an object equals what is found later, so that
// an unchanged object is no change.
func TestCurrentInputs(t *testing.T) {
	module := &v1alpha1.Module{ObjectMeta: metav1.ObjectMeta{Name: "cilium", Generation: 3}}
	app := &v1alpha1.Application{ObjectMeta: metav1.ObjectMeta{Name: "metrics", UID: "app-uid", Generation: 2}}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "values"}}
	w := newWorld(t, newSecret("token"), module, app, config)
	ctx := t.Context()

	recorded := []v1alpha1.InputRecord{
		{Scope: scope.HomeID, Kind: inputApplication, Name: "metrics"},
		{Scope: scope.HomeID, Kind: inputApplication, Name: "nowhere"},
		record(inputConfigMap, "values", "x"),
		{Scope: scope.HomeID, Kind: inputModule, Name: "cilium"},
		{Scope: scope.HomeID, Kind: inputModule, Name: "nowhere"},
		record(inputSecret, "nowhere", "5"),
		record(inputSecret, "token", "x"),
		{Scope: scope.HomeID, Kind: "Unheard", Name: "of", ResourceVersion: "as recorded"},
		{Scope: "remote", Kind: inputSecret, Namespace: "team", Name: "token", ResourceVersion: "as recorded"},
	}
	current, err := w.currentInputs(ctx, recorded)
	require.NoError(t, err)
	secretVersion := w.versionOfSecret("token")
	require.Equal(t, []v1alpha1.InputRecord{
		{Scope: scope.HomeID, Kind: inputApplication, Name: "metrics", ResourceVersion: "app-uid/2"},
		{Scope: scope.HomeID, Kind: inputApplication, Name: "nowhere", Absent: true},
		record(inputConfigMap, "values", "999"),
		{Scope: scope.HomeID, Kind: inputModule, Name: "cilium", ResourceVersion: "/3/not-ready"},
		{Scope: scope.HomeID, Kind: inputModule, Name: "nowhere", Absent: true},
		record(inputSecret, "nowhere", ""),
		record(inputSecret, "token", secretVersion),
		{Scope: scope.HomeID, Kind: "Unheard", Name: "of", ResourceVersion: "as recorded"},
		{Scope: "remote", Kind: inputSecret, Namespace: "team", Name: "token", ResourceVersion: "as recorded"},
	}, current)

	set := newInputSet(func(r v1alpha1.InputRecord) string {
		version, err := w.versionOf(ctx, r)
		if err != nil {
			return ""
		}
		return version
	})
	set.RecordInput(secretInput("token", secretVersion))
	set.RecordInput(secretInput("nowhere", ""))
	set.RecordInput(provisioner.Input{ScopeID: scope.HomeID, Kind: inputModule, Name: "cilium", Version: "sha256:1"})
	set.RecordInput(provisioner.Input{ScopeID: scope.HomeID, Kind: inputModule, Name: "nowhere", Absent: true})
	set.RecordInput(provisioner.Input{ScopeID: scope.HomeID, Kind: inputApplication, Name: "metrics", Version: "1"})
	set.RecordInput(provisioner.Input{ScopeID: scope.HomeID, Kind: inputApplication, Name: "nowhere", Absent: true})
	again, err := w.currentInputs(ctx, set.sorted())
	require.NoError(t, err)
	require.Equal(t, set.sorted(), again)
}
