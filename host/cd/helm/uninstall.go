package helm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/release/common"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// How the objects that objects own are deleted, in Helm's words.
const (
	// foreground keeps an object until what it owns is gone, so that its absence proves
	// that its pods are gone too.
	foreground = "foreground"
	// background is for clusters that go anyway.
	background = "background"
)

// The annotations by which Helm, and so do we, tells whose an object is.
const (
	annotationRelease   = "meta.helm.sh/release-name"
	annotationNamespace = "meta.helm.sh/release-namespace"
)

type uninstallOptions struct {
	timeout     time.Duration
	propagation string
	skipHooks   bool
}

// uninstall deletes the objects of a release and keeps its records, so that what is
// left can be looked for afterwards. A release that is uninstalled or absent is done.
func (c *cluster) uninstall(ctx context.Context, key releaseKey, o uninstallOptions) error {
	config, _, logged := c.configuration(ctx, key.namespace, nil)
	uninstall := action.NewUninstall(config)
	uninstall.KeepHistory = true
	uninstall.WaitStrategy = kube.HookOnlyStrategy
	uninstall.Timeout = o.timeout
	uninstall.DeletionPropagation = o.propagation
	uninstall.DisableHooks = o.skipHooks
	_, err := uninstall.Run(key.name)
	switch {
	case err == nil, errors.Is(err, driver.ErrReleaseNotFound), strings.Contains(err.Error(), "is already deleted"):
		return nil
	}
	// A failed delete says nothing of its cause but in the log.
	err = logged.join(err)
	if isNoMatch(err) {
		// Helm gives up when a kind is gone, though its objects then are gone as well.
		return c.uninstallRest(ctx, key, o)
	}
	return err
}

// uninstallRest deletes what Helm would not, and marks the release as uninstalled.
func (c *cluster) uninstallRest(ctx context.Context, key releaseKey, o uninstallOptions) error {
	releases, err := c.history(ctx, key.namespace, key.name)
	if err != nil || len(releases) == 0 {
		return err
	}
	last := newest(releases)
	objects, err := parseManifest(last.Manifest)
	if err != nil {
		return err
	}
	owned, _ := split(objects)
	left, err := c.survivors(ctx, owned, key)
	if err != nil {
		return err
	}
	if err := c.deleteAll(ctx, left, o.propagation); err != nil {
		return err
	}
	last.SetStatus(common.StatusUninstalled, "Uninstallation complete, some kinds were gone already")
	if err := storage.Init(c.records(ctx, key.namespace)).Update(last); err != nil {
		return fmt.Errorf("marking release %s as uninstalled: %w", key.name, err)
	}
	return nil
}

// survivor is an object that a removal has not seen gone.
type survivor struct {
	object
	uid         types.UID
	namespace   string
	terminating bool
	finalizers  []string
	// keep says that its annotations tell Helm to leave it.
	keep bool
}

// String says what holds the object.
func (s survivor) String() string {
	switch {
	case len(s.finalizers) > 0:
		return s.object.String() + " has finalizers " + strings.Join(s.finalizers, ", ")
	case s.terminating:
		return s.object.String() + " is being deleted"
	default:
		return s.object.String() + " is there"
	}
}

// survivors looks for objects that are still there and belong to the release, or are
// being deleted. One that cannot be looked at is an error: it may be there. One of a
// kind that is gone is gone. One that lost the annotations of the release belongs to
// whoever took them off.
func (c *cluster) survivors(ctx context.Context, objects []object, key releaseKey) ([]survivor, error) {
	var left []survivor
	for _, o := range objects {
		live, err := c.read(ctx, o, key.namespace)
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) && !isUnserved(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("looking for %s: %w", o, err)
		}
		annotations := live.GetAnnotations()
		ours := annotations[annotationRelease] == key.name && annotations[annotationNamespace] == key.namespace
		terminating := live.GetDeletionTimestamp() != nil
		if ours || terminating {
			left = append(left, survivor{object: o, uid: live.GetUID(), namespace: live.GetNamespace(), terminating: terminating, finalizers: live.GetFinalizers(), keep: keeps(annotations)})
		}
	}
	return left, nil
}

// deleteAll deletes survivors that nobody deleted yet. Helm skips objects whose owner it
// could not read, and calls that a success.
func (c *cluster) deleteAll(ctx context.Context, left []survivor, propagation string) error {
	policy := metav1.DeletePropagationForeground
	if propagation == background {
		policy = metav1.DeletePropagationBackground
	}
	for _, s := range left {
		if s.terminating {
			continue
		}
		resource, err := c.resource(s.object, s.namespace)
		if err != nil {
			return err
		}
		uid := s.uid
		err = resource.Delete(ctx, s.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &policy,
		})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("deleting %s: %w", s.object, err)
		}
	}
	return nil
}
