package module

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/caisson-dev/caisson/abi"
)

// appList lists the applications that the driver has recorded for the node in the scope
// of the pass, those of an earlier version of the module included.
func appList(ctx context.Context, s *session, _ *abi.AppListRequest) (*abi.AppListResult, *abi.CallError) {
	installed, err := s.node.applications(ctx, s.scope)
	if err != nil {
		log.FromContext(ctx).Error(err, "listing applications for a module")
		return nil, fail(abi.CodeUnavailable, "the applications cannot be listed now")
	}
	result := &abi.AppListResult{Applications: []abi.AppEntry{}}
	for _, app := range installed {
		name, _ := s.node.applicationName(app.ID.Path)
		result.Applications = append(result.Applications, abi.AppEntry{
			Name: name, Release: app.Release, Namespace: app.Namespace, Version: app.Version,
		})
	}
	return result, nil
}
