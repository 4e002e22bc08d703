package helm

import (
	"context"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/release/common"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

// stepUninstall removes a release that is not wanted any more.
const stepUninstall step = "uninstall"

// discardAttempts is how often an uninstall on a cluster that goes anyway is tried.
const discardAttempts = 3

// Remove implements cd.Applications. It finds the release through the inventory and
// reads neither chart nor values.
func (d *Driver) Remove(ctx context.Context, from scope.Scope, id scope.ResourceIdentifier) error {
	recorded, err := d.inventory.get(ctx, id.Owner.UID, entryKey(from.ID(), id.Path))
	if err != nil {
		return provisioner.Retry(abi.ReasonUnexpected, "reading the inventory").WithCause(err)
	}
	if recorded == nil {
		return nil
	}
	return d.remove(ctx, from, from.Teardown(), *recorded)
}

func (d *Driver) remove(ctx context.Context, from scope.Scope, teardown abi.Teardown, e entry) error {
	key := e.release()
	r := &removal{driver: d, entry: e, key: key, since: d.removingSince(key), seen: d.runner.ended(key)}
	if from.State() == abi.ScopeGone {
		return r.drop(ctx)
	}
	if running, busy := d.runner.runningFor(key, e.Owner.UID); busy {
		if running == stepUninstall && teardown == abi.Discard {
			return nil
		}
		return d.busy(key, running)
	}
	if from.Config() == nil {
		return provisioner.Yield(abi.ReasonRemoteUnreachable, "the cluster is "+string(from.State())).WithRetryAfter(pollInterval)
	}
	at, err := d.clusters.at(from)
	if err != nil {
		return provisioner.Retry(abi.ReasonRemoteUnreachable, "reaching the cluster").WithCause(err)
	}
	r.at = at
	last, err := at.last(ctx, key.namespace, key.name)
	switch {
	case err != nil && teardown == abi.Discard && r.overdue():
		d.options.Logger.Info("cluster does not answer and goes anyway; forgetting the release", "release", key.name, "scope", key.scope)
		return r.drop(ctx)
	case err != nil:
		return readError(err, "reading the release")
	case last != nil && last.labels[labelOwner] != e.id().Hash():
		// Somebody else has the name: nothing there is ours, nor ever was.
		return r.drop(ctx)
	}
	again, err := d.madeBy(ctx, &e, last, e.Owner.UID, e.key())
	if err != nil || again == nil {
		return err // or it has been removed meanwhile
	}
	r.last, r.entry = last, *again
	switch teardown {
	case abi.Orphan:
		return r.orphan(ctx)
	case abi.Discard:
		return r.discard(ctx)
	default:
		return r.drain(ctx)
	}
}

// removingSince is since when the removal of a release has been asked for.
func (d *Driver) removingSince(key releaseKey) time.Time {
	var since time.Time
	d.runner.with(key, func(r *record) {
		if r.removing.IsZero() {
			r.removing = d.options.Now()
		}
		since = r.removing
	})
	return since
}

// removal is one call of Remove for an application that the inventory knows.
type removal struct {
	driver *Driver
	at     *cluster
	entry  entry
	key    releaseKey
	last   *revision
	since  time.Time
	// seen is how far the actions on the release had come before anything was read.
	seen uint64
}

func (r *removal) overdue() bool {
	return r.driver.options.Now().Sub(r.since) >= r.driver.options.Timeouts.Removal
}

// digest keeps failures of the removal apart from those of installing.
func (r *removal) digest() string { return r.entry.id().Hash() + "/remove" }

// hide takes the secrets of the release out of a text that is going to be logged. Whoever
// refuses a hook or a deletion may quote the object.
func (r *removal) hide(text string) string {
	if r.last == nil && len(r.entry.Secrets) > 0 {
		return "the text is withheld: the values of the release are gone, which would tell what is secret in it"
	}
	return hiding(r.last.secrets(r.entry.Secrets))(text)
}

// drop forgets the application, here and in the inventory.
func (r *removal) drop(ctx context.Context) error {
	if err := r.driver.inventory.drop(ctx, r.entry.Owner.UID, r.entry.key()); err != nil {
		return provisioner.Retry(abi.ReasonUnexpected, "writing the inventory").WithCause(err)
	}
	r.forget()
	return nil
}

func (r *removal) forget() {
	r.driver.hub.untrack(r.key, r.entry.Owner.UID)
	r.driver.runner.forget(r.key)
}

// orphan leaves the workloads and deletes what Helm knows of them.
func (r *removal) orphan(ctx context.Context) error {
	if err := r.at.purge(ctx, r.key.namespace, r.key.name); err != nil {
		return readError(err, "deleting the records of the release")
	}
	return r.drop(ctx)
}

// discard starts an uninstall and does not wait for anything: the cluster goes anyway.
// The worker forgets the application when it is done, so until then it is listed.
func (r *removal) discard(ctx context.Context) error {
	if r.last == nil {
		return r.drop(ctx)
	}
	if r.last.status == common.StatusUninstalled {
		return r.orphan(ctx)
	}
	if f := r.driver.runner.failure(r.key); f != nil && f.digest == r.digest() {
		if f.count >= discardAttempts {
			r.driver.options.Logger.Info("uninstall failed on a cluster that goes anyway; forgetting the release", "release", r.key.name, "scope", r.key.scope, "why", f.why)
			return r.drop(ctx)
		}
		if r.driver.options.Now().Sub(f.at) < f.pause() {
			return nil
		}
	}
	r.start(uninstallOptions{timeout: r.driver.options.Timeouts.Action, propagation: background, skipHooks: true}, r.orphan)
	return nil
}

// drain uninstalls, looks until everything is seen gone, and purges the records last:
// they are what a restarted operator finds the objects by.
func (r *removal) drain(ctx context.Context) error {
	if r.last != nil && r.last.status != common.StatusUninstalled {
		return r.uninstall(ctx)
	}
	objects := r.entry.Objects
	if r.last != nil {
		listed, err := parseManifest(r.last.manifest)
		if err != nil {
			return provisioner.UserActionRequired(abi.ReasonApplicationFailed, "reading the release").WithCause(err)
		}
		owned, _ := split(listed)
		objects = union(objects, owned)
	}
	left, err := r.at.survivors(ctx, objects, r.key)
	if err != nil {
		return readError(veil(err, r.hide), "verifying that everything is gone")
	}
	if len(left) > 0 {
		return r.wait(ctx, left)
	}
	return r.orphan(ctx)
}

func (r *removal) uninstall(ctx context.Context) error {
	now := r.driver.options.Now()
	if r.last.status.IsPending() && !abandoned(r.last, r.entry.Action, now, r.driver.options.Timeouts.Action) {
		return provisioner.Yield(abi.ReasonApplicationLocked, "the last revision is "+r.last.status.String()).WithRetryAfter(pollInterval)
	}
	if err := r.driver.runner.failure(r.key).holds(r.digest(), now); err != nil {
		r.driver.runner.read(r.key)
		return err
	}
	if err := r.rerecord(ctx); err != nil {
		return err
	}
	r.start(uninstallOptions{timeout: r.driver.options.Timeouts.Action, propagation: foreground}, nil)
	return r.driver.busy(r.key, stepUninstall)
}

// rerecord makes sure that the inventory lists what the release holds before the
// release's own list may go.
func (r *removal) rerecord(ctx context.Context) error {
	listed, err := parseManifest(r.last.manifest)
	if err != nil {
		return provisioner.UserActionRequired(abi.ReasonApplicationFailed, "reading the release").WithCause(err)
	}
	owned, kept := split(listed)
	e := r.entry.withObjects(union(r.entry.Objects, owned))
	e.Retained = merge(e.Retained, kept)
	if err := r.driver.inventory.put(ctx, e); err != nil {
		return provisioner.Retry(abi.ReasonUnexpected, "writing the inventory").WithCause(err)
	}
	r.entry = e
	return nil
}

// wait deletes what nobody deletes, and reports what is left.
func (r *removal) wait(ctx context.Context, left []survivor) error {
	if err := r.at.deleteAll(ctx, left, foreground); err != nil {
		return readError(veil(err, r.hide), "deleting what the uninstall left")
	}
	names := make([]string, 0, len(left))
	for _, s := range left {
		names = append(names, s.String())
	}
	why := summary(names)
	if r.overdue() {
		return provisioner.UserActionRequired(abi.ReasonApplicationStuck, why)
	}
	return provisioner.Yield(abi.ReasonApplicationDeleting, why).WithRetryAfter(r.driver.pause(r.key))
}

// start runs the uninstall in the background, and then what is to follow it.
func (r *removal) start(o uninstallOptions, then func(context.Context) error) {
	r.driver.runner.start(&job{
		key: r.key, owner: r.entry.Owner.owner(), step: stepUninstall, digest: r.digest(),
		run: func(ctx context.Context) error {
			err := r.at.uninstall(ctx, r.key, o)
			if err == nil && then != nil {
				err = then(ctx)
			}
			return err
		},
		after: func() {
			if then != nil {
				r.forget()
			}
		},
		judge: func(err error) (verdict, string) {
			v := classify(err, stageApplying)
			if v.disposition == abi.Terminal {
				// Nothing about a removal is decided by the spec, so no values are to be corrected.
				v.disposition, v.reason = abi.UserActionRequired, abi.ReasonApplicationFailed
			}
			v.final = abi.UserActionRequired
			return v, clip(strings.TrimSpace(r.hide(err.Error())))
		},
	}, r.seen)
}
