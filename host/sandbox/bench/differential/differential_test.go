package differential_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// deviations runs a subject in both hosts and lists the fields in which they differ.
func (h *hosts) deviations(t *testing.T, s subject) []deviation {
	t.Helper()
	theirs, ours := h.observeTheirs(t, s), h.observeOurs(t, s)
	var found []deviation
	for i := range max(len(theirs), len(ours)) {
		var a, b observation
		if i < len(theirs) {
			a = theirs[i]
		}
		if i < len(ours) {
			b = ours[i]
		}
		for _, field := range fields() {
			if a[field] != b[field] {
				name := field
				if i > 0 {
					name = fmt.Sprintf("%s of call %d", field, i+1)
				}
				found = append(found, deviation{name, a[field], b[field]})
			}
		}
	}
	return found
}

func TestByteBuilt(t *testing.T) {
	c, known := byteBuilt(), differences()
	for _, name := range c.names() {
		t.Run(name, func(t *testing.T) {
			s := c.subjects[name]
			found := load(t, s.wasm).deviations(t, s)
			require.Equal(t, known[name].deviations, found, "a difference that is not explained, or is no more; the reason given is %q", known[name].reason)
		})
	}
	for name, d := range known {
		require.Contains(t, c.subjects, name, "a difference of a module that there is not")
		require.NotEmpty(t, d.reason, name)
		require.NotEmpty(t, d.deviations, name)
	}
	require.NotEmpty(t, known)
}

// TestEveryFunctionIsUsed keeps the catalogue complete.
func TestEveryFunctionIsUsed(t *testing.T) {
	c := byteBuilt()
	for name := range signatures() {
		require.NotZero(t, c.used[name], "no module uses %s", name)
	}
}
