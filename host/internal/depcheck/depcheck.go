package depcheck

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Violation is an import that no rule allows, or a package that no rule covers.
type Violation struct {
	// File is the path of the file below the root, or the package's directory.
	File string
	// Import is the import path, or "" if no rule covers the package.
	Import string
	// Allowed is what the rule allows.
	Allowed []string
}

// String says what to change.
func (v Violation) String() string {
	if v.Import == "" {
		return v.File + ": no rule covers this package; add one to host/internal/depcheck/rules.go"
	}
	allowed := "nothing but the standard library"
	if len(v.Allowed) > 0 {
		allowed = strings.Join(v.Allowed, ", ")
	}
	return fmt.Sprintf("%s imports %s; it may import %s", v.File, v.Import, allowed)
}

// Check compares the imports of every Go file in a tree with the rules, and returns what
// is wrong in the order of the files. Directories named testdata or vendor and those
// that begin with a dot or an underscore are skipped, as the go command does. An error
// says that a file could not be read or parsed.
func Check(root fs.FS, rules []Rule) ([]Violation, error) {
	var violations []Violation
	uncovered := map[string]bool{}
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && skipped(name):
			return fs.SkipDir
		case entry.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		directory := path.Dir(name)
		rule, ok := find(rules, directory)
		if !ok {
			if !uncovered[directory] {
				uncovered[directory] = true
				violations = append(violations, Violation{File: directory})
			}
			return nil
		}
		imports, err := importsOf(root, name)
		if err != nil {
			return err
		}
		for _, imported := range imports {
			if allowed, ok := rule.allows(directory, name, imported); !ok {
				violations = append(violations, Violation{File: name, Import: imported, Allowed: allowed})
			}
		}
		return nil
	})
	return violations, err
}

func skipped(directory string) bool {
	base := path.Base(directory)
	return base == "testdata" || base == "vendor" || directory != "." && strings.ContainsAny(base[:1], "._")
}

func importsOf(root fs.FS, name string) ([]string, error) {
	source, err := fs.ReadFile(root, name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ImportsOnly)
	if err != nil {
		return nil, fmt.Errorf("parse the imports: %w", err)
	}
	var imports []string
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, fmt.Errorf("read an import of %s: %w", name, err)
		}
		imports = append(imports, imported)
	}
	return imports, nil
}

// find returns the rule with the longest pattern that matches a package. Of two equally
// long ones the exact pattern is the longer, since it has no dots.
func find(rules []Rule, directory string) (Rule, bool) {
	best, length := Rule{}, -1
	for _, rule := range rules {
		for _, pattern := range rule.Packages {
			if !matches(pattern, directory) {
				continue
			}
			size := 2 * len(strings.TrimSuffix(pattern, "/..."))
			if pattern == directory {
				size++
			}
			if size > length {
				best, length = rule, size
			}
		}
	}
	return best, length >= 0
}

// allows reports whether a file of a package may import something, and otherwise what
// it may.
func (r Rule) allows(directory, file, imported string) ([]string, bool) {
	if isStandard(imported) || imported == Module+"/"+directory {
		return nil, true
	}
	ours, others := r.Ours, r.Others
	if strings.HasSuffix(file, "_test.go") {
		ours = slices.Concat(ours, r.TestOurs)
		others = slices.Concat(others, r.TestOthers, []string{testify})
	}
	if local, ok := strings.CutPrefix(imported, Module+"/"); ok {
		return slices.Concat(ours, others), slices.ContainsFunc(ours, func(p string) bool { return matches(p, local) })
	}
	return slices.Concat(ours, others), slices.ContainsFunc(others, func(p string) bool { return within(p, imported) })
}

// isStandard reports whether an import path is of the standard library: those of others
// begin with a domain.
func isStandard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}

// matches reports whether a directory is what a pattern stands for.
func matches(pattern, directory string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "/..."); ok {
		return within(prefix, directory)
	}
	return pattern == directory
}

// within reports whether a path is another one or below it.
func within(prefix, name string) bool {
	return name == prefix || strings.HasPrefix(name, prefix+"/")
}
