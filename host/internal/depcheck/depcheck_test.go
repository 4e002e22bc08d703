package depcheck

import (
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// repository is the root of the repository, seen from this package.
const repository = "../../.."

func TestRepository(t *testing.T) {
	root := os.DirFS(repository)
	_, err := root.Open("go.work")
	require.NoError(t, err, "the root of the repository must be found")
	violations, err := Check(root, Rules())
	require.NoError(t, err)
	for _, violation := range violations {
		t.Error(violation)
	}
}

// file is the source of a Go file with imports.
func file(imports ...string) *fstest.MapFile {
	source := "package x\n"
	for _, imported := range imports {
		source += "import _ \"" + imported + "\"\n"
	}
	return &fstest.MapFile{Data: []byte(source)}
}

func TestCheck(t *testing.T) {
	const k8s, wazero = "k8s.io/api/core/v1", "github.com/tetratelabs/wazero/api"
	ours := func(directory string) string { return Module + "/" + directory }
	for name, tc := range map[string]struct {
		reason string
		files  fstest.MapFS
		want   []string // file and import
	}{
		"Clean": {
			reason: "what the table allows is no violation",
			files: fstest.MapFS{
				"host/sandbox/a.go":             file("context", "net/http", wazero, ours("abi")),
				"host/plan/a.go":                file("github.com/google/cel-go/cel", ours("host/provisioner/serial")),
				"host/plan/a_test.go":           file(testify+"/require", "sigs.k8s.io/controller-runtime/pkg/client/fake"),
				"guest-sdk/a.go":                file("github.com/extism/go-pdk", ours("abi")),
				"cmd/caisson-worker/main.go":    file(ours("host/sandbox")),
				"cmd/devcluster/klite/klite.go": file("k8s.io/kubernetes/pkg/controlplane"),
			},
		},
		"External test package": {
			reason: "a test in a package of its own imports what it tests",
			files:  fstest.MapFS{"abi/a_test.go": file(ours("abi"), testify+"/assert")},
		},
		"Kubernetes in the sandbox": {
			reason: "the sandbox must not know Kubernetes, in tests neither",
			files:  fstest.MapFS{"host/sandbox/a.go": file(k8s), "host/sandbox/a_test.go": file(k8s)},
			want:   []string{"host/sandbox/a.go " + k8s, "host/sandbox/a_test.go " + k8s},
		},
		"Engine elsewhere": {
			reason: "each engine has one importer",
			files: fstest.MapFS{
				"host/a.go":             file(wazero),
				"host/plan/a.go":        file(wazero),
				"host/controller/a.go":  file("helm.sh/helm/v4/pkg/action"),
				"host/cd/helm/a.go":     file("github.com/google/cel-go/cel"),
				"cmd/caisson/a.go":      file("oras.land/oras-go/v2"),
				"host/capability/a.go":  file("github.com/google/go-containerregistry/pkg/v1"),
				"host/provisioner/a.go": file("github.com/sigstore/sigstore-go/pkg/verify"),
			},
			want: []string{
				"cmd/caisson/a.go oras.land/oras-go/v2",
				"host/a.go " + wazero,
				"host/capability/a.go github.com/google/go-containerregistry/pkg/v1",
				"host/cd/helm/a.go github.com/google/cel-go/cel",
				"host/controller/a.go helm.sh/helm/v4/pkg/action",
				"host/plan/a.go " + wazero,
				"host/provisioner/a.go github.com/sigstore/sigstore-go/pkg/verify",
			},
		},
		"Extism's host": {
			reason: "nobody imports the Extism SDK for hosts",
			files:  fstest.MapFS{"host/sandbox/a.go": file("github.com/extism/go-sdk"), "guest-sdk/a_test.go": file("github.com/extism/go-sdk")},
			want:   []string{"guest-sdk/a_test.go github.com/extism/go-sdk", "host/sandbox/a.go github.com/extism/go-sdk"},
		},
		"Back edges": {
			reason: "what is below does not import what is above",
			files: fstest.MapFS{
				"host/scope/a.go":              file(ours("host/provisioner")),
				"host/provisioner/a.go":        file(ours("host/cd")),
				"host/provisioner/serial/a.go": file(ours("host/cd")),
				"host/plan/a.go":               file(ours("host/controller")),
				"host/cd/a.go":                 file(ours("host/cd/helm")),
				"abi/a.go":                     file(ours("host/scope")),
				"modules/cilium/main.go":       file(ours("host/sandbox")),
			},
			want: []string{
				"abi/a.go " + ours("host/scope"),
				"host/cd/a.go " + ours("host/cd/helm"),
				"host/plan/a.go " + ours("host/controller"),
				"host/provisioner/a.go " + ours("host/cd"),
				"host/provisioner/serial/a.go " + ours("host/cd"),
				"host/scope/a.go " + ours("host/provisioner"),
				"modules/cilium/main.go " + ours("host/sandbox"),
			},
		},
		"Testify in source": {
			reason: "testify is for tests",
			files:  fstest.MapFS{"abi/a.go": file(testify + "/require")},
			want:   []string{"abi/a.go " + testify + "/require"},
		},
		"Prefix of a name": {
			reason: "a module whose path only begins like an allowed one is another",
			files:  fstest.MapFS{"host/sandbox/a.go": file("github.com/tetratelabs/wazero-fork")},
			want:   []string{"host/sandbox/a.go github.com/tetratelabs/wazero-fork"},
		},
		"Uncovered": {
			reason: "a package without a rule is told once",
			files:  fstest.MapFS{"host/new/a.go": file(), "host/new/b.go": file("fmt"), "main.go": file()},
			want:   []string{"host/new ", ". "},
		},
		"Skipped": {
			reason: "what the go command ignores is ignored",
			files: fstest.MapFS{
				"abi/testdata/a.go": file(k8s), ".build/a.go": file(k8s), "_old/a.go": file(k8s), "vendor/a/a.go": file(k8s), "abi/a.txt": {Data: []byte("x")},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			violations, err := Check(tc.files, Rules())
			require.NoError(t, err)
			var got []string
			for _, v := range violations {
				got = append(got, v.File+" "+v.Import)
			}
			require.Equal(t, tc.want, got, tc.reason)
		})
	}
}

func TestCheckReportsWhatItCannotParse(t *testing.T) {
	_, err := Check(fstest.MapFS{"abi/a.go": {Data: []byte("pakcage x")}}, Rules())
	require.ErrorContains(t, err, "abi/a.go")
}

func TestViolationSaysWhatToChange(t *testing.T) {
	require.Equal(t, "a.go imports b; it may import c, d", Violation{File: "a.go", Import: "b", Allowed: []string{"c", "d"}}.String())
	require.Equal(t, "a.go imports b; it may import nothing but the standard library", Violation{File: "a.go", Import: "b"}.String())
	require.Contains(t, Violation{File: "host/new"}.String(), "no rule covers this package")
}

func TestLongestPatternCounts(t *testing.T) {
	rules := []Rule{
		{Packages: []string{"a/..."}, Others: []string{"wide"}},
		{Packages: []string{"a/b"}, Others: []string{"exact"}},
		{Packages: []string{"a/b/..."}, Others: []string{"deep"}},
	}
	for directory, want := range map[string]string{"a": "wide", "a/c": "wide", "a/b": "exact", "a/b/c": "deep"} {
		rule, ok := find(rules, directory)
		require.True(t, ok)
		require.Equal(t, []string{want}, rule.Others, directory)
	}
	_, ok := find(rules, "ab")
	require.False(t, ok)
}

// TestTable holds the table to what it promises, whoever edits it.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, rule := range Rules() {
		for _, pattern := range rule.Packages {
			require.False(t, seen[pattern], "%s has two rules", pattern)
			seen[pattern] = true
			for library, owner := range Owned() {
				allowed := slices.ContainsFunc(slices.Concat(rule.Others, rule.TestOthers), func(p string) bool { return within(p, library) })
				isOwner := within(owner, strings.TrimSuffix(pattern, "/..."))
				// The conformance module in Go tests what the PDK does.
				isConformance := pattern == "examples/module-go/conformance"
				if allowed && !isOwner && !isConformance && !isTestOf(rule, library) {
					t.Errorf("%s may import %s, which belongs to %s alone", pattern, library, owner)
				}
			}
		}
	}
}

// isTestOf reports whether only the tests of a rule may import a library: comparing a
// Stack with kstatus in a test is not depending on it.
func isTestOf(rule Rule, library string) bool {
	return !slices.ContainsFunc(rule.Others, func(p string) bool { return within(p, library) })
}

// TestEveryFileCounts proves that no way of writing or hiding an import escapes.
func TestEveryFileCounts(t *testing.T) {
	const forbidden = "k8s.io/api/core/v1"
	for name, source := range map[string]string{
		"other platform": "//go:build wasip1\n\npackage x\n\nimport _ \"" + forbidden + "\"\n",
		"never built":    "//go:build ignore\n\npackage main\n\nimport corev1 \"" + forbidden + "\"\n",
		"group":          "package x\n\nimport (\n\t\"fmt\"\n\n\tcorev1 \"" + forbidden + "\"\n)\n",
		"two groups":     "package x\n\nimport \"fmt\"\nimport (\n\t. \"" + forbidden + "\"\n)\n",
		"raw string":     "package x\n\nimport `" + forbidden + "`\n",
	} {
		t.Run(name, func(t *testing.T) {
			for _, file := range []string{"abi/a.go", "abi/a_windows.go", "abi/a_test.go"} {
				violations, err := Check(fstest.MapFS{file: {Data: []byte(source)}}, Rules())
				require.NoError(t, err)
				require.Len(t, violations, 1, file)
				require.Equal(t, forbidden, violations[0].Import)
				require.Equal(t, file, violations[0].File)
			}
		})
	}
}

// TestArchitecture spells out what the architecture forbids, package by package, so that
// a rule that was widened by mistake is noticed here.
func TestArchitecture(t *testing.T) {
	for _, tc := range []struct {
		reason    string
		directory string
		imports   []string
	}{
		{"the contract with guests depends on nothing", "abi", []string{Module + "/guest-sdk", "golang.org/x/sys/unix", "sigs.k8s.io/yaml"}},
		{"a module's author downloads two things", "guest-sdk", []string{Module + "/host/scope", "k8s.io/apimachinery/pkg/types", "sigs.k8s.io/yaml"}},
		{"a module knows its SDK alone", "modules/cilium", []string{"github.com/extism/go-pdk", Module + "/host/cd", "k8s.io/api/core/v1"}},
		{"a tree knows no driver, sandbox, registry or controller", "host/provisioner", []string{Module + "/host/cd/helm", Module + "/host/sandbox", Module + "/host/registry", Module + "/host/controller", Module + "/host/plan"}},
		{"nor does the module leaf", "host/provisioner/module", []string{Module + "/host/cd/helm", Module + "/host/sandbox", Module + "/host/registry", "github.com/tetratelabs/wazero"}},
		{"a combinator knows no other kind", "host/provisioner/serial", []string{Module + "/host/provisioner/concurrent", Module + "/host/cd"}},
		{"policy is pure", "host/capability", []string{Module + "/host/scope", "k8s.io/client-go/kubernetes"}},
		{"the sandbox does not know Kubernetes or the tree", "host/sandbox", []string{"k8s.io/apimachinery/pkg/types", "sigs.k8s.io/controller-runtime/pkg/client", Module + "/host/provisioner", Module + "/host/capability"}},
		{"the registry runs nothing and asks no cluster", "host/registry", []string{"github.com/tetratelabs/wazero", "k8s.io/client-go/kubernetes", Module + "/host/sandbox", Module + "/host/scope"}},
		{"the interface of drivers knows none of them", "host/cd", []string{Module + "/host/cd/helm", "helm.sh/helm/v4/pkg/action"}},
		{"a driver knows nothing above it", "host/cd/helm", []string{Module + "/host/plan", Module + "/host/controller", Module + "/host/provisioner/module", "github.com/argoproj/argo-cd"}},
		{"the planner calls no API", "host/plan", []string{"k8s.io/client-go/kubernetes", "sigs.k8s.io/controller-runtime", Module + "/host/controller", Module + "/host/cd/helm", Module + "/host/sandbox"}},
		{"a controller declares the interfaces that it needs", "host/controller", []string{Module + "/host/cd/helm", Module + "/host/sandbox", Module + "/host/registry", "github.com/google/cel-go/cel"}},
		{"the worker is the sandbox and nothing else", "cmd/caisson-worker", []string{Module + "/host", Module + "/abi", "github.com/spf13/cobra", "k8s.io/klog/v2"}},
		{"the control plane for tests is a program of its own", "cmd/devcluster", []string{Module + "/host/internal/testenv", Module + "/abi"}},
		{"the API is data", "host/api/v1alpha1", []string{"sigs.k8s.io/controller-runtime", Module + "/abi", Module + "/host/provisioner"}},
	} {
		rule, ok := find(Rules(), tc.directory)
		require.True(t, ok, tc.directory)
		for _, imported := range tc.imports {
			_, allowed := rule.allows(tc.directory, tc.directory+"/a.go", imported)
			require.False(t, allowed, "%s: %s must not import %s", tc.reason, tc.directory, imported)
		}
	}
}
