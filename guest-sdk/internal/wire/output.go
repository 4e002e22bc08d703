package wire

import (
	"maps"
	"slices"

	"github.com/caisson-dev/caisson/abi"
)

// EncodeOutput encodes the answer of an export. It fails for a fact or a state that is not
// JSON.
func EncodeOutput(out *abi.Output) ([]byte, error) {
	o := object{dst: make([]byte, 0, 256+len(out.State)+len(out.GenerationState)+len(out.StickyState))}
	o.optText("reason", out.Reason)
	o.optText("why", out.Why)
	o.optInteger("retryAfterSeconds", int64(out.RetryAfterSeconds))
	if len(out.Facts) > 0 {
		o.key("facts")
		facts := object{dst: o.dst}
		for _, name := range slices.Sorted(maps.Keys(out.Facts)) {
			facts.fact(name, out.Facts[name])
		}
		var err error
		if o.dst, err = facts.end(); err != nil {
			o.err = err
		}
	}
	o.optDocument("state", out.State)
	o.optDocument("generationState", out.GenerationState)
	o.optDocument("stickyState", out.StickyState)
	return o.end()
}

// fact appends a member whose name may need escapes.
func (o *object) fact(name string, raw []byte) {
	separator := byte('{')
	if o.some {
		separator = ','
	}
	o.some = true
	o.dst = append(o.dst, separator)
	o.dst = append(AppendText(o.dst, name), ':')
	if raw == nil {
		o.dst = append(o.dst, "null"...)
		return
	}
	o.append(raw, "fact "+name)
}

// EncodeManifest encodes a manifest. It fails for a schema that is not JSON.
func EncodeManifest(m *abi.Manifest) ([]byte, error) {
	var o object
	o.integer("abi", int64(m.ABI))
	o.text("name", m.Name)
	o.text("version", m.Version)
	o.optText("description", m.Description)
	if len(m.Capabilities) > 0 {
		o.key("capabilities")
		o.dst = appendTexts(o.dst, m.Capabilities)
	}
	if len(m.Kube) > 0 {
		o.key("kube")
		for i := range m.Kube {
			o.dst = append(o.dst, "[,"[min(i, 1)])
			o.dst = appendRule(o.dst, &m.Kube[i])
		}
		o.dst = append(o.dst, ']')
	}
	if len(m.Reasons) > 0 {
		o.key("reasons")
		for i, r := range m.Reasons {
			o.dst = append(o.dst, "[,"[min(i, 1)])
			o.dst = AppendText(append(o.dst, `{"code":`...), r.Code)
			o.dst = AppendText(append(o.dst, `,"sentence":`...), r.Sentence)
			o.dst = append(o.dst, '}')
		}
		o.dst = append(o.dst, ']')
	}
	o.optDocument("configSchema", m.ConfigSchema)
	o.optTrue("requiresDrain", m.RequiresDrain)
	return o.end()
}

func appendRule(dst []byte, rule *abi.KubeRule) []byte {
	o := object{dst: dst}
	o.text("apiGroup", rule.APIGroup)
	o.key("kinds")
	o.dst = appendTexts(o.dst, rule.Kinds)
	o.key("verbs")
	o.dst = appendTexts(o.dst, rule.Verbs)
	if len(rule.Namespaces) > 0 {
		o.key("namespaces")
		o.dst = appendTexts(o.dst, rule.Namespaces)
	}
	out, _ := o.end() // texts cannot fail
	return out
}
