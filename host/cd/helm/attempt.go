package helm

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	helmrelease "helm.sh/helm/v4/pkg/release/v1"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/provisioner"
)

// attempt is one call of Ensure, and the action that it may start.
type attempt struct {
	driver *Driver
	at     *cluster
	key    releaseKey
	app    *cd.Application
	want   identity
	last   *revision
	// recorded is what the inventory has, or nil.
	recorded *entry
	// seen is how far the actions on the release had come before anything was read.
	seen uint64
}

// begin starts an action. Everything that the caller owns is read before it returns.
func (a *attempt) begin(ctx context.Context, next step) error {
	if next == stepReplace {
		if err := a.awaitGone(ctx); err != nil {
			return err
		}
	}
	rendered, err := render(a.app)
	if err != nil {
		var typed *provisioner.Error
		if errors.As(err, &typed) {
			return err
		}
		return provisioner.Retry(abi.ReasonSecretMissing, "preparing the values").WithCause(err)
	}
	before := a.entry()
	// What is replaced may be quoted as well, and what an uninstall runs into is all of it.
	rendered.secrets = append(rendered.secrets, a.last.secrets(before.Secrets)...)
	r := &request{
		driver: a.driver, at: a.at, key: a.key, want: a.want, step: next, rendered: rendered, entry: before,
		repo: a.app.Repo, chart: a.app.Chart, version: a.app.Version, createNamespace: a.app.CreateNamespace,
	}
	a.driver.runner.start(&job{
		key: a.key, owner: a.app.ID.Owner, step: next, digest: a.want.digest(), run: r.run, judge: r.judge,
	}, a.seen)
	return a.driver.busy(a.key, next)
}

// awaitGone keeps an install from running into objects that the last uninstall is still
// removing: they would be applied, and then vanish.
func (a *attempt) awaitGone(ctx context.Context) error {
	objects, err := parseManifest(a.last.manifest)
	if err != nil {
		return provisioner.UserActionRequired(abi.ReasonApplicationFailed, "reading the last release").WithCause(err)
	}
	owned, _ := split(objects)
	left, err := a.at.survivors(ctx, owned, a.key)
	if err != nil {
		return readError(err, "looking for what the last release left")
	}
	for _, s := range left {
		if s.terminating {
			return provisioner.Yield(abi.ReasonApplicationDeleting, s.String()).WithRetryAfter(a.driver.pause(a.key))
		}
	}
	return nil
}

// entry is what the inventory has to say before an action: what is there already stays
// listed, and an action that was cut off stays recorded until another takes its place.
func (a *attempt) entry() entry {
	e := entry{
		Owner: recordOwner(a.app.ID.Owner), Path: a.app.ID.Path, Name: a.app.ID.Name, ScopeID: a.key.scope,
		Release: a.key.name, Namespace: a.key.namespace, Version: a.app.Version, Chart: a.want.chart, Values: a.want.values,
	}
	if a.recorded != nil {
		e.Objects, e.Omitted, e.Retained = a.recorded.Objects, a.recorded.Omitted, a.recorded.Retained
		e.Secrets, e.Action = a.recorded.Secrets, a.recorded.Action
	}
	return e
}

// settle reads the objects of a release that is as desired, and says how they are.
func (a *attempt) settle(ctx context.Context) error {
	objects, err := parseManifest(a.last.manifest)
	if err != nil {
		return provisioner.UserActionRequired(abi.ReasonApplicationFailed, "reading the release").WithCause(err)
	}
	if a.last.outdated {
		if err := a.at.supersede(ctx, a.key.namespace, a.key.name); err != nil {
			return readError(err, "taking the mark off older revisions")
		}
	}
	if err := a.confirm(ctx, objects); err != nil {
		return err
	}
	a.driver.hub.track(a.key, a.app.ID.Owner, a.at, a.targets(objects))
	findings, err := a.at.assess(ctx, objects, a.key.namespace)
	if err != nil {
		return readError(err, "reading the objects of the release")
	}
	state, why := worst(findings)
	now := a.driver.options.Now()
	var w waiting
	a.driver.runner.with(a.key, func(r *record) {
		r.removing, r.failure = time.Time{}, nil
		r.waiting = r.waiting.observe(state, a.last.number, now)
		w = r.waiting
	})
	a.driver.hub.ready(a.key, state == healthReady)
	if state == healthDrifted {
		return a.repair(ctx, why, now)
	}
	p := patience{
		progress: a.driver.options.Timeouts.Progress, degraded: a.driver.options.Timeouts.Degraded,
		poll: a.driver.pause(a.key), acceptFailed: a.app.AllowDegraded,
	}
	if verdict := judge(state, why, w, p, now); verdict != nil {
		return verdict
	}
	return nil
}

// confirm makes the inventory say what is deployed or still there, and that no action is
// open, if it does not.
func (a *attempt) confirm(ctx context.Context, objects []manifestObject) error {
	owned, kept := split(objects)
	left, err := a.sweep(ctx, objects)
	if err != nil {
		return err
	}
	e := a.entry().withObjects(union(owned, left))
	e.Retained, e.Action = merge(e.Retained, kept), nil
	if a.recorded != nil && reflect.DeepEqual(*a.recorded, e) {
		return nil
	}
	if err := a.driver.inventory.put(ctx, e); err != nil {
		return provisioner.Retry(abi.ReasonUnexpected, "writing the inventory").WithCause(err)
	}
	return nil
}

// repair puts deleted objects back, by an upgrade to the same.
func (a *attempt) repair(ctx context.Context, why string, now time.Time) error {
	var due bool
	var count int
	a.driver.runner.with(a.key, func(r *record) {
		r.repairs, due = r.repairs.next(now, a.driver.options.Timeouts.Progress)
		count = r.repairs.count
	})
	if due {
		return a.begin(ctx, stepUpgrade)
	}
	if count >= maxRepairs {
		return provisioner.UserActionRequired(abi.ReasonApplicationDegraded, "put back "+fmt.Sprint(count)+" times: "+why)
	}
	return provisioner.Yield(abi.ReasonApplicationDegraded, why).WithRetryAfter(pollInterval)
}

// targets are the kinds to watch. A kind that the cluster does not know is left out.
func (a *attempt) targets(objects []manifestObject) []target {
	var targets []target
	for _, o := range objects {
		mapping, err := a.at.mapping(o.object)
		if err != nil {
			continue
		}
		t := target{resource: mapping.Resource}
		if mapping.Scope.Name() == "namespace" {
			t.namespace = a.key.namespace
			if o.Namespace != "" {
				t.namespace = o.Namespace
			}
		}
		if !slices.Contains(targets, t) {
			targets = append(targets, t)
		}
	}
	return targets
}

// merge adds names to a list, sorted and without doubles.
func merge(list []string, more []string) []string {
	merged := slices.Concat(list, more)
	slices.Sort(merged)
	merged = slices.Compact(merged)
	if len(merged) == 0 {
		return nil
	}
	return merged
}

// hookLeftovers lists what hooks leave: Helm does not count hooks as part of a release.
func hookLeftovers(hooks []*helmrelease.Hook) []string {
	var left []string
	for _, h := range hooks {
		runs := slices.ContainsFunc(h.Events, func(e helmrelease.HookEvent) bool { return e != helmrelease.HookTest })
		if !runs || slices.Contains(h.DeletePolicies, helmrelease.HookSucceeded) {
			continue
		}
		left = append(left, h.Kind+"/"+h.Name)
	}
	return left
}
