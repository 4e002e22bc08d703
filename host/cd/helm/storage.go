package helm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/kube"
	helmrelease "helm.sh/helm/v4/pkg/release"
	"helm.sh/helm/v4/pkg/release/common"
	release "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// errUnreadable says that a release record exists that Helm cannot decode.
var errUnreadable = errors.New("a record of the release cannot be read")

// revision is the last record of a release, as far as it decides anything.
type revision struct {
	number   int
	status   common.Status
	labels   map[string]string
	updated  time.Time
	manifest string
	// values are those of every revision that there still is.
	values []map[string]any
	// outdated says that an older revision still counts as deployed as well.
	outdated bool
}

// history returns every record of a release; none is not an error.
func (c *cluster) history(ctx context.Context, namespace, name string) ([]*release.Release, error) {
	secrets := &boundSecrets{SecretInterface: c.clientset.CoreV1().Secrets(namespace), ctx: ctx}
	records := driver.NewSecrets(secrets)
	records.SetLogger(slog.DiscardHandler)
	found, err := records.Query(map[string]string{"name": name, "owner": "helm"})
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading release %s: %w", name, err)
	}
	if len(found) != secrets.listed {
		return nil, fmt.Errorf("release %s: %w", name, errUnreadable)
	}
	releases := make([]*release.Release, 0, len(found))
	for _, item := range found {
		rel, ok := item.(*release.Release)
		if !ok || rel.Info == nil {
			return nil, fmt.Errorf("release %s: %w", name, errUnreadable)
		}
		releases = append(releases, rel)
	}
	return releases, nil
}

// last returns the newest record of a release, or nil if there is none.
func (c *cluster) last(ctx context.Context, namespace, name string) (*revision, error) {
	releases, err := c.history(ctx, namespace, name)
	if err != nil || len(releases) == 0 {
		return nil, err
	}
	last := summarise(newest(releases))
	last.outdated = len(outdated(releases)) > 0
	for _, rel := range releases {
		last.values = append(last.values, rel.Config)
	}
	return last, nil
}

// secrets are the texts that the revisions have at the places, which may be nil.
func (r *revision) secrets(at []string) []string {
	if r == nil {
		return nil
	}
	var texts []string
	for _, values := range r.values {
		texts = append(texts, textsAt(values, at)...)
	}
	return texts
}

// outdated are the revisions that count as deployed although a newer one is. An upgrade
// takes that mark off before it sets its own, but goes on if it cannot.
func outdated(releases []*release.Release) []*release.Release {
	last := newest(releases)
	if last.Info.Status != common.StatusDeployed {
		return nil
	}
	var found []*release.Release
	for _, rel := range releases {
		if rel.Version < last.Version && rel.Info.Status == common.StatusDeployed {
			found = append(found, rel)
		}
	}
	return found
}

// supersede marks what is outdated as such, so that one revision counts as deployed.
func (c *cluster) supersede(ctx context.Context, namespace, name string) error {
	releases, err := c.history(ctx, namespace, name)
	if err != nil || len(releases) == 0 {
		return err
	}
	records := storage.Init(c.records(ctx, namespace))
	for _, rel := range outdated(releases) {
		rel.Info.Status = common.StatusSuperseded
		if err := records.Update(rel); err != nil {
			return fmt.Errorf("marking revision %d of release %s as superseded: %w", rel.Version, name, err)
		}
	}
	return nil
}

func newest(releases []*release.Release) *release.Release {
	last := releases[0]
	for _, rel := range releases[1:] {
		if rel.Version > last.Version {
			last = rel
		}
	}
	return last
}

func summarise(rel *release.Release) *revision {
	return &revision{
		number: rel.Version, status: rel.Info.Status, labels: rel.Labels, updated: rel.Info.LastDeployed,
		manifest: rel.Manifest,
	}
}

// purge deletes every record of a release and leaves its objects alone.
func (c *cluster) purge(ctx context.Context, namespace, name string) error {
	releases, err := c.history(ctx, namespace, name)
	if err != nil {
		return err
	}
	records := storage.Init(c.records(ctx, namespace))
	for _, rel := range releases {
		if _, err := records.Delete(rel.Name, rel.Version); err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
			return fmt.Errorf("deleting the records of release %s: %w", name, err)
		}
	}
	return nil
}

func (c *cluster) records(ctx context.Context, namespace string) *driver.Secrets {
	records := driver.NewSecrets(&boundSecrets{SecretInterface: c.clientset.CoreV1().Secrets(namespace), ctx: ctx})
	records.SetLogger(slog.DiscardHandler)
	return records
}

// configuration is what one Helm action works with. Actions must not share one.
func (c *cluster) configuration(ctx context.Context, namespace string, before func(*release.Release) error) (*action.Configuration, *observer, *causes) {
	logs := &causes{}
	handler := slog.Handler(causeHandler{causes: logs})
	config := action.NewConfiguration(action.ConfigurationSetLogger(handler))
	g := getter{cluster: c, namespace: namespace}
	client := kube.New(g)
	client.Namespace = namespace
	client.SetLogger(handler)
	records := &observer{Driver: c.records(ctx, namespace), before: before}
	config.RESTClientGetter = g
	config.KubeClient = client
	config.Releases = storage.Init(records)
	config.Releases.SetLogger(handler)
	config.HookOutputFunc = func(_, _, _ string) io.Writer { return io.Discard }
	return config, records, logs
}

// observer sees every record before Helm stores it, which is before Helm applies what
// the record says.
type observer struct {
	driver.Driver
	before func(*release.Release) error
	// created says that a record was stored: what fails later failed while applying, and
	// what failed earlier did so while rendering. version is the revision that it is of.
	created bool
	version int
	// unmarked is why that record still says what it said when it was stored; nil if it
	// was updated since. Helm logs that, and calls an install a success all the same.
	unmarked error
}

// Update implements driver.Updator.
func (o *observer) Update(key string, rel helmrelease.Releaser) error {
	err := o.Driver.Update(key, rel)
	if r, ok := rel.(*release.Release); ok && o.created && r.Version == o.version {
		o.unmarked = err
	}
	return err
}

// Create implements driver.Creator.
func (o *observer) Create(key string, rel helmrelease.Releaser) error {
	if r, ok := rel.(*release.Release); ok && o.before != nil {
		if err := o.before(r); err != nil {
			return err
		}
	}
	if err := o.Driver.Create(key, rel); err != nil {
		return err
	}
	o.created = true
	if r, ok := rel.(*release.Release); ok {
		o.version = r.Version
	}
	return nil
}

// boundSecrets replaces the context of every call, because Helm's storage passes none.
type boundSecrets struct {
	typedcorev1.SecretInterface
	ctx    context.Context //nolint:containedctx // Helm's storage has no context to pass on.
	listed int
}

// Create implements SecretInterface.
func (b *boundSecrets) Create(_ context.Context, s *corev1.Secret, o metav1.CreateOptions) (*corev1.Secret, error) {
	return b.SecretInterface.Create(b.ctx, s, o)
}

// Update implements SecretInterface.
func (b *boundSecrets) Update(_ context.Context, s *corev1.Secret, o metav1.UpdateOptions) (*corev1.Secret, error) {
	return b.SecretInterface.Update(b.ctx, s, o)
}

// Delete implements SecretInterface.
func (b *boundSecrets) Delete(_ context.Context, name string, o metav1.DeleteOptions) error {
	return b.SecretInterface.Delete(b.ctx, name, o)
}

// Get implements SecretInterface.
func (b *boundSecrets) Get(_ context.Context, name string, o metav1.GetOptions) (*corev1.Secret, error) {
	return b.SecretInterface.Get(b.ctx, name, o)
}

// List implements SecretInterface. It counts what came back: Helm drops records that it
// cannot decode without a word.
func (b *boundSecrets) List(_ context.Context, o metav1.ListOptions) (*corev1.SecretList, error) {
	list, err := b.SecretInterface.List(b.ctx, o)
	if err == nil {
		b.listed = len(list.Items)
	}
	return list, err
}
