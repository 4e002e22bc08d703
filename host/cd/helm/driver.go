package helm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"helm.sh/helm/v4/pkg/kube"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

const (
	// pollInterval is when to look again at something that nothing watches.
	pollInterval = 5 * time.Second
	// watchedInterval is when to look again although a watch would tell.
	watchedInterval = 15 * time.Second
)

// Driver installs applications with Helm. It is safe for concurrent use. Only one
// process may drive a cluster's owners at a time: run it behind leader election.
type Driver struct {
	options   Options
	charts    *charts
	inventory *inventory
	clusters  *clusterCache
	runner    *runner
	hub       *hub
}

var (
	_ cd.Driver   = (*Driver)(nil)
	_ cd.Notifier = (*Driver)(nil)
)

// New returns a driver. It sends no request. Close it to let running actions end.
func New(o Options) (*Driver, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if have := kube.ManagedFieldsManager; have != "" && have != o.FieldManager {
		return nil, fmt.Errorf("this process applies as %q already and cannot as %q: Helm keeps the field manager in a variable", have, o.FieldManager)
	}
	if kube.ManagedFieldsManager == "" {
		kube.ManagedFieldsManager = o.FieldManager
	}
	fetched, err := newCharts(o)
	if err != nil {
		return nil, err
	}
	d := &Driver{
		options: o, charts: fetched,
		inventory: newInventory(o.Client, o.Namespace, o.Now),
		clusters:  newClusterCache(o.Timeouts.Request, o.Now),
		hub:       newHub(o.Now),
	}
	d.runner = newRunner(o.Workers, o.Now, o.Timeouts.Progress, d.finished)
	return d, nil
}

// Run forgets clusters that nothing is installed on any more, until the context ends. It
// always returns nil.
func (d *Driver) Run(ctx context.Context) error {
	ticker := time.NewTicker(clusterIdle / 4)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			d.clusters.dropIdle()
		}
	}
}

// Close refuses new actions, drops those that have not begun, and waits for running ones
// until the context ends. What is cut off, the next process takes over at once.
func (d *Driver) Close(ctx context.Context) error {
	d.hub.close()
	return d.runner.close(ctx)
}

// Subscribe implements cd.Notifier.
func (d *Driver) Subscribe(ctx context.Context, notify func(owner scope.Owner)) {
	d.hub.subscribe(ctx, notify)
}

// finished tells the owner of an action that it ended.
func (d *Driver) finished(j *job, err error) {
	log := d.options.Logger.WithValues("release", j.key.name, "namespace", j.key.namespace, "scope", j.key.scope, "step", string(j.step))
	if err != nil {
		_, why := j.judge(err)
		log.Info("action failed", "why", why)
	} else {
		log.V(1).Info("action ended")
	}
	d.hub.notify(j.owner)
}

// Ensure implements cd.Applications.
func (d *Driver) Ensure(ctx context.Context, to scope.Scope, app *cd.Application) error {
	key := releaseKey{scope: to.ID(), namespace: app.Namespace, name: app.Release}
	err := d.ensure(ctx, to, app, key)
	if errors.Is(err, provisioner.ErrUserActionRequired) {
		d.hub.recheck(key, app.ID.Owner, d.options.Timeouts.Recheck)
	}
	return err
}

func (d *Driver) ensure(ctx context.Context, to scope.Scope, app *cd.Application, key releaseKey) error {
	want, err := d.check(to, app)
	if err != nil {
		return err
	}
	seen := d.runner.ended(key)
	if running, busy := d.runner.runningFor(key, app.ID.Owner.UID); busy {
		return d.busy(key, running)
	}
	recorded, err := d.inventory.get(ctx, app.ID.Owner.UID, entryKey(to.ID(), app.ID.Path))
	if err != nil {
		return provisioner.Retry(abi.ReasonUnexpected, "reading the inventory").WithCause(err)
	}
	if recorded != nil && recorded.release() != key {
		// A release cannot be renamed or moved: the old one goes first, and completely,
		// because both may hold cluster-wide objects of one name.
		if err := d.remove(ctx, to, abi.Drain, *recorded); err != nil {
			return err
		}
		recorded = nil
	}
	at, err := d.clusters.at(to)
	if err != nil {
		return provisioner.Retry(abi.ReasonRemoteUnreachable, "reaching the cluster").WithCause(err)
	}
	last, err := at.last(ctx, app.Namespace, app.Release)
	if err != nil {
		return readError(err, "reading the release")
	}
	if recorded, err = d.madeBy(ctx, recorded, last, app.ID.Owner.UID, entryKey(to.ID(), app.ID.Path)); err != nil {
		return err
	}
	a := &attempt{driver: d, at: at, key: key, app: app, want: want, last: last, recorded: recorded, seen: seen}
	next := decide(situation{
		last: last, want: want, action: a.entry().Action, failure: d.runner.failure(key),
		now: d.options.Now(), lock: d.options.Timeouts.Action,
	})
	switch next.step {
	case stepAnswer:
		d.runner.read(key)
		return next.err
	case stepHealth:
		return a.settle(ctx)
	default:
		return a.begin(ctx, next.step)
	}
}

// madeBy returns what the inventory has, and reads it again if a revision is pending that
// no action made that is known of: one that led before may have begun it after this one
// had looked. The action is recorded before its revision.
func (d *Driver) madeBy(ctx context.Context, recorded *entry, last *revision, ownerUID, key string) (*entry, error) {
	if last == nil || !last.status.IsPending() || recorded != nil && recorded.Action.made(last) {
		return recorded, nil
	}
	d.inventory.forget(ownerUID)
	again, err := d.inventory.get(ctx, ownerUID, key)
	if err != nil {
		return nil, provisioner.Retry(abi.ReasonUnexpected, "reading the inventory").WithCause(err)
	}
	return again, nil
}

// check refuses what cannot be tried at all.
func (d *Driver) check(to scope.Scope, app *cd.Application) (identity, error) {
	if _, err := cd.ReleaseName(app.Release, app.ID); err != nil {
		return identity{}, err
	}
	if app.Release == "" || app.Namespace == "" || app.ID.Owner.UID == "" {
		return identity{}, provisioner.Terminal(abi.ReasonInvalidRelease, "release, namespace and owner must be given")
	}
	if to.State() == abi.ScopeGone {
		return identity{}, provisioner.Yield(abi.ReasonRemoteGone, "nothing is installed on a cluster that is gone").WithRetryAfter(pollInterval)
	}
	if to.State() != abi.ScopeReady || to.Config() == nil {
		return identity{}, provisioner.Yield(abi.ReasonRemotePending, "the cluster is "+string(to.State())).WithRetryAfter(pollInterval)
	}
	want, err := identify(app)
	if err != nil {
		return identity{}, provisioner.Terminal(abi.ReasonRenderFailed, "identifying the values").WithCause(err)
	}
	return want, nil
}

// busy is the answer while an action runs.
func (d *Driver) busy(key releaseKey, running step) error {
	reason := abi.ReasonApplicationUpgrading
	switch running {
	case stepInstall, stepReplace:
		reason = abi.ReasonApplicationInstalling
	case stepUninstall, stepFinishUninstall:
		reason = abi.ReasonApplicationDeleting
	default:
	}
	return provisioner.Yield(reason, "step "+string(running)+" is running").WithRetryAfter(d.pause(key))
}

// pause is when to look again: the end of an action and changes of watched objects are
// announced to those who subscribed.
func (d *Driver) pause(key releaseKey) time.Duration {
	if _, busy := d.runner.running(key); busy && d.hub.subscribed() || d.hub.watching(key) {
		return watchedInterval
	}
	return pollInterval
}

// List implements cd.Applications. It goes by the inventory, which is the truth.
func (d *Driver) List(ctx context.Context, owner scope.Owner) ([]cd.Installed, error) {
	entries, err := d.inventory.list(ctx, owner.UID)
	if err != nil {
		return nil, provisioner.Retry(abi.ReasonUnexpected, "listing applications").WithCause(err)
	}
	installed := make([]cd.Installed, 0, len(entries))
	for _, e := range entries {
		installed = append(installed, cd.Installed{
			ID: e.id(), ScopeID: e.ScopeID, Release: e.Release, Namespace: e.Namespace, Version: e.Version, Retained: e.Retained,
		})
	}
	return installed, nil
}

// Register implements cd.Clusters.
func (d *Driver) Register(ctx context.Context, id scope.ResourceIdentifier, config *clientcmdapi.Config) error {
	return registrations{d.options.Client, d.options.Namespace}.register(ctx, id, config)
}

// Registered implements cd.Clusters.
func (d *Driver) Registered(ctx context.Context, id scope.ResourceIdentifier) (*clientcmdapi.Config, error) {
	return registrations{d.options.Client, d.options.Namespace}.registered(ctx, id)
}

// Deregister implements cd.Clusters.
func (d *Driver) Deregister(ctx context.Context, id scope.ResourceIdentifier) error {
	return registrations{d.options.Client, d.options.Namespace}.deregister(ctx, id)
}
