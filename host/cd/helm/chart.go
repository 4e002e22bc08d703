package helm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/action"
	chartapi "helm.sh/helm/v4/pkg/chart"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
)

const (
	// maxChart is the largest archive that is fetched. A release with its chart must fit
	// into a Secret of 1 MiB; charts carry some files that do not count.
	maxChart = 20 << 20
	// maxCached is how many archives are kept; the ones used longest ago go first.
	maxCached = 256
)

// charts fetches charts and keeps their archives by digest.
type charts struct {
	fetch   *fetcher
	dir     string
	timeout time.Duration
}

func newCharts(o Options) (*charts, error) {
	dir := filepath.Join(o.CacheDir, "charts")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the chart cache: %w", err)
	}
	return &charts{fetch: newFetcher(o.PlainHTTP), dir: dir, timeout: o.Timeouts.Pull}, nil
}

// load returns a chart that can be installed. Its errors are provisioner errors with
// the reasons chart_not_found, chart_unavailable and chart_invalid.
func (c *charts) load(ctx context.Context, repo, name, version string) (*chart.Chart, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	archive, err := c.archive(ctx, repo, name, version)
	if err != nil {
		return nil, err
	}
	loaded, err := loader.LoadArchive(bytes.NewReader(archive))
	if err != nil {
		return nil, provisioner.Terminal(abi.ReasonChartInvalid, "loading chart "+name).WithCause(err)
	}
	return loaded, installable(loaded)
}

func (c *charts) archive(ctx context.Context, repo, name, version string) ([]byte, error) {
	base, err := url.Parse(repo)
	if err != nil {
		return nil, provisioner.Terminal(abi.ReasonChartInvalid, "the repository is not a URL")
	}
	var source archiveSource
	switch base.Scheme {
	case "oci":
		source, err = c.fetch.resolveOCI(ctx, base, name, version)
	case "http", "https":
		source, err = c.fetch.resolveHTTP(ctx, base, name, version)
	default:
		return nil, provisioner.Terminal(abi.ReasonChartInvalid, "a repository starts with oci://, https:// or http://")
	}
	if err != nil {
		return nil, err
	}
	if cached, ok := c.cached(source.digest); ok {
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
	c.keep(archive)
	return archive, nil
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

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// cached returns an archive, if it is there and still what its name says.
func (c *charts) cached(digest string) ([]byte, bool) {
	if len(digest) != sha256.Size*2 || strings.Trim(digest, "0123456789abcdef") != "" {
		return nil, false
	}
	path := filepath.Join(c.dir, digest+".tgz")
	content, err := os.ReadFile(path)
	if err != nil || digestOf(content) != digest {
		return nil, false
	}
	now := time.Now()
	_ = os.Chtimes(path, now, now) // It only decides what is evicted first.
	return content, true
}

// keep stores an archive. A cache that cannot be written to costs a download and is no
// reason to fail.
func (c *charts) keep(content []byte) {
	file, err := os.CreateTemp(c.dir, "incoming-*")
	if err != nil {
		return
	}
	_, err = file.Write(content)
	if closeErr := file.Close(); err != nil || closeErr != nil {
		_ = os.Remove(file.Name())
		return
	}
	if err := os.Rename(file.Name(), filepath.Join(c.dir, digestOf(content)+".tgz")); err != nil {
		_ = os.Remove(file.Name())
		return
	}
	c.evict()
}

func (c *charts) evict() {
	paths, err := filepath.Glob(filepath.Join(c.dir, "*.tgz"))
	if err != nil || len(paths) <= maxCached {
		return
	}
	used := func(path string) time.Time {
		info, err := os.Stat(path)
		if err != nil {
			return time.Time{}
		}
		return info.ModTime()
	}
	sort.Slice(paths, func(i, j int) bool { return used(paths[i]).Before(used(paths[j])) })
	for _, path := range paths[:len(paths)-maxCached] {
		_ = os.Remove(path)
	}
}
