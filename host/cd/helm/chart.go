package helm

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	"github.com/go-logr/logr"
	"helm.sh/helm/v4/pkg/action"
	chartapi "helm.sh/helm/v4/pkg/chart"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
)

// maxChart is the largest archive that is fetched. A release with its chart must fit
// into a Secret of 1 MiB; charts carry some files that do not count.
const maxChart = 20 << 20

// charts fetches charts, keeps their archives by digest, and remembers which archive a
// version was for the time that its repository is away. It is safe for concurrent use.
type charts struct {
	fetch    *fetcher
	archives archives
	known    known
	timeouts Timeouts
	log      logr.Logger

	mu sync.Mutex
	// away are the versions that were last taken from the cache because their repository
	// was away: each is logged once.
	away map[version]bool
}

func newCharts(o Options) (*charts, error) {
	c := &charts{
		fetch:    newFetcher(o.PlainHTTP),
		archives: archives{dir: filepath.Join(o.CacheDir, "charts")}, known: known{dir: filepath.Join(o.CacheDir, "chart-versions")},
		timeouts: o.Timeouts, log: o.Logger, away: map[version]bool{},
	}
	for _, dir := range []string{c.archives.dir, c.known.dir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("making the chart cache: %w", err)
		}
	}
	return c, nil
}

// load returns a chart that can be installed. Its errors are provisioner errors with
// the reasons chart_not_found, chart_unavailable, chart_invalid and forbidden. A
// repository that answers decides; while it is away, the archive that it last had for
// the version is used, if that is cached.
func (c *charts) load(ctx context.Context, repo, name, number string) (*chart.Chart, error) {
	archive, err := c.archive(ctx, version{repo, name, number})
	if err != nil {
		return nil, err
	}
	loaded, err := loader.LoadArchive(bytes.NewReader(archive))
	if err != nil {
		return nil, provisioner.Terminal(abi.ReasonChartInvalid, "loading chart "+name).WithCause(err)
	}
	return loaded, installable(loaded)
}

func (c *charts) archive(ctx context.Context, v version) ([]byte, error) {
	pull, cancel := context.WithTimeout(ctx, c.timeouts.Pull)
	defer cancel()
	source, err := c.resolve(pull, v)
	var archive []byte
	if err == nil {
		archive, err = c.obtain(pull, source)
	}
	if err == nil {
		c.known.remember(v, digestOf(archive))
		c.settled(v)
		return archive, nil
	}
	if source.digest != "" || !isAway(err) || ctx.Err() != nil {
		// A repository that says which archive it is answers, even if that archive does not
		// come: another one is not what it has now.
		return nil, err
	}
	if archive, ok := c.remembered(v); ok {
		c.fallBack(v, err)
		return archive, nil
	}
	return nil, err
}

// isAway reports whether a repository did not say anything about a chart. A policy that
// forbids to ask it has the same reason and is not a yield.
func isAway(err error) bool {
	outcome := provisioner.OutcomeOf(err)
	return outcome.Class == abi.Yield && outcome.Headline.Reason == abi.ReasonChartUnavailable
}

// resolve finds a version in its repository. One whose archive is there anyway is not
// waited for long.
func (c *charts) resolve(ctx context.Context, v version) (archiveSource, error) {
	base, err := url.Parse(v.repo)
	if err != nil {
		return archiveSource{}, provisioner.Terminal(abi.ReasonChartInvalid, "the repository is not a URL")
	}
	if digest, ok := c.known.archive(v); ok && c.archives.has(digest) {
		bounded, cancel := context.WithTimeout(ctx, c.timeouts.Resolve)
		defer cancel()
		ctx = bounded
	}
	switch base.Scheme {
	case "oci":
		return c.fetch.resolveOCI(ctx, base, v.chart, v.number)
	case "http", "https":
		return c.fetch.resolveHTTP(ctx, base, v.chart, v.number)
	default:
		return archiveSource{}, provisioner.Terminal(abi.ReasonChartInvalid, "a repository starts with oci://, https:// or http://")
	}
}

// obtain returns an archive from the cache or from where it is.
func (c *charts) obtain(ctx context.Context, source archiveSource) ([]byte, error) {
	if cached, ok := c.archives.cached(source.digest); ok {
		return cached, nil
	}
	archive, err := c.fetch.get(ctx, source.url, nil, maxChart)
	if err != nil {
		return nil, err
	}
	if got := digestOf(archive); source.digest != "" && got != source.digest {
		return nil, provisioner.Terminal(abi.ReasonChartInvalid,
			fmt.Sprintf("the archive has digest %s and was announced with %s", got, source.digest))
	}
	c.archives.keep(archive)
	return archive, nil
}

// remembered returns the archive that a version last was. One that is damaged or gone is
// forgotten, so that its repository is given its full time from then on.
func (c *charts) remembered(v version) ([]byte, bool) {
	digest, ok := c.known.archive(v)
	if !ok {
		return nil, false
	}
	archive, ok := c.archives.cached(digest)
	if !ok {
		c.known.forget(v)
	}
	return archive, ok
}

// fallBack logs, once until the repository answers again, that a version is taken from
// the cache.
func (c *charts) fallBack(v version, cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away[v] {
		return
	}
	c.away[v] = true
	c.log.Info("chart repository is away, using the chart that it had", "chart", v.chart, "version", v.number, "why", clip(cause.Error()))
}

// settled notes that the repository of a version answered.
func (c *charts) settled(v version) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.away, v)
}

// archiveSource is where an archive is, and its SHA-256 in hex if that is known.
type archiveSource struct {
	url    *url.URL
	digest string
}

func installable(c *chart.Chart) error {
	if err := c.Validate(); err != nil {
		return provisioner.Terminal(abi.ReasonChartInvalid, "validating the chart").WithCause(err)
	}
	if kind := c.Metadata.Type; kind != "" && kind != "application" {
		return provisioner.Terminal(abi.ReasonChartInvalid, "a chart of type "+kind+" cannot be installed")
	}
	var wanted []chartapi.Dependency
	for _, dependency := range c.Metadata.Dependencies {
		wanted = append(wanted, dependency)
	}
	if err := action.CheckDependencies(c, wanted); err != nil {
		return provisioner.Terminal(abi.ReasonChartInvalid, "the chart lacks dependencies").WithCause(err)
	}
	return nil
}
