package helm

import (
	"context"
	"errors"
	"fmt"

	"helm.sh/helm/v4/pkg/action"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/release/common"
	release "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
)

const (
	// maxHistory is how many revisions Helm keeps; each is a Secret with a chart inside.
	maxHistory = 5
	// maxWhy bounds what a log line quotes of an error: SDK errors can hold a manifest.
	maxWhy = 2048
	// fieldsCheckedByServer keeps Helm from asking, for each manifest, whether the API server
	// checks fields: it parses the OpenAPI document of core/v1 to find out, which was half of
	// the operator's CPU time when many Stacks came up. Every API server since Kubernetes 1.25
	// does, and Helm demands it ("Strict") in each request that writes.
	fieldsCheckedByServer = true
)

// request is an action that makes a release as desired. It holds everything it needs,
// because the call that asked for it has long returned.
type request struct {
	driver          *Driver
	at              *cluster
	key             releaseKey
	want            identity
	step            step
	rendered        rendering
	entry           entry
	repo            string
	chart           string
	version         string
	createNamespace bool
}

// actionError is the error of a Helm action with how far it had come.
type actionError struct {
	stage stage
	err   error
}

// Error implements error.
func (e *actionError) Error() string { return e.err.Error() }

// Unwrap returns the error of the SDK.
func (e *actionError) Unwrap() error { return e.err }

// judge says what an error of run means. Its text has no secrets in it.
func (r *request) judge(err error) (verdict, string) {
	at := stageApplying
	var failed *actionError
	if errors.As(err, &failed) {
		at = failed.stage
	}
	v := classify(err, at)
	if v.stale {
		r.at.mapper.Reset()
	}
	return v, clip(r.rendered.hide(err.Error()))
}

func clip(text string) string {
	if len(text) > maxWhy {
		return text[:maxWhy] + "…"
	}
	return text
}

func (r *request) run(ctx context.Context) error {
	if r.step == stepFinishUninstall {
		// The next call finds the release uninstalled, and installs.
		return r.at.uninstall(ctx, r.key, uninstallOptions{timeout: r.driver.options.Timeouts.Action, propagation: foreground})
	}
	loaded, err := r.driver.charts.load(ctx, r.repo, r.chart, r.version)
	if err != nil {
		return err
	}
	if err := r.announce(ctx, loaded); err != nil {
		return err
	}
	if r.step == stepUnlock {
		if err := r.at.unlock(ctx, r.key); err != nil {
			return err
		}
	}
	config, records, _ := r.at.configuration(ctx, r.key.namespace, func(rel *release.Release) error {
		return r.record(ctx, rel, newBegun(r.step, rel.Version, rel.Info.LastDeployed))
	})
	var result any
	switch r.step {
	case stepInstall, stepReplace:
		result, err = r.install(ctx, config, loaded)
	default:
		result, err = r.upgrade(ctx, config, loaded)
	}
	if err != nil {
		at := stageRendering
		if records.created {
			at = stageApplying
		}
		return &actionError{stage: at, err: err}
	}
	if records.unmarked != nil {
		// The action stays recorded, so that the next one takes the pending revision over.
		return &actionError{stage: stageApplying, err: fmt.Errorf("marking the release as deployed: %w", records.unmarked)}
	}
	rel, ok := result.(*release.Release)
	if !ok {
		return fmt.Errorf("helm answered with a %T", result)
	}
	// What the revision dropped stays listed until it has been looked for.
	return r.record(ctx, rel, nil)
}

func (r *request) install(ctx context.Context, config *action.Configuration, loaded *chart.Chart) (any, error) {
	install := action.NewInstall(config)
	install.ReleaseName, install.Namespace = r.key.name, r.key.namespace
	install.CreateNamespace = r.createNamespace
	install.Replace = r.step == stepReplace
	install.WaitStrategy = kube.HookOnlyStrategy
	install.Timeout = r.driver.options.Timeouts.Action
	install.ServerSideApply, install.ForceConflicts, install.TakeOwnership = true, false, false
	install.DisableOpenAPIValidation = fieldsCheckedByServer
	install.Labels = r.want.labels()
	return install.RunWithContext(ctx, loaded, r.rendered.values)
}

func (r *request) upgrade(ctx context.Context, config *action.Configuration, loaded *chart.Chart) (any, error) {
	upgrade := action.NewUpgrade(config)
	upgrade.Namespace = r.key.namespace
	upgrade.WaitStrategy = kube.HookOnlyStrategy
	upgrade.Timeout = r.driver.options.Timeouts.Action
	upgrade.ServerSideApply, upgrade.ForceConflicts, upgrade.TakeOwnership = "auto", false, false
	upgrade.DisableOpenAPIValidation = fieldsCheckedByServer
	upgrade.ResetValues = true
	upgrade.MaxHistory = maxHistory
	upgrade.Labels = r.want.labels()
	return upgrade.RunWithContext(ctx, r.key.name, loaded, r.rendered.values)
}

// announce records, before anything happens, what is made outside the manifest: the
// namespace and the CRDs, both of which stay. Everything else is recorded when it is
// known, just before Helm stores the revision.
func (r *request) announce(ctx context.Context, loaded *chart.Chart) error {
	if r.step != stepInstall && r.step != stepReplace {
		return nil
	}
	before := len(r.entry.Retained)
	if err := r.settleNamespace(ctx); err != nil {
		return err
	}
	for _, crd := range loaded.CRDObjects() {
		objects, err := parseManifest(string(crd.File.Data))
		if err != nil {
			return &actionError{stage: stageRendering, err: err}
		}
		for _, o := range objects {
			r.entry.Retained = merge(r.entry.Retained, []string{o.String()})
		}
	}
	if len(r.entry.Retained) == before {
		return nil
	}
	return r.put(ctx, r.entry)
}

// put writes the inventory. It uses the operator's rights and not the tenant's, so a
// refusal must not look like one of theirs.
func (r *request) put(ctx context.Context, e entry) error {
	if err := r.driver.inventory.put(ctx, e); err != nil {
		return provisioner.Retry(abi.ReasonUnexpected, "writing the inventory").WithCause(err)
	}
	return nil
}

// settleNamespace finds out whether the namespace is to be made. Helm would apply one
// that exists, for which a tenant needs no right and usually has none.
func (r *request) settleNamespace(ctx context.Context) error {
	if !r.createNamespace {
		return nil
	}
	_, err := r.at.clientset.CoreV1().Namespaces().Get(ctx, r.key.namespace, metav1.GetOptions{})
	switch {
	case err == nil:
		r.createNamespace = false
	case apierrors.IsNotFound(err):
		r.entry.Retained = merge(r.entry.Retained, []string{"Namespace/" + r.key.namespace})
	case !apierrors.IsForbidden(err):
		return fmt.Errorf("looking for namespace %s: %w", r.key.namespace, err)
	}
	return nil
}

// record adds what a revision holds to the inventory, and the action that makes it as long
// as that has not succeeded. A failed action stays recorded: if Helm could not even mark
// the revision as failed, the lock comes off by it.
func (r *request) record(ctx context.Context, rel *release.Release, action *begun) error {
	objects, err := parseManifest(rel.Manifest)
	if err != nil {
		return err
	}
	owned, kept := split(objects)
	e := r.entry.withObjects(union(r.entry.Objects, owned))
	e.Retained = merge(e.Retained, append(kept, hookLeftovers(rel.Hooks)...))
	e.Secrets, e.Action = mergePlaces(e.Secrets, r.rendered.places), action
	if err := r.put(ctx, e); err != nil {
		return err
	}
	r.entry.Retained, r.entry.Secrets = e.Retained, e.Secrets
	return nil
}

// unlock marks the pending revision of a process that is gone as failed. From there an
// upgrade is possible, also from a first install.
func (c *cluster) unlock(ctx context.Context, key releaseKey) error {
	releases, err := c.history(ctx, key.namespace, key.name)
	if err != nil || len(releases) == 0 {
		return err
	}
	last := newest(releases)
	if !last.Info.Status.IsPending() {
		return nil
	}
	last.SetStatus(common.StatusFailed, "Interrupted while "+last.Info.Status.String())
	if err := storage.Init(c.records(ctx, key.namespace)).Update(last); err != nil {
		return fmt.Errorf("unlocking release %s: %w", key.name, err)
	}
	return nil
}
