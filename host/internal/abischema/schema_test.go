package abischema

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/abi/abitest"
)

const abiDir = "../../../abi"

// schemas are the compiled schemas by name, without ".json".
func schemas(t *testing.T) map[string]*jsonschema.Schema {
	t.Helper()
	files, err := filepath.Glob(abiDir + "/schema/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	c := jsonschema.NewCompiler()
	all := map[string]*jsonschema.Schema{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
		require.NoError(t, err)
		require.Equal(t, "https://json-schema.org/draft/2020-12/schema", doc.(map[string]any)["$schema"])
		id := doc.(map[string]any)["$id"].(string)
		require.NoError(t, c.AddResource(id, doc))
		s, err := c.Compile(id) // checks it against the schema of schemas
		require.NoError(t, err, file)
		all[strings.TrimSuffix(filepath.Base(file), ".json")] = s
	}
	return all
}

func validate(s *jsonschema.Schema, document string) error {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(document))
	if err != nil {
		return err
	}
	return s.Validate(doc)
}

func TestVectorsAreValid(t *testing.T) {
	all := schemas(t)
	set, err := abitest.Vectors()
	require.NoError(t, err)
	for _, v := range set.Inputs {
		require.NoError(t, validate(all["input"], string(v.Envelope)), v.Name)
	}
	manifest, err := json.Marshal(set.Manifest)
	require.NoError(t, err)
	require.NoError(t, validate(all["manifest"], string(manifest)))
	for _, v := range set.Exchanges {
		require.NoError(t, validate(all[string(v.Function)+".request"], string(v.Request)), v.Name)
		require.NoError(t, validate(all[string(v.Function)+".answer"], string(v.Response)), v.Name)
	}
}

// TestOutputsAreJudgedAsByAHost: a host calls an output bad exactly if the schema does.
func TestOutputsAreJudgedAsByAHost(t *testing.T) {
	s := schemas(t)["output"]
	set, err := abitest.Vectors()
	require.NoError(t, err)
	bad := 0
	for _, v := range set.Answers {
		output := strings.TrimSpace(v.Output)
		if output == "" {
			output = "{}"
		}
		if v.Want.Reason != abi.ReasonModuleBadOutput {
			require.NoError(t, validate(s, output), "%s: %s", v.Name, v.Reason)
			continue
		}
		bad++
		require.Error(t, validate(s, output), "%s: %s", v.Name, v.Reason)
	}
	require.NotZero(t, bad)
}

func TestExamplesOfTheSpecAreValid(t *testing.T) {
	text, err := os.ReadFile(abiDir + "/SPEC.md")
	require.NoError(t, err)
	files := map[string]string{
		"abi.Input": "input", "abi.Output": "output", "abi.Manifest": "manifest",
		"abi.AppSpec": "app_ensure.request", "abi.AppRef": "app_remove.request", "abi.AppListRequest": "app_list.request",
		"abi.KubeGetRequest": "kube_get.request", "abi.KubeListRequest": "kube_list.request", "abi.KubeApplyRequest": "kube_apply.request",
		"abi.KubeDeleteRequest": "kube_delete.request", "abi.SecretReadRequest": "secret_read.request", "abi.EventRequest": "event.request",
		"abi.AppStatus": "app_ensure.answer", "abi.AppListResult": "app_list.answer", "abi.KubeGetResult": "kube_get.answer",
		"abi.KubeListResult": "kube_list.answer", "abi.KubeApplyResult": "kube_apply.answer", "abi.KubeDeleteResult": "kube_delete.answer",
		"abi.SecretReadResult": "secret_read.answer", "abi.EventResult": "event.answer", "abi.Response": "app_ensure.answer",
	}
	all := schemas(t)
	examples := regexp.MustCompile("(?s)<!-- (abi[A-Za-z.]+) -->\n```json\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, examples)
	for _, m := range examples {
		document := m[2]
		file, ok := files[m[1]]
		require.True(t, ok, m[1])
		if strings.HasSuffix(file, ".answer") && m[1] != "abi.Response" {
			document = `{"result": ` + document + `}`
		}
		require.NoError(t, validate(all[file], document), "%s:\n%s", m[1], m[2])
	}
}

func TestRefused(t *testing.T) {
	input := func(old, with string) string {
		const least = `{"abi":1,"operation":"provision","node":{"name":"n","path":"n"},"owner":{"apiVersion":"v","kind":"K","name":"o","uid":"u","generation":1},` +
			`"config":{},"scope":{"id":"home","remote":false,"state":"ready"},"teardown":"Drain","installed":false,"now":"2026-01-02T03:04:05Z","deadlineMillis":1}`
		return strings.Replace(least, old, with, 1)
	}
	manifest := func(more string) string { return `{"abi":1,"name":"m","version":"1.0.0"` + more + `}` }
	all := schemas(t)
	require.NoError(t, validate(all["input"], input("", "")))
	require.NoError(t, validate(all["manifest"], manifest("")))

	cases := map[string]struct {
		reason, schema, document string
	}{
		"InputVersion":        {"another version", "input", input(`"abi":1`, `"abi":2`)},
		"InputOperation":      {"another operation", "input", input(`"provision"`, `"describe"`)},
		"InputConfig":         {"a config that is no object", "input", input(`"config":{}`, `"config":[]`)},
		"InputNoNode":         {"a field that is always there", "input", input(`"node":{"name":"n","path":"n"},`, ``)},
		"InputGeneration":     {"a number as text", "input", input(`"generation":1`, `"generation":"1"`)},
		"InputNull":           {"null for a field", "input", input(`"teardown":"Drain"`, `"teardown":null`)},
		"InputFacts":          {"a list of facts", "input", input(`"installed":false`, `"installed":false,"facts":[]`)},
		"OutputFactName":      {"a fact without a name", "output", `{"facts":{"":1}}`},
		"OutputFactNameLong":  {"one with a long name", "output", `{"facts":{"` + strings.Repeat("a", 64) + `":1}}`},
		"OutputFactNameOdd":   {"one that ends with a dot", "output", `{"facts":{"a.":1}}`},
		"OutputHint":          {"a hint as text", "output", `{"retryAfterSeconds":"2"}`},
		"ManifestVersion":     {"a leading v", "manifest", strings.Replace(manifest(""), "1.0.0", "v1.0.0", 1)},
		"ManifestName":        {"no DNS label", "manifest", strings.Replace(manifest(""), `"m"`, `"M"`, 1)},
		"ManifestCapability":  {"a function that is none", "manifest", manifest(`,"capabilities":["kube_watch"]`)},
		"ManifestTwice":       {"a capability twice", "manifest", manifest(`,"capabilities":["event","event"]`)},
		"ManifestVerb":        {"a verb that is none", "manifest", manifest(`,"kube":[{"apiGroup":"","kinds":["Pod"],"verbs":["watch"]}]`)},
		"ManifestKinds":       {"a rule for no kind", "manifest", manifest(`,"kube":[{"apiGroup":"","kinds":[],"verbs":["get"]}]`)},
		"ManifestReason":      {"a code in capitals", "manifest", manifest(`,"reasons":[{"code":"Quota","sentence":"x"}]`)},
		"ManifestSentence":    {"a sentence of two lines", "manifest", manifest(`,"reasons":[{"code":"quota","sentence":"x\ny"}]`)},
		"ManifestSchema":      {"a schema that is no object", "manifest", manifest(`,"configSchema":true`)},
		"EnsureNothing":       {"neither a chart nor a catalogue entry", "app_ensure.request", `{}`},
		"EnsureValues":        {"values that are no object", "app_ensure.request", `{"catalogue":"a","values":[]}`},
		"EnsureRelease":       {"a release name that is too long", "app_ensure.request", `{"catalogue":"a","release":"` + strings.Repeat("r", 54) + `"}`},
		"GetNoName":           {"an object without a name", "kube_get.request", `{"apiVersion":"v1","kind":"Pod"}`},
		"GetScope":            {"a scope that is none", "kube_get.request", `{"scope":"moon","apiVersion":"v1","kind":"Pod","name":"a"}`},
		"ListLimit":           {"a page that is too large", "kube_list.request", `{"apiVersion":"v1","kind":"Pod","limit":501}`},
		"ApplyGenerateName":   {"an object without a name", "kube_apply.request", `{"object":{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"a-"}}}`},
		"DeleteNoKind":        {"an object without a kind", "kube_delete.request", `{"apiVersion":"v1","name":"a"}`},
		"SecretNoKey":         {"a Secret without a key", "secret_read.request", `{"name":"a"}`},
		"SecretEncoding":      {"an encoding that is none", "secret_read.request", `{"name":"a","key":"b","encoding":"hex"}`},
		"EventType":           {"a type that is none", "event.request", `{"type":"Error","reason":"quota"}`},
		"AnswerNothing":       {"neither a result nor an error", "app_ensure.answer", `{}`},
		"AnswerBoth":          {"both", "app_ensure.answer", `{"result":{"phase":"ready","disposition":0},"error":{"code":"absent"}}`},
		"AnswerWithoutPhase":  {"a result without a phase", "app_remove.answer", `{"result":{"disposition":0}}`},
		"AnswerWithoutObject": {"a result without an object", "kube_get.answer", `{"result":{}}`},
		"AnswerItems":         {"items that are no objects", "kube_list.answer", `{"result":{"items":[1]}}`},
		"AnswerHandle":        {"a handle of another shape", "secret_read.answer", `{"result":{"handle":"x","digest":"d"}}`},
		"ErrorNoCode":         {"an error without a code", "error", `{"message":"m"}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, all, c.schema)
			require.Error(t, validate(all[c.schema], c.document), c.reason)
		})
	}
}

// TestManifestsAreJudgedAsByTheHost compares the schema with Manifest.Validate where the two
// say the same.
func TestManifestsAreJudgedAsByTheHost(t *testing.T) {
	s := schemas(t)["manifest"]
	for _, version := range []string{"1.2.3", "0.0.0-rc.1+b", "1.2", "01.2.3", "v1.2.3", "1.2.3-", ""} {
		for _, name := range []string{"m", "a-b", "-a", "a-", strings.Repeat("a", 63), strings.Repeat("a", 64), "a.b"} {
			m := abi.Manifest{ABI: abi.Version, Name: name, Version: version}
			raw, err := json.Marshal(m)
			require.NoError(t, err)
			require.Equal(t, m.Validate() == nil, validate(s, string(raw)) == nil, "%s", raw)
		}
	}
}
