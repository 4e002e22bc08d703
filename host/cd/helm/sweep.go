package helm

import (
	"context"
	"strings"

	"helm.sh/helm/v4/pkg/kube"
)

// sweep deletes what earlier revisions had and this one has not, and returns what of it is
// still there. Helm deletes it at the end of an upgrade, but passes over what it could not
// read just then and calls that a success; nobody would know of the object any more. It
// costs nothing once everything has been seen gone.
func (a *attempt) sweep(ctx context.Context, deployed []manifestObject) ([]object, error) {
	if a.recorded == nil {
		return nil, nil
	}
	dropped := dropped(a.recorded.Objects, deployed, a.key.namespace)
	if len(dropped) == 0 {
		return nil, nil
	}
	hide := hiding(a.last.secrets(a.recorded.Secrets))
	found, err := a.at.survivors(ctx, dropped, a.key)
	if err != nil {
		return nil, readError(veil(err, hide), "looking for what the last revision dropped")
	}
	var left []survivor
	var objects []object
	for _, s := range found {
		if s.keep {
			continue // somebody wants it to stay, and Helm heeds that as well
		}
		left, objects = append(left, s), append(objects, s.object)
	}
	if err := a.at.deleteAll(ctx, left, background); err != nil {
		return nil, readError(veil(err, hide), "deleting what the last revision dropped")
	}
	return objects, nil
}

// dropped are the recorded objects that a revision does not have, in whatever version of
// their API. An object without a namespace of its own is in the release's.
func dropped(recorded []object, deployed []manifestObject, namespace string) []object {
	same := func(o object) object {
		o.Version = ""
		if o.Namespace == "" {
			o.Namespace = namespace
		}
		return o
	}
	has := make(map[object]bool, len(deployed))
	for _, o := range deployed {
		has[same(o.object)] = true
	}
	var gone []object
	for _, o := range recorded {
		if !has[same(o)] {
			gone = append(gone, o)
		}
	}
	return gone
}

// keeps reports whether the annotations of a live object tell Helm to leave it.
func keeps(annotations map[string]string) bool {
	return strings.EqualFold(strings.TrimSpace(annotations[kube.ResourcePolicyAnno]), kube.KeepPolicy)
}
