package testenv

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sync"
)

// modulePath is the path of the root module, by which its go.mod is told from those of the nested modules.
const modulePath = "github.com/caisson-dev/caisson"

// moduleLine finds the path in a go.mod.
var moduleLine = regexp.MustCompile(`(?m)^module[ \t]+(\S+)`)

// moduleRoot looks once: tests do not move.
//
//nolint:gochecknoglobals // A computed constant.
var moduleRoot = sync.OnceValues(func() (string, error) {
	from, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find working directory: %w", err)
	}

	return rootAbove(from)
})

// ModuleRoot returns the root directory of the repository: the nearest directory above the working directory with the go.mod of
// the root module. It fails if there is none, as in a test binary that was copied elsewhere.
func ModuleRoot() (string, error) { return moduleRoot() }

func rootAbove(from string) (string, error) {
	for dir := from; ; dir = filepath.Dir(dir) {
		data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("look for the root module: %w", err)
		}
		if found := moduleLine.FindSubmatch(data); found != nil && string(found[1]) == modulePath {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no directory above %s has the go.mod of %s", from, modulePath)
		}
	}
}
