package schema

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// source is what the Go source of package abi says beyond its types.
type source struct {
	// docs are comments, by type and by type.field.
	docs map[string]string
	// values are the constants of each named type, in their order.
	values map[string][]any
}

// readSource parses the package in a directory.
func readSource(dir string) (*source, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, fmt.Errorf("list the source of package abi: %w", err)
	}
	s := &source{docs: map[string]string{}, values: map[string][]any{}}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read the source of package abi: %w", err)
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ParseComments)
		if err != nil {
			return nil, fmt.Errorf("parse the source of package abi: %w", err)
		}
		for _, decl := range parsed.Decls {
			if group, ok := decl.(*ast.GenDecl); ok {
				s.group(group)
			}
		}
	}
	return s, nil
}

func (s *source) group(group *ast.GenDecl) {
	for _, spec := range group.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			s.docs[spec.Name.Name] = prose(group.Doc)
			if structure, ok := spec.Type.(*ast.StructType); ok {
				s.fields(spec.Name.Name, structure)
			}
		case *ast.ValueSpec:
			if group.Tok == token.CONST {
				s.constant(spec)
			}
		}
	}
}

func (s *source) fields(typ string, structure *ast.StructType) {
	for _, field := range structure.Fields.List {
		for _, name := range field.Names {
			s.docs[typ+"."+name.Name] = prose(field.Doc)
		}
	}
}

// constant notes the value of a constant whose type is named beside it.
func (s *source) constant(spec *ast.ValueSpec) {
	typ, ok := spec.Type.(*ast.Ident)
	if !ok || len(spec.Values) != 1 {
		return
	}
	if literal, ok := spec.Values[0].(*ast.BasicLit); ok {
		s.values[typ.Name] = append(s.values[typ.Name], constant(literal))
	}
}

func constant(literal *ast.BasicLit) any {
	if text, err := strconv.Unquote(literal.Value); err == nil {
		return text
	}
	if n, err := strconv.Atoi(literal.Value); err == nil {
		return n
	}
	return literal.Value
}

// prose is a comment in one line, without the brackets of links.
func prose(comment *ast.CommentGroup) string {
	text := strings.Join(strings.Fields(comment.Text()), " ")
	return regexp.MustCompile(`\[(\w+)\]`).ReplaceAllString(text, "$1")
}
