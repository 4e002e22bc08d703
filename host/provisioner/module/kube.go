package module

import (
	"context"
	"errors"
	"regexp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/capability"
	"github.com/caisson-dev/caisson/host/scope"
)

// fieldManager owns the fields that modules apply.
const fieldManager = "caisson"

var kindPattern = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,62}$`)

// target is where a kube_* request goes, after all checks.
type target struct {
	client client.Client
	gvk    schema.GroupVersionKind
	// namespaced says whether objects of the kind have a namespace.
	namespaced bool
}

// object returns an empty object of the target's kind.
func (t *target) object() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(t.gvk)
	return u
}

// reach checks a request and finds the cluster for it. The grant is asked before the
// cluster is, so that a denied request tells nothing about it.
func (s *session) reach(ctx context.Context, ref abi.ObjectRef, verb string) (*target, *abi.CallError) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil || gv.Version == "" || (gv.Group != "" && !isSubdomain(gv.Group)) || !label.MatchString(gv.Version) {
		return nil, fail(abi.CodeInvalid, "apiVersion: %q is not group/version", clip(ref.APIVersion))
	}
	if !kindPattern.MatchString(ref.Kind) {
		return nil, fail(abi.CodeInvalid, "kind: %q is not a kind", clip(ref.Kind))
	}
	if ref.Namespace != "" && !label.MatchString(ref.Namespace) {
		return nil, fail(abi.CodeInvalid, "namespace: %q is not a DNS label", clip(ref.Namespace))
	}
	where, callError := s.cluster(ref.Scope)
	if callError != nil {
		return nil, callError
	}
	if capability.IsSecret(gv.Group, ref.Kind) {
		return nil, fail(abi.CodeDenied, "Secrets are not reached through kube_%s; secret_read is for that", verb)
	}
	request := capability.KubeRequest{
		Target: s.policyTarget(ref.Scope), Verb: verb, APIGroup: gv.Group, Kind: ref.Kind, Namespace: ref.Namespace,
	}
	if !capability.DeclaresKube(&s.instance.Manifest, request) {
		return nil, fail(abi.CodeDenied, "the manifest does not declare %s on %s %s in namespace %q", verb, gv.Group, ref.Kind, ref.Namespace)
	}
	if !s.instance.Grant.AllowsKube(request) {
		return nil, fail(abi.CodeDenied, "the grant does not allow %s on %s %s in namespace %q of scope %s", verb, gv.Group, ref.Kind, ref.Namespace, scopeName(ref.Scope))
	}
	s.noteUnwatched()
	if callError := alive(where); callError != nil {
		return nil, callError
	}
	t := &target{client: where.Client(), gvk: gv.WithKind(ref.Kind)}
	t.namespaced, err = t.client.IsObjectNamespaced(t.object())
	if err != nil {
		return nil, kubeFailure(ctx, "find "+t.gvk.String(), err)
	}
	// A namespace given for a cluster-scoped kind would be ignored by the client, and with
	// it the namespaces of the grant.
	if !t.namespaced && ref.Namespace != "" {
		return nil, fail(abi.CodeInvalid, "namespace: %s has none", ref.Kind)
	}
	return t, nil
}

// reachOne is reach for a single object.
func (s *session) reachOne(ctx context.Context, ref abi.ObjectRef, verb string) (*target, *abi.CallError) {
	if ref.Name == "" || len(ref.Name) > 253 || len(content.IsPathSegmentName(ref.Name)) > 0 || !isLine(ref.Name) {
		return nil, fail(abi.CodeInvalid, "name: %q is not the name of an object", clip(ref.Name))
	}
	t, callError := s.reach(ctx, ref, verb)
	if callError != nil {
		return nil, callError
	}
	if t.namespaced && ref.Namespace == "" {
		return nil, fail(abi.CodeInvalid, "namespace: %s needs one", ref.Kind)
	}
	return t, nil
}

// cluster returns the scope that a request means.
func (s *session) cluster(asked abi.KubeScope) (scope.Scope, *abi.CallError) {
	switch asked {
	case "", abi.ScopeCurrent:
		return s.scope, nil
	case abi.ScopeHome:
		return s.scope.Home(), nil
	default:
		return scope.Scope{}, fail(abi.CodeInvalid, "scope: %q is neither current nor home", clip(string(asked)))
	}
}

func (s *session) policyTarget(asked abi.KubeScope) capability.Target {
	return capability.Target{Scope: asked, AtHome: !s.scope.IsRemote()}
}

// alive reports why a cluster cannot be asked, or nil.
func alive(where scope.Scope) *abi.CallError {
	if where.Client() == nil || where.State() == abi.ScopeGone {
		return fail(abi.CodeUnavailable, "the cluster of scope %s is %s", where.ID(), where.State())
	}
	return nil
}

// kubeFailure maps what a client returns. Absence comes from an answer of the API server
// only: from its NotFound, or from a fresh discovery that does not know the kind.
func kubeFailure(ctx context.Context, doing string, err error) *abi.CallError {
	status := apierrors.APIStatus(nil)
	switch {
	case isAbsent(err):
		return fail(abi.CodeAbsent, "%s: %v", doing, err)
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return fail(abi.CodeForbidden, "%s: %v", doing, err)
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		return fail(abi.CodeConflict, "%s: %v", doing, err)
	case apierrors.IsRequestEntityTooLargeError(err):
		return fail(abi.CodeTooLarge, "%s: %v", doing, err)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsMethodNotSupported(err), apierrors.IsNotAcceptable(err), apierrors.IsUnsupportedMediaType(err):
		return fail(abi.CodeInvalid, "%s: %v", doing, err)
	case errors.As(err, &status):
		return fail(abi.CodeUnavailable, "%s: %v", doing, err)
	default:
		// A transport error may name addresses and proxies, which are none of a guest's
		// business.
		log.FromContext(ctx).Info("a cluster could not be asked for a module", "doing", doing, "error", err.Error())
		return fail(abi.CodeUnavailable, "%s: the cluster could not be asked", doing)
	}
}

// isAbsent reports whether an API server said that an object, or its whole kind, does not
// exist. A bare 404 of something in between, such as a load balancer, says nothing.
func isAbsent(err error) bool {
	return meta.IsNoMatchError(err) || (apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err))
}

// strip removes what no module needs and what is often larger than the object.
func strip(u *unstructured.Unstructured) {
	unstructured.RemoveNestedField(u.Object, "metadata", "managedFields")
}

func scopeName(asked abi.KubeScope) string {
	if asked == "" {
		return string(abi.ScopeCurrent)
	}
	return string(asked)
}

// preconditions returns the options of a delete that must hit a certain object.
func preconditions(uid string) []client.DeleteOption {
	options := []client.DeleteOption{client.PropagationPolicy(metav1.DeletePropagationBackground)}
	if uid != "" {
		options = append(options, client.Preconditions{UID: (*types.UID)(&uid)})
	}
	return options
}
