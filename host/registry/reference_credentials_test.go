package registry

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The error of a reference is shown to users, and must not quote what is secret in it.
func TestReferenceErrorsHoldNoCredentials(t *testing.T) {
	cases := map[string]struct{ reason, reference, shown string }{
		"URL":         {"as people write it for curl", "https://user:hunter2@ghcr.io/acme/cilium:1", `"https://[credentials]@ghcr.io/acme/cilium:1"`},
		"OCI":         {"with the right scheme", "oci://user:hunter2@ghcr.io/acme/cilium:1", `"oci://[credentials]@ghcr.io/acme/cilium:1"`},
		"no scheme":   {"or none", "user:hunter2@ghcr.io/acme/cilium:1", `"[credentials]@ghcr.io/acme/cilium:1"`},
		"slash":       {"a password may hold one", "oci://user:hun/hunter2@ghcr.io/acme/cilium:1", `"oci://[credentials]@ghcr.io/acme/cilium:1"`},
		"wrong tag":   {"near miss: no credentials, and the whole is shown", "ghcr.io/acme/cilium@1", `"ghcr.io/acme/cilium@1"`},
		"wrong thing": {"near miss: a digest with the wrong scheme", "https://ghcr.io/acme/cilium@sha256:1", `"https://ghcr.io/acme/cilium@sha256:1"`},
		"empty":       {"nothing to hide", "", `""`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := ParseReference(c.reference)
			require.ErrorIs(t, err, InvalidReference)
			require.ErrorContains(t, err, c.shown, c.reason)
			require.NotContains(t, err.Error(), "hunter2")
		})
	}
}
