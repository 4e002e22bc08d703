package schema

import "github.com/caisson-dev/caisson/abi"

// factPattern is what the names of facts match, by SPEC.md.
const factPattern = `^[A-Za-z]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`

const (
	labelPattern  = `^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`
	kindPattern   = `^[A-Z][A-Za-z0-9]{0,62}$`
	semverPattern = `^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`
	handlePattern = `^caisson-secret:[0-9a-f]{32}:$`
)

// fieldRules are constraints that the Go types cannot say, by type and JSON name. They are
// added to what the type says.
func fieldRules() map[string]object {
	anObject := object{{"type", "object"}}
	return map[string]object{
		"Input.abi":             {{"const", abi.Version}},
		"Input.operation":       {{"enum", []string{abi.ExportProvision, abi.ExportDeprovision}}},
		"Input.config":          anObject,
		"Input.now":             {{"format", "date-time"}},
		"Input.deadlineMillis":  {{"minimum", 0}},
		"Output.facts":          {{"propertyNames", object{{"pattern", factPattern}}}},
		"Manifest.abi":          {{"const", abi.Version}},
		"Manifest.name":         {{"pattern", labelPattern}},
		"Manifest.version":      {{"pattern", semverPattern}, {"maxLength", 128}},
		"Manifest.description":  {{"maxLength", 2 * abi.MaxSentenceBytes}},
		"Manifest.capabilities": {{"uniqueItems", true}},
		"Manifest.kube":         {{"maxItems", abi.MaxKubeRules}},
		"Manifest.reasons":      {{"maxItems", abi.MaxReasons}},
		"Manifest.configSchema": anObject,
		"ReasonText.code":       {{"pattern", abi.ReasonPattern}},
		"ReasonText.sentence":   {{"minLength", 1}, {"maxLength", abi.MaxSentenceBytes}, {"pattern", `^[^\n\r]*$`}},
		"KubeRule.kinds":        {{"minItems", 1}, {"maxItems", abi.MaxRuleEntries}, {"items", object{{"type", "string"}, {"pattern", kindPattern}}}},
		"KubeRule.verbs":        {{"minItems", 1}, {"items", object{{"enum", []string{"get", "list", "apply", "delete"}}}}},
		"KubeRule.namespaces":   {{"maxItems", abi.MaxRuleEntries}, {"items", object{{"type", "string"}, {"pattern", labelPattern}}}},
		"AppSpec.release":       {{"maxLength", 53}},
		"AppSpec.values":        anObject,
		"KubeListRequest.limit": {{"minimum", 0}, {"maximum", 500}},
		"KubeApplyRequest.object": {{"type", "object"}, {"required", []string{"apiVersion", "kind", "metadata"}},
			{"properties", object{{"metadata", object{{"type", "object"}, {"required", []string{"name"}}}}}}},
		"KubeGetResult.object":    anObject,
		"KubeApplyResult.object":  anObject,
		"KubeListResult.items":    {{"items", anObject}},
		"SecretReadResult.handle": {{"pattern", handlePattern}},
		"EventRequest.type":       {{"enum", []string{"Normal", "Warning"}}},
		"EventRequest.reason":     {{"pattern", abi.ReasonPattern}},
	}
}

// typeRules are constraints on a message as a whole.
func typeRules() map[string]object {
	named := object{{"required", []string{"apiVersion", "kind", "name"}}}
	return map[string]object{
		"AppSpec":           {{"anyOf", []object{{{"required", []string{"catalogue"}}}, {{"required", []string{"repo", "chart", "version"}}}}}},
		"KubeGetRequest":    named,
		"KubeDeleteRequest": named,
	}
}
