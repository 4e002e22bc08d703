package controller

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/capability"
)

// DefaultPollInterval is how often a tag is resolved again.
const DefaultPollInterval = 5 * time.Minute

// minPollInterval keeps a typing error from hammering a registry.
const minPollInterval = time.Second

// Source fetches module artifacts. Its errors are [*ModuleError].
type Source interface {
	// Resolve returns the digest that a reference means now.
	Resolve(ctx context.Context, module *v1alpha1.Module) (digest string, err error)
	// Fetch returns the Wasm of an artifact by digest, from the cache if it is there.
	Fetch(ctx context.Context, module *v1alpha1.Module, digest string) (wasm []byte, err error)
}

// Loader compiles modules. Its errors are [*ModuleError].
type Loader interface {
	Load(ctx context.Context, module *v1alpha1.Module, wasm []byte) (LoadedModule, error)
}

// ModuleError says why a module cannot be used, in words for the Module's condition.
type ModuleError struct {
	// Reason is one of the ModuleReason constants of the API.
	Reason string
	// Message names the object and the remedy, and holds no secret.
	Message string
	// Err is the cause, for the log.
	Err error
}

// Error implements error.
func (e *ModuleError) Error() string {
	if e.Err == nil {
		return e.Message
	}
	return e.Message + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *ModuleError) Unwrap() error { return e.Err }

// ModuleReconciler resolves, pulls and loads modules.
type ModuleReconciler struct {
	Client  client.Client
	Source  Source
	Loader  Loader
	Modules *Modules
	// Clock is time.Now if nil.
	Clock func() time.Time
}

// Reconcile brings one module to the digest that its reference means now.
func (r *ModuleReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	object := &v1alpha1.Module{}
	if err := r.Client.Get(ctx, req.NamespacedName, object); err != nil {
		if apierrors.IsNotFound(err) {
			r.Modules.Remove(req.Name)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("read module: %w", err)
	}
	if !object.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	manifest, digest, err := r.bring(ctx, object)
	if ctx.Err() != nil {
		return ctrl.Result{}, nil //nolint:nilerr // The process is shutting down, which says nothing about the module.
	}
	status := r.nextStatus(object, manifest, digest, err)
	if !equality.Semantic.DeepEqual(object.Status, status) {
		before := object.DeepCopy()
		object.Status = status
		if perr := r.Client.Status().Patch(ctx, object, client.MergeFrom(before), client.FieldOwner(v1alpha1.FieldManager)); perr != nil {
			return conflictIsSilent(fmt.Errorf("write status: %w", perr))
		}
	}
	if err != nil {
		log.FromContext(ctx).Info("module is not up to date", "reason", reasonOf(err), "why", err.Error())
	}
	return ctrl.Result{RequeueAfter: jitter(pollInterval(object))}, nil
}

// bring resolves the reference and loads what it means, unless that is in use already.
func (r *ModuleReconciler) bring(ctx context.Context, object *v1alpha1.Module) (*abi.Manifest, string, error) {
	digest, err := r.Source.Resolve(ctx, object)
	if err != nil {
		return r.bringRecorded(ctx, object, err)
	}
	return r.load(ctx, object, digest)
}

// bringRecorded falls back to the recorded digest after a restart while the registry is
// down: the cache on disk may still have it.
func (r *ModuleReconciler) bringRecorded(ctx context.Context, object *v1alpha1.Module, cause error) (*abi.Manifest, string, error) {
	recorded := object.Status.Digest
	if recorded == "" || r.Modules.Digest(object.Name) != "" {
		return nil, "", cause
	}
	manifest, digest, err := r.load(ctx, object, recorded)
	if err != nil {
		return nil, "", cause
	}
	return manifest, digest, nil
}

func (r *ModuleReconciler) load(ctx context.Context, object *v1alpha1.Module, digest string) (*abi.Manifest, string, error) {
	if manifest := r.Modules.InUse(object.Name, digest, &object.Spec); manifest != nil {
		return manifest, digest, checkGrant(object, manifest)
	}
	wasm, err := r.Source.Fetch(ctx, object, digest)
	if err != nil {
		return nil, "", err
	}
	loaded, err := r.Loader.Load(ctx, object, wasm)
	if err != nil {
		return nil, "", err
	}
	manifest, err := ManifestOf(loaded)
	if err == nil {
		err = checkGrant(object, manifest)
	}
	if err != nil {
		loaded.Close()
		return nil, "", err
	}
	r.Modules.Put(object.Name, Loaded{
		Digest: digest, Manifest: *manifest, Limits: object.Spec.Limits, Isolation: object.Spec.Isolation, Runtime: loaded,
	})
	log.FromContext(ctx).Info("module loaded", "digest", digest, "version", manifest.Version)
	return manifest, digest, nil
}

// ManifestOf reads the manifest of a loaded module. The section in the file and what
// the module says of itself must agree, so that what an admin inspected is what runs. The
// error is a [*ModuleError].
func ManifestOf(loaded LoadedModule) (*abi.Manifest, error) {
	section := loaded.Manifest()
	if section == nil {
		return nil, &ModuleError{
			Reason:  v1alpha1.ModuleReasonInvalidManifest,
			Message: "the file has no " + abi.ManifestSection + " section; build it with: caisson module build",
		}
	}
	var manifest, described abi.Manifest
	if err := json.Unmarshal(section, &manifest); err != nil {
		return nil, invalidManifest("its "+abi.ManifestSection+" section is not the JSON of a manifest", err)
	}
	if err := json.Unmarshal(loaded.Described(), &described); err != nil {
		return nil, invalidManifest("its describe export does not answer with the JSON of a manifest", err)
	}
	if !sameJSON(manifest, described) {
		return nil, invalidManifest("its "+abi.ManifestSection+" section and its describe export differ; build it again with: caisson module build", nil)
	}
	if err := manifest.Validate(); err != nil {
		return nil, invalidManifest(err.Error(), nil)
	}
	return &manifest, nil
}

func invalidManifest(message string, err error) *ModuleError {
	return &ModuleError{Reason: v1alpha1.ModuleReasonInvalidManifest, Message: message, Err: err}
}

// sameJSON compares manifests by what they say, not by how it was spelled.
func sameJSON(a, b abi.Manifest) bool {
	left, errLeft := json.Marshal(a)
	right, errRight := json.Marshal(b)
	return errLeft == nil && errRight == nil && bytes.Equal(left, right)
}

func checkGrant(object *v1alpha1.Module, manifest *abi.Manifest) error {
	if err := capability.Check(manifest, grantOf(object)); err != nil {
		return &ModuleError{Reason: v1alpha1.ModuleReasonNotGranted, Message: err.Error()}
	}
	return nil
}

// nextStatus is the status after an attempt. A failure leaves digest and manifest of
// what is still in use.
func (r *ModuleReconciler) nextStatus(object *v1alpha1.Module, manifest *abi.Manifest, digest string, err error) v1alpha1.ModuleStatus {
	status := *object.Status.DeepCopy()
	status.ObservedGeneration = object.Generation
	condition := metav1.Condition{
		Type: v1alpha1.ModuleReady, Status: metav1.ConditionTrue, ObservedGeneration: object.Generation,
		Reason: v1alpha1.ModuleReasonLoaded, Message: "The module is loaded and can be used.",
	}
	switch {
	case err != nil:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, reasonOf(err), messageOfModule(err)
		// An error about the digest that is in use, such as a grant that was narrowed, holds
		// for the calls as well.
		if inUse := r.Modules.Digest(object.Name); inUse != "" && inUse != digest {
			condition.Status = metav1.ConditionTrue
			condition.Message = "The module stays in use at " + inUse + staysBecause(condition.Reason) + condition.Message
		}
	case r.Modules.Faulted(object.Name):
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ModuleReasonFaulted
		condition.Message = "The module killed its worker several times in a row and is probed at growing intervals; publish a version that does not, or raise the limits that it needs."
	}
	if err == nil {
		status.Digest = digest
	}
	if manifest != nil {
		status.Version = manifest.Version
		if raw, merr := json.Marshal(manifest); merr == nil {
			status.Manifest = &apiextensionsv1.JSON{Raw: canonical(raw)}
		}
	}
	setModuleConditions(&status, condition)
	return status
}

// staysBecause says what of a module that stays in use could not be had.
func staysBecause(reason string) string {
	switch reason {
	case v1alpha1.ModuleReasonInvalidLimits, v1alpha1.ModuleReasonLimitTooHigh:
		return " with the limits of before: "
	case v1alpha1.ModuleReasonInProcessNotAllowed:
		return " in a worker: "
	default:
		return ", but its reference cannot be followed: "
	}
}

// setModuleConditions writes Ready, and Reconciling or Stalled as kstatus asks: present only
// while they are true. What passes by itself is being worked on; all else waits for
// somebody, although the reference is resolved again at every poll.
func setModuleConditions(status *v1alpha1.ModuleStatus, ready metav1.Condition) {
	meta.SetStatusCondition(&status.Conditions, ready)
	progress := ready
	progress.Status = metav1.ConditionTrue
	for kind, holds := range map[string]bool{
		v1alpha1.ConditionReconciling: ready.Status == metav1.ConditionFalse && passes(ready.Reason),
		v1alpha1.ConditionStalled:     ready.Status == metav1.ConditionFalse && !passes(ready.Reason),
	} {
		progress.Type = kind
		if holds {
			meta.SetStatusCondition(&status.Conditions, progress)
			continue
		}
		meta.RemoveStatusCondition(&status.Conditions, kind)
	}
}

// passes reports whether a module becomes ready again without anybody's doing.
func passes(reason string) bool {
	return reason == v1alpha1.ModuleReasonRegistryUnavailable || reason == v1alpha1.ModuleReasonFaulted
}

// pollInterval returns when the reference has to be looked at again.
func pollInterval(object *v1alpha1.Module) time.Duration {
	if p := object.Spec.PollInterval; p != nil {
		return max(p.Duration, minPollInterval)
	}
	return DefaultPollInterval
}

func reasonOf(err error) string {
	var m *ModuleError
	if errors.As(err, &m) {
		return m.Reason
	}
	return v1alpha1.ModuleReasonLoadFailed
}

// messageOfModule shows the text of typed errors only.
func messageOfModule(err error) string {
	var m *ModuleError
	if errors.As(err, &m) {
		return m.Message
	}
	return "The module could not be loaded; the operator's log has the details."
}
