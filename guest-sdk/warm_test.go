package guest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
)

// TestRehearsal: an envelope that is refused would make nothing ready.
func TestRehearsal(t *testing.T) {
	call, err := newCall(abi.ExportProvision, []byte(rehearsal), nil)
	require.NoError(t, err)
	require.Equal(t, "a", call.Config().Get("a").String())
	require.Len(t, call.Config().Get("b").Items(), 1)
}

// touchy is a config that cannot be encoded as long as it is empty.
type touchy struct{ part *struct{ text string } }

func (c touchy) MarshalJSON() ([]byte, error) { return []byte(`"` + c.part.text + `"`), nil }

func TestWarmUpSurvivesTheAuthor(t *testing.T) {
	require.NotPanics(t, func() { warmUp(Module[touchy]{}) }, "what an author's method does with a zero value is seen when it matters")
	require.NotPanics(t, func() { warmUp(Lean[touchy]{Config: func(Doc) touchy { panic("not without a call") }}) })
}
