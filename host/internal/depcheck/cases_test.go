package depcheck

import (
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// lastCase is the number of the last case of the semantics.
const lastCase = 118

// namedCase finds the numbers in the names of tests and subtests; a name may stand for
// several in a row.
var namedCase = regexp.MustCompile(`(?:func Test|")Case(\d{3})(?:to(\d{3}))?`)

// casesIn adds the cases that a test file names.
func casesIn(source string, named map[int]bool) {
	for _, match := range namedCase.FindAllStringSubmatch(source, -1) {
		first, _ := strconv.Atoi(match[1]) // Three digits.
		last := first
		if match[2] != "" {
			last, _ = strconv.Atoi(match[2])
		}
		for number := first; number <= last; number++ {
			named[number] = true
		}
	}
}

// TestEveryCaseIsNamed finds the cases of the semantics that no test carries in its name.
func TestEveryCaseIsNamed(t *testing.T) {
	named := map[int]bool{}
	root := os.DirFS(repository)
	err := fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != "." && strings.HasPrefix(entry.Name(), "."), path == "host/internal/depcheck":
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		source, err := fs.ReadFile(root, path)
		casesIn(string(source), named)
		return err
	})
	require.NoError(t, err)
	var missing []string
	for number := 1; number <= lastCase; number++ {
		if !named[number] {
			missing = append(missing, fmt.Sprintf("%03d", number))
		}
	}
	require.Empty(t, missing, "no test carries the number of these cases in its name")
}

func TestCasesInNames(t *testing.T) {
	named := map[int]bool{}
	casesIn("func TestCase"+"007Bond(t *testing.T) {\n\t\t\"Case"+"105to107\": {}, // Case"+"001\n\t\"see Case"+"002\"", named)
	require.Equal(t, map[int]bool{7: true, 105: true, 106: true, 107: true}, named, "what a comment or a sentence mentions is no test")
}
