// Command generate writes the JSON Schemas of package abi; see package schema. It is run in
// the directory of abi's go.mod.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/caisson-dev/caisson/abi/internal/schema"
)

func main() {
	if err := write("schema"); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func write(dir string) error {
	files, err := schema.Generate(".")
	if err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
