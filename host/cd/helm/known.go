package helm

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// maxKnown is how many versions are remembered; the ones used longest ago go first. It
// is above maxCached because charts are mirrored: several versions share an archive.
const maxKnown = 4 * maxCached

// version names one version of a chart in one repository, exactly as it was asked for.
type version struct {
	repo, chart, number string
}

// file is the name of the version's file. It is a hash, since a repository's URL may
// hold credentials and none of the three is a safe path.
func (v version) file() string {
	return digestOf(fmt.Appendf(nil, "%q", []string{strings.TrimSuffix(v.repo, "/"), v.chart, v.number}))
}

// known remembers on disk which archive a version last was, one small file a version. A
// chart's version does not change, by Helm's convention, so what a repository that is
// away would say is what it said before. A file that is damaged counts as none.
type known struct{ dir string }

// archive returns the digest of a version's archive, and whether it is known.
func (k known) archive(v version) (string, bool) {
	raw, err := os.ReadFile(k.path(v))
	if err != nil {
		return "", false
	}
	digest := string(raw)
	return digest, isDigest(digest)
}

// remember notes a version's archive. Like the cache, it has no errors: what cannot be
// written is missed only while a repository is away.
func (k known) remember(v version, digest string) {
	if before, ok := k.archive(v); ok && before == digest {
		now := time.Now()
		_ = os.Chtimes(k.path(v), now, now) // It only decides what is evicted first.
		return
	}
	if writeFile(k.path(v), []byte(digest)) == nil {
		evict(k.dir, maxKnown)
	}
}

// forget drops a version whose archive is not there any more.
func (k known) forget(v version) { _ = os.Remove(k.path(v)) }

func (k known) path(v version) string { return filepath.Join(k.dir, v.file()) }
