package helm

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// maxCached is how many archives are kept; the ones used longest ago go first.
	maxCached = 256
	// incoming is how the names of files begin that are being written.
	incoming = "incoming-"
)

// archives keeps chart archives on disk, by digest. Nothing that it holds is believed.
type archives struct{ dir string }

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// isDigest reports whether text is a SHA-256 as digestOf writes it, and so a safe name.
func isDigest(text string) bool {
	return len(text) == sha256.Size*2 && strings.Trim(text, "0123456789abcdef") == ""
}

func (a archives) path(digest string) string { return filepath.Join(a.dir, digest+".tgz") }

// has reports whether an archive is there, intact or not.
func (a archives) has(digest string) bool {
	_, err := os.Stat(a.path(digest))
	return err == nil
}

// cached returns an archive, if it is there and still what its name says.
func (a archives) cached(digest string) ([]byte, bool) {
	if !isDigest(digest) {
		return nil, false
	}
	content, err := os.ReadFile(a.path(digest))
	if err != nil || digestOf(content) != digest {
		return nil, false
	}
	now := time.Now()
	_ = os.Chtimes(a.path(digest), now, now) // It only decides what is evicted first.
	return content, true
}

// keep stores an archive. A cache that cannot be written to costs a download and is no
// reason to fail.
func (a archives) keep(content []byte) {
	if writeFile(a.path(digestOf(content)), content) == nil {
		evict(a.dir, maxCached)
	}
}

// writeFile replaces a file, or leaves it as it was. It is not synced: whoever reads it
// checks what it holds.
func writeFile(path string, content []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), incoming+"*")
	if err != nil {
		return fmt.Errorf("making a file: %w", err)
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
		return fmt.Errorf("writing a file: %w", err)
	}
	return nil
}

// evict removes the files of a directory that were used longest ago, down to so many.
// Those that are being written are left out.
func evict(dir string, most int) {
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) <= most {
		return
	}
	used := map[string]time.Time{}
	var names []string
	for _, e := range entries {
		if info, err := e.Info(); err == nil && !strings.HasPrefix(e.Name(), incoming) {
			names = append(names, e.Name())
			used[e.Name()] = info.ModTime()
		}
	}
	slices.SortFunc(names, func(a, b string) int { return used[a].Compare(used[b]) })
	for _, name := range names[:max(0, len(names)-most)] {
		_ = os.Remove(filepath.Join(dir, name))
	}
}
