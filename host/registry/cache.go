package registry

import (
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// tempPrefix marks files that are being written.
	tempPrefix = ".tmp-"
	// tempAge is how old an unfinished file must be to be a leftover of a crash: far
	// more than a write takes.
	tempAge = time.Hour
)

// cache keeps manifests and modules in files that are named by their digests. What it
// returns has been verified, so a damaged disk or a meddling neighbour costs a
// download and nothing else. Several processes may share its directory.
type cache struct {
	dir   string
	limit int64
	log   *slog.Logger
	// evicting keeps two writers of this process from evicting for one another.
	evicting sync.Mutex
}

// openCache makes the directory private and removes what a crash left behind.
func openCache(dir string, limit int64, log *slog.Logger) (*cache, error) {
	dir = filepath.Join(dir, "sha256")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the module cache: %w", err)
	}
	// MkdirAll leaves the mode of a directory that exists.
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(d, 0o700); err != nil {
			return nil, fmt.Errorf("make the module cache private: %w", err)
		}
	}
	c := &cache{dir: dir, limit: limit, log: log}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read the module cache: %w", err)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err == nil && strings.HasPrefix(entry.Name(), tempPrefix) && time.Since(info.ModTime()) > tempAge {
			_ = os.Remove(filepath.Join(dir, entry.Name()))
		}
	}
	return c, nil
}

// path is the file of a digest. It is made of 64 hexadecimal digits and nothing else,
// whatever an artifact says of its own name; anything else has no file.
func (c *cache) path(digest string) (string, bool) {
	if !digestPattern.MatchString(digest) {
		return "", false
	}
	return filepath.Join(c.dir, strings.TrimPrefix(digest, "sha256:")), true
}

// get returns the verified content of a digest. A file that is not what its name says
// is removed and counts as absent, as does one over limit bytes.
func (c *cache) get(digest string, limit int64) ([]byte, bool) {
	path, ok := c.path(digest)
	if !ok {
		return nil, false
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, false
	}
	defer func() { _ = file.Close() }()
	b, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil || digestOf(b) != digest {
		if int64(len(b)) <= limit {
			c.log.Warn("a file of the module cache was damaged and is fetched again", "digest", digest)
			_ = os.Remove(path)
		}
		return nil, false
	}
	// The time of use orders the eviction; without it a file merely goes earlier.
	now := time.Now()
	_ = os.Chtimes(path, now, now)
	return b, true
}

// put stores b, which must have that digest. That the disk is full or read-only is
// logged only: the caller has the bytes.
func (c *cache) put(digest string, b []byte) {
	path, ok := c.path(digest)
	if !ok || int64(len(b)) > c.limit {
		return
	}
	if err := c.write(path, b); err != nil {
		c.log.Warn("the module cache could not be written", "error", err)
		return
	}
	c.evict(path)
}

// write makes the file appear whole or not at all.
func (c *cache) write(path string, b []byte) error {
	temp, err := os.CreateTemp(c.dir, tempPrefix+"*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp.Name()) }()
	if _, err := temp.Write(b); err != nil {
		_ = temp.Close()
		return err
	}
	if err := temp.Close(); err != nil {
		return err
	}
	return os.Rename(temp.Name(), path)
}

type cached struct {
	path string
	size int64
	used time.Time
}

// evict removes the least recently used files until the limit holds; keep stays.
func (c *cache) evict(keep string) {
	c.evicting.Lock()
	defer c.evicting.Unlock()
	files, total := c.list()
	slices.SortFunc(files, func(a, b cached) int { return a.used.Compare(b.used) })
	for _, file := range files {
		if total <= c.limit {
			return
		}
		if file.path == keep {
			continue
		}
		if err := os.Remove(file.path); err == nil {
			total -= file.size
		}
	}
}

// list returns the finished files and the sum of their sizes.
func (c *cache) list() ([]cached, int64) {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return nil, 0
	}
	var total int64
	files := make([]cached, 0, len(entries))
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || info.Mode().Type() != fs.FileMode(0) || strings.HasPrefix(entry.Name(), tempPrefix) {
			continue
		}
		files = append(files, cached{path: filepath.Join(c.dir, entry.Name()), size: info.Size(), used: info.ModTime()})
		total += info.Size()
	}
	return files, total
}
