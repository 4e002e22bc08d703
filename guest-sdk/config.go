package guest

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
)

// decodeConfig decodes a node's config strictly: an unknown field is most likely a
// spelling mistake, and ignoring it would install something else than was asked for.
// On an error as many fields as possible are set all the same.
func decodeConfig(raw json.RawMessage, into any) error {
	if len(raw) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		return nil
	}
	// The decoder stops at an unknown field. What follows it must be decoded as well for
	// a removal, which does not care about the error.
	_ = json.Unmarshal(raw, into)
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}
