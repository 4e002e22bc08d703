package sandbox

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/cpu"
)

// Native code out of the cache is run, so a file that is damaged, or that somebody has
// put there, must not be. When a module has been compiled its files are sealed: their
// sizes and hashes are written down beside them with a code that only this installation
// can make. Before a worker starts, the files are compared with the seal; what does not
// agree with it in every detail is thrown away and compiled again.
//
// Whoever can become this user can read the key as well. What the seal protects from is a
// disk that rots, a cache that is copied from elsewhere or restored from a backup, and a
// directory that others could once write to.

const (
	// sealName is the file with the seal of a module, keyName the installation's secret.
	sealName = "native.json"
	keyName  = "seal.key"
	keyBytes = 32
	// maxSealBytes bounds what is read of a seal, which names two files.
	maxSealBytes = 64 * kib
	// nativePattern matches what the compiler writes, below a module's directory.
	nativePattern = "wazero-*"
)

// errUnsealed says that there is no native code that may be run.
var errUnsealed = errors.New("the native code is missing or not what its seal says")

// seal is what is written down about native code.
type seal struct {
	// Engine is the compiler that made it.
	Engine string `json:"engine"`
	// Files are the files by their path below the module's directory.
	Files map[string]sealedFile `json:"files"`
	// Code authenticates the other fields for one module of one installation.
	Code string `json:"code,omitempty"`
}

type sealedFile struct {
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// authenticate returns the code of the seal.
func (s seal) authenticate(key []byte, digest string) (string, error) {
	s.Code = ""
	content, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("encode a seal: %w", err)
	}
	h := hmac.New(sha256.New, key)
	h.Write([]byte(digest + "\n"))
	h.Write(content)
	return hex.EncodeToString(h.Sum(nil)), nil
}

// rewritingVersion is that of what is done to a module before it is compiled (rewritten):
// native code of another one is not found by the compiler.
const rewritingVersion = 3

// engine names the compiler of this program.
func engine() string {
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dependency := range info.Deps {
			if dependency.Path == "github.com/tetratelabs/wazero" {
				version = dependency.Version
			}
		}
	}
	// The compiler uses what the processor can do, and does not take what it made for another.
	processor := sha256.Sum256(fmt.Append(nil, cpu.X86, cpu.ARM64))
	return fmt.Sprintf("wazero %s %s/%s %x %s rewriting %d", version, runtime.GOOS, runtime.GOARCH, processor[:4], runtime.Version(), rewritingVersion)
}

// nativeCode is the native code of one module.
type nativeCode struct {
	dir    string
	digest string
	key    []byte

	mu sync.Mutex
	// verified are the fingerprints of files whose content has been compared with the seal
	// by this process.
	verified map[string]string
}

// files lists what the compiler has written, sorted. Anything but a regular file is an
// error.
func (n *nativeCode) files() ([]string, error) {
	var names []string
	roots, err := filepath.Glob(filepath.Join(n.dir, nativePattern))
	if err != nil {
		return nil, fmt.Errorf("look for native code: %w", err)
	}
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			if !entry.Type().IsRegular() {
				return fmt.Errorf("%s is not a regular file", path)
			}
			if strings.HasSuffix(path, ".tmp") { // a worker that died while it was writing
				return nil
			}
			name, err := filepath.Rel(n.dir, path)
			names = append(names, filepath.ToSlash(name))
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("look for native code: %w", err)
		}
	}
	slices.Sort(names)
	return names, nil
}

// seal writes down what is there.
func (n *nativeCode) seal() error {
	names, err := n.files()
	if err != nil {
		return err
	}
	s := seal{Engine: engine(), Files: map[string]sealedFile{}}
	for _, name := range names {
		file, _, err := n.sum(name)
		if err != nil {
			return fmt.Errorf("seal native code: %w", err)
		}
		s.Files[name] = file
	}
	if s.Code, err = s.authenticate(n.key, n.digest); err != nil {
		return err
	}
	content, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode a seal: %w", err)
	}
	if err := writeAtomically(filepath.Join(n.dir, sealName), content); err != nil {
		return fmt.Errorf("seal native code: %w", err)
	}
	return nil
}

// verify reports whether there is native code that may be run: nil, or errUnsealed. A file
// is read once in the life of this process and then only looked at, unless it changes.
func (n *nativeCode) verify() error {
	s, err := n.readSeal()
	if err != nil {
		return fmt.Errorf("%w: %w", errUnsealed, err)
	}
	names, err := n.files()
	if err != nil {
		return fmt.Errorf("%w: %w", errUnsealed, err)
	}
	if !slices.Equal(names, slices.Sorted(maps.Keys(s.Files))) {
		return fmt.Errorf("%w: there are other files than the sealed ones", errUnsealed)
	}
	for _, name := range names {
		if err := n.compare(name, s.Files[name]); err != nil {
			return fmt.Errorf("%w: %w", errUnsealed, err)
		}
	}
	return nil
}

// readSeal reads the seal and proves that it is one of this installation, compiler and
// module.
func (n *nativeCode) readSeal() (seal, error) {
	var s seal
	file, err := os.Open(filepath.Join(n.dir, sealName))
	if err != nil {
		return s, err
	}
	content, err := io.ReadAll(io.LimitReader(file, maxSealBytes))
	if err = errors.Join(err, file.Close()); err != nil {
		return s, err
	}
	if err := json.Unmarshal(content, &s); err != nil {
		return s, fmt.Errorf("read the seal: %w", err)
	}
	code, err := s.authenticate(n.key, n.digest)
	if err != nil {
		return s, err
	}
	if !hmac.Equal([]byte(code), []byte(s.Code)) {
		return s, errors.New("the seal is not of this installation")
	}
	if s.Engine != engine() {
		return s, errors.New("the seal is of another compiler")
	}
	return s, nil
}

// compare proves that a file is what the seal says.
func (n *nativeCode) compare(name string, want sealedFile) error {
	info, err := os.Lstat(filepath.Join(n.dir, filepath.FromSlash(name)))
	if err != nil {
		return err
	}
	now := fingerprint(info)
	n.mu.Lock()
	known := now != "" && n.verified[name] == now+want.SHA256
	n.mu.Unlock()
	if known {
		return nil
	}
	got, read, err := n.sum(name)
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("the file %s has changed", name)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.verified[name] = read + want.SHA256
	return nil
}

// sum reads a file and returns its hash, and the fingerprint of what was read.
func (n *nativeCode) sum(name string) (sealedFile, string, error) {
	file, err := os.Open(filepath.Join(n.dir, filepath.FromSlash(name)))
	if err != nil {
		return sealedFile{}, "", err
	}
	defer func() { _ = file.Close() }() // it was only read
	info, err := file.Stat()
	if err != nil {
		return sealedFile{}, "", err
	}
	h := sha256.New()
	size, err := io.Copy(h, file)
	if err != nil {
		return sealedFile{}, "", err
	}
	return sealedFile{Size: size, SHA256: hex.EncodeToString(h.Sum(nil))}, fingerprint(info), nil
}

// discard removes native code, and reports whether there was any.
func (n *nativeCode) discard() (bool, error) {
	roots, err := filepath.Glob(filepath.Join(n.dir, nativePattern))
	if err != nil {
		return false, fmt.Errorf("discard native code: %w", err)
	}
	errs := []error{os.Remove(filepath.Join(n.dir, sealName))}
	if errors.Is(errs[0], fs.ErrNotExist) {
		errs = nil
	}
	for _, root := range roots {
		errs = append(errs, os.RemoveAll(root))
	}
	if err := errors.Join(errs...); err != nil {
		return false, fmt.Errorf("discard native code: %w", err)
	}
	return len(roots) > 0, nil
}

// sealKey reads the installation's secret, or makes it.
func sealKey(dir string) ([]byte, error) {
	name := filepath.Join(dir, keyName)
	key, err := os.ReadFile(name)
	if err == nil && len(key) == keyBytes {
		return key, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the key of the cache: %w", err)
	}
	key = make([]byte, keyBytes)
	if _, err := rand.Read(key); err != nil {
		return nil, fmt.Errorf("make the key of the cache: %w", err)
	}
	// Should another process have made one at the same time, seals of the loser are
	// compiled again.
	if err := writeAtomically(name, key); err != nil {
		return nil, fmt.Errorf("keep the key of the cache: %w", err)
	}
	return key, nil
}
