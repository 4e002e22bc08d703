package module

import (
	"context"
	"time"

	"github.com/caisson-dev/caisson/abi"
)

// appRemove removes one application of the node by its identity, as the scope's teardown
// policy says. The state of the cluster is the driver's concern: what it has recorded must
// go also when the cluster is gone.
func appRemove(ctx context.Context, s *session, ref *abi.AppRef) (*abi.AppStatus, *abi.CallError) {
	if ref.Name != "" && !label.MatchString(ref.Name) {
		return nil, fail(abi.CodeInvalid, "name: %q is not a DNS label", clip(ref.Name))
	}
	err := s.node.options.Driver.Remove(ctx, s.scope, s.node.applicationID(ref.Name))
	return s.status(err, abi.AppGone, abi.AppDeleting)
}

// seconds rounds a hint up, so that half a second is not read as no hint.
func seconds(d time.Duration) int {
	if d <= 0 {
		return 0
	}
	return int((d + time.Second - 1) / time.Second)
}
