package abi_test

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
)

// specTypes are the types that examples in SPEC.md may be of.
func specTypes() map[string]reflect.Type {
	types := map[string]reflect.Type{}
	for _, v := range []any{
		abi.Input{}, abi.Output{}, abi.Manifest{}, abi.Response{}, abi.AppSpec{}, abi.AppRef{}, abi.AppStatus{}, abi.AppListRequest{}, abi.AppListResult{},
		abi.KubeGetRequest{}, abi.KubeGetResult{}, abi.KubeListRequest{}, abi.KubeListResult{}, abi.KubeApplyRequest{}, abi.KubeApplyResult{},
		abi.KubeDeleteRequest{}, abi.KubeDeleteResult{}, abi.SecretReadRequest{}, abi.SecretReadResult{}, abi.EventRequest{}, abi.EventResult{},
	} {
		types[reflect.TypeOf(v).String()] = reflect.TypeOf(v)
	}
	return types
}

func spec(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("SPEC.md")
	require.NoError(t, err)
	return string(text)
}

// section returns the text below a heading of the second level.
func section(t *testing.T, title string) string {
	t.Helper()
	_, after, found := strings.Cut(spec(t), "\n## "+title+"\n")
	require.True(t, found, "SPEC.md has no section %q", title)
	before, _, _ := strings.Cut(after, "\n## ")
	return before
}

// rows returns the cells of all table rows, without headings, in a text.
func rows(text string) [][]string {
	var found [][]string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		var cells []string
		for cell := range strings.SplitSeq(strings.Trim(line, "|"), " | ") {
			cells = append(cells, strings.Trim(strings.TrimSpace(cell), "`"))
		}
		found = append(found, cells)
	}
	return found
}

func TestSpecExamplesAreOfTheirTypes(t *testing.T) {
	example := regexp.MustCompile("(?s)(?:<!-- ([A-Za-z.]+) -->\n)?```json\n(.*?)```")
	seen := map[string]bool{}
	for _, m := range example.FindAllStringSubmatch(spec(t), -1) {
		require.Contains(t, specTypes(), m[1], "every example names its type:\n%s", m[2])
		seen[m[1]] = true
		d := json.NewDecoder(strings.NewReader(m[2]))
		d.DisallowUnknownFields()
		value := reflect.New(specTypes()[m[1]])
		require.NoError(t, d.Decode(value.Interface()), "%s:\n%s", m[1], m[2])
		if m[1] == "abi.Manifest" {
			require.NoError(t, value.Interface().(*abi.Manifest).Validate())
		}
	}
	require.Len(t, seen, len(specTypes()), "every type has an example")
}

func TestSpecExamplesShowEveryField(t *testing.T) {
	text := spec(t)
	for name, typ := range specTypes() {
		for _, field := range reflect.VisibleFields(typ) {
			tag, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if tag == "" {
				continue
			}
			require.True(t, strings.Contains(text, `"`+tag+`"`) || strings.Contains(text, "`"+tag+"`"), "%s.%s is not in SPEC.md", name, field.Name)
		}
	}
}

func TestSpecReasons(t *testing.T) {
	var want [][]string
	for _, r := range abi.HostReasons() {
		want = append(want, []string{r.Code, r.Sentence})
	}
	text := section(t, "9. Reasons of the host's own")
	require.Equal(t, want, rows(text), "the table is HostReasons(), in its order")
	head, _, _ := strings.Cut(text, "|")
	named := map[string]bool{}
	for _, code := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(head, -1) {
		named[code[1]] = true
	}
	for _, r := range abi.HostReasons() {
		_, given := abi.GivenSentence(r.Code)
		require.Equal(t, !given, named[r.Code] || strings.HasPrefix(r.Code, "module_"), r.Code)
	}
}

func errorCodes() []abi.ErrorCode {
	return []abi.ErrorCode{abi.CodeInvalid, abi.CodeDenied, abi.CodeForbidden, abi.CodeAbsent, abi.CodeConflict, abi.CodeTooLarge, abi.CodeUnavailable, abi.CodeUnsupported}
}

func TestSpecFunctionsAndCodes(t *testing.T) {
	functions, rest, _ := strings.Cut(section(t, "7. Host functions"), "There are no others.")
	var names []abi.Function
	for _, row := range rows(functions) {
		names = append(names, abi.Function(row[0]))
		require.Equal(t, row[0], row[1], "function, capability and import have one name")
	}
	require.Equal(t, abi.Functions(), names)

	codes, matrix, found := strings.Cut(rest, "Which function answers which of them")
	require.True(t, found)
	var listed []abi.ErrorCode
	for _, row := range rows(codes) {
		listed = append(listed, abi.ErrorCode(row[0]))
		for _, verdict := range regexp.MustCompile("([A-Z][A-Za-z]+) `([a-z_]+)`").FindAllStringSubmatch(row[2]+"`", -1) {
			require.Contains(t, []string{"Retry", "Yield", "UserActionRequired"}, verdict[1])
			_, own := abi.HostSentence(verdict[2])
			require.True(t, own, "%s is a reason of the host's own", verdict[2])
		}
	}
	require.Equal(t, errorCodes(), listed)

	names = nil
	for _, row := range rows(matrix) {
		names = append(names, abi.Function(row[0]))
		for _, code := range regexp.MustCompile("[a-z_]+").FindAllString(row[1], -1) { // a dash is none
			require.Contains(t, errorCodes(), abi.ErrorCode(code), "%s", row[0])
		}
	}
	require.Equal(t, abi.Functions(), names)
}

// TestSpecListsEveryConstant reads the constants from the source, so that a new one cannot
// be forgotten in the lists above.
func TestSpecListsEveryConstant(t *testing.T) {
	source, err := os.ReadFile("response.go")
	require.NoError(t, err)
	var all []abi.ErrorCode
	for _, m := range regexp.MustCompile(`Code\w+ +ErrorCode = "(\w+)"`).FindAllStringSubmatch(string(source), -1) {
		all = append(all, abi.ErrorCode(m[1]))
	}
	require.Equal(t, all, errorCodes())

	reasons, err := os.ReadFile("reason.go")
	require.NoError(t, err)
	require.Len(t, regexp.MustCompile(`(?m)^\tReason\w+ += "`).FindAllString(string(reasons), -1), len(abi.HostReasons()))
}

func TestSpecManifestSection(t *testing.T) {
	text := section(t, "2. The file")
	require.Contains(t, text, "| 16 | `"+abi.ManifestSection+"` in ASCII |")
	require.Len(t, abi.ManifestSection, 16)
	require.Contains(t, text, "at most 256 KiB", "wasmfile.MaxManifestBytes; see the test of that package")
}

func TestSpecSchemas(t *testing.T) {
	entries, err := os.ReadDir("schema")
	require.NoError(t, err)
	require.Len(t, entries, 4+2*len(abi.Functions()), "input, output, manifest, error, and two for each function, as the introduction says")
}

func TestSpecDispositions(t *testing.T) {
	text := section(t, "6. The answer")
	for d := abi.OK; d.Valid(); d++ {
		require.Regexp(t, `(?m)^\| `+string('0'+rune(d))+` \| `+d.String()+` \|`, text)
	}
}

func TestSpecNamesTheConstants(t *testing.T) {
	text := spec(t)
	for _, name := range []string{
		abi.ManifestSection, abi.ExportDescribe, abi.ExportProvision, abi.ExportDeprovision, abi.ImportEnv, abi.ImportUser, abi.ImportWASI,
		string(abi.Drain), string(abi.Discard), string(abi.Orphan), string(abi.ScopeReady), string(abi.ScopePending), string(abi.ScopeGone),
		string(abi.ScopeCurrent), string(abi.ScopeHome), string(abi.EncodingBase64), abi.ReasonPattern,
		string(abi.AppReady), string(abi.AppProgressing), string(abi.AppBlocked), string(abi.AppFailed), string(abi.AppDeleting), string(abi.AppGone),
	} {
		require.Contains(t, text, "`"+name+"`", "SPEC.md does not mention %s", name)
	}
}

// TestSpecTablesAreWellFormed keeps the page readable where it is rendered.
func TestSpecTablesAreWellFormed(t *testing.T) {
	columns := 0
	for number, line := range bytes.Split([]byte(spec(t)), []byte("\n")) {
		if !bytes.HasPrefix(line, []byte("|")) {
			columns = 0
			continue
		}
		n := bytes.Count(line, []byte("|"))
		if columns != 0 {
			require.Equal(t, columns, n, "line %d: %s", number+1, line)
		}
		columns = n
	}
}
