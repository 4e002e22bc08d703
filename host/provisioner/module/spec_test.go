package module

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSpecLimits holds the limits of this package against the table in abi/SPEC.md.
func TestSpecLimits(t *testing.T) {
	text, err := os.ReadFile("../../../abi/SPEC.md")
	require.NoError(t, err)
	limits := DefaultLimits()
	_, table, found := strings.Cut(string(text), "\n## 10. Limits\n")
	require.True(t, found)
	const kib, mib = 1 << 10, 1 << 20
	for row, ok := range map[string]bool{
		"| `why` | 4 KiB |":                                      maxWhyBytes == 4*kib,
		"| `message` of an error | 1 KiB |":                      maxMessageBytes == 1*kib,
		"| `retryAfterSeconds` | 1 to 600 |":                     minRetryAfter == time.Second && maxRetryAfter == 600*time.Second,
		"| facts of a node | 16 KiB |":                           maxFactsBytes == 16*kib,
		"| state of a node, its three kinds together | 64 KiB |": maxStateBytes == 64*kib,
		"| values of an application | 1 MiB |":                   maxValuesBytes == 1*mib,
		"| parameters of an application | 256 |":                 maxParameters == 256,
		"| value of a parameter | 64 KiB |":                      maxParameterValue == 64*kib,
		"| object of `kube_apply` | 2 MiB |":                     maxObjectBytes == 2*mib,
		"| `labelSelector`, `continue`, each | 4 KiB |":          maxSelector == 4*kib && maxContinue == 4*kib,
		"| objects in a page | 500 |":                            maxPage == 500,
		"| secret handles in a call | 256 |":                     maxHandles == 256,
		"| events in a call | 16 |":                              maxEvents == 16,
		"| input, output, request, response, each | 4 MiB |":     limits.OutputBytes == 4*mib && limits.HostCallBytes == 4*mib,
		"| host functions in a call | 1000 |":                    limits.HostCalls == 1000,
		"| time of a call, host functions included | 30 s |":     limits.Timeout == 30*time.Second,
	} {
		require.Contains(t, table, row)
		require.True(t, ok, "the limit is another than SPEC.md says: %s", row)
	}
	require.Contains(t, string(text), "`"+factName.String()+"`")
}
