package abi_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
)

func TestDispositions(t *testing.T) {
	for code, name := range []string{"OK", "Yield", "Retry", "UserActionRequired", "Terminal"} {
		d := abi.Disposition(code)
		require.True(t, d.Valid())
		require.Equal(t, name, d.String(), "numbers and names are the contract")
	}
	for _, code := range []abi.Disposition{-1, 5, 7, 1 << 30} {
		require.False(t, code.Valid())
		require.Equal(t, "Disposition("+strconv.Itoa(int(code))+")", code.String())
	}
}

func TestFunctions(t *testing.T) {
	names := make([]string, 0, 9)
	for _, f := range abi.Functions() {
		require.True(t, f.Known())
		names = append(names, string(f))
	}
	require.Equal(t, "app_ensure app_remove app_list kube_get kube_list kube_apply kube_delete secret_read event", strings.Join(names, " "))
	for _, f := range []abi.Function{"", "App_ensure", "http_request", "app_ensure "} {
		require.False(t, f.Known(), "%q", f)
	}
}

func TestNamesOfTheBoundary(t *testing.T) {
	require.Equal(t, 1, abi.Version)
	require.Equal(t, "caisson.manifest", abi.ManifestSection)
	require.Equal(t, []string{"describe", "provision", "deprovision"}, []string{abi.ExportDescribe, abi.ExportProvision, abi.ExportDeprovision})
	require.Equal(t, []string{"extism:host/env", "extism:host/user", "wasi_snapshot_preview1"}, []string{abi.ImportEnv, abi.ImportUser, abi.ImportWASI})
	require.Equal(t, []abi.Teardown{"Drain", "Discard", "Orphan"}, []abi.Teardown{abi.Drain, abi.Discard, abi.Orphan})
	require.Equal(t, []abi.ScopeState{"ready", "pending", "gone"}, []abi.ScopeState{abi.ScopeReady, abi.ScopePending, abi.ScopeGone})
}

func TestCallError(t *testing.T) {
	var err error = &abi.CallError{Code: abi.CodeAbsent}
	require.EqualError(t, err, "absent")
	err = errors.Join(&abi.CallError{Code: abi.CodeDenied, Message: "not granted"})
	var ce *abi.CallError
	require.ErrorAs(t, err, &ce)
	require.EqualError(t, ce, "denied: not granted")
}

func TestHostReasons(t *testing.T) {
	seen := map[string]string{}
	for _, r := range abi.HostReasons() {
		require.True(t, abi.ValidReason(r.Code), "%q", r.Code)
		require.NotContains(t, seen, r.Code)
		seen[r.Code] = r.Sentence
		require.LessOrEqual(t, len(r.Sentence), abi.MaxSentenceBytes, r.Code)
		require.Regexp(t, `^[A-Z][^\n]*\.$`, r.Sentence, "%s: a sentence is shown to people", r.Code)
		got, ok := abi.HostSentence(r.Code)
		require.True(t, ok)
		require.Equal(t, r.Sentence, got)
	}
	_, ok := abi.HostSentence("made_up")
	require.False(t, ok)
	for name, code := range reasonConstants(t) {
		require.Contains(t, seen, code, "%s has no sentence", name)
		delete(seen, code)
	}
	require.Empty(t, seen, "a sentence without a constant")
}

// reasonConstants reads the Reason… constants out of the source: nothing else knows all
// of them.
func reasonConstants(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "reason.go", nil, 0)
	require.NoError(t, err)
	found := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Reason") {
			return true
		}
		if literal, ok := spec.Values[0].(*ast.BasicLit); ok && literal.Kind == token.STRING {
			code, err := strconv.Unquote(literal.Value)
			require.NoError(t, err)
			found[spec.Names[0].Name] = code
		}
		return true
	})
	require.NotEmpty(t, found)
	return found
}

func TestValidReason(t *testing.T) {
	pattern := regexp.MustCompile(abi.ReasonPattern)
	for _, code := range []string{
		"", "a", "a_1", "_a", "1a", "A", "aB", "a-b", "a b", "ä", "a\n", "a\x00",
		strings.Repeat("a", 63), strings.Repeat("a", 64), "quota_exceeded", "Please pay",
	} {
		require.Equal(t, pattern.MatchString(code), abi.ValidReason(code), "%q", code)
	}
}

func FuzzValidReason(f *testing.F) {
	for _, seed := range []string{"", "a", "quota_exceeded", "A", "é", "a\n"} {
		f.Add(seed)
	}
	pattern := regexp.MustCompile(abi.ReasonPattern)
	f.Fuzz(func(t *testing.T, code string) {
		require.Equal(t, pattern.MatchString(code), abi.ValidReason(code), "%q", code)
	})
}

// A module can give the host's reasons, but not its verdicts on modules.
func TestGivenSentence(t *testing.T) {
	verdicts := abi.VerdictReasons()
	for _, r := range abi.HostReasons() {
		sentence, ok := abi.GivenSentence(r.Code)
		if slices.Contains(verdicts, r.Code) {
			require.False(t, ok, r.Code)
			verdicts = slices.DeleteFunc(verdicts, func(code string) bool { return code == r.Code })
			continue
		}
		require.True(t, ok, r.Code)
		require.Equal(t, r.Sentence, sentence)
		require.NotContains(t, r.Code, "module_", "whatever is of a module is a verdict on it")
	}
	require.Empty(t, verdicts, "a verdict that is no reason")
	_, ok := abi.GivenSentence("made_up")
	require.False(t, ok)
}
