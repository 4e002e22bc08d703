package module

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/caisson-dev/caisson/abi"
)

// minRedacted is how long a value must be to be looked for: shorter ones occur by chance,
// and what is left out of a log for them would be missed.
const minRedacted = 8

// redacted stands where the value of a secret was.
const redacted = "[secret]"

// shown notes a value that the module gets to see. Its texts are searched for it: a module
// that may read a secret is trusted with it, and its operator's log and the status of its
// owner are still no places for one.
func (s *secretStore) shown(value []byte) {
	text := strings.TrimSpace(string(value))
	if len(text) < minRedacted {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.raw = append(s.raw, text, base64.StdEncoding.EncodeToString(value))
}

// redact replaces the values that the module got to see.
func (s *secretStore) redact(text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, value := range s.raw {
		text = strings.ReplaceAll(text, value, redacted)
	}
	return text
}

// holds reports whether there is such a value in what is published.
func (s *secretStore) holds(facts map[string]json.RawMessage) bool {
	for name, raw := range facts {
		var value any
		// What is no JSON does not come so far.
		_ = json.Unmarshal(raw, &value)
		if s.redact(name) != name || s.holdsIn(value) {
			return true
		}
	}
	return false
}

func (s *secretStore) holdsIn(value any) bool {
	switch v := value.(type) {
	case string:
		return s.redact(v) != v
	case map[string]any:
		for key, item := range v {
			if s.redact(key) != key || s.holdsIn(item) {
				return true
			}
		}
	case []any:
		for _, item := range v {
			if s.holdsIn(item) {
				return true
			}
		}
	}
	return false
}

// checkSecrets cleans what goes to the log of an output, and refuses one whose facts hold
// a secret, as an [*outputError]: facts are shown in the status.
func (s *secretStore) checkSecrets(output *abi.Output) error {
	output.Why, output.Reason = s.redact(output.Why), s.redact(output.Reason)
	if s.holds(output.Facts) {
		return &outputError{abi.ReasonModuleBadOutput, "a fact holds the value of a secret, and facts are for everybody"}
	}
	return nil
}
