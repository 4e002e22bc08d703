package guest

import (
	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/guest-sdk/internal/wire"
)

// Secret asks for one key of a Secret. It answers with a handle, which stands for the
// bytes inside the values of this call's applications, and a digest, which is fit for an
// annotation that rolls pods when the secret changes. The module never sees the bytes
// unless the request asks for them raw, which needs a grant of its own.
//
// A Secret or key that is not there is a UserActionRequired secret_missing, for which
// [IsAbsent] holds. Capability: secret_read.
func (c *Call) Secret(request abi.SecretReadRequest) (abi.SecretReadResult, error) {
	return exchange(c, abi.SecretRead, secretRead, wire.EncodeSecret(&request), wire.DecodeSecret)
}
