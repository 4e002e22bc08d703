package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/abi/wasmfile"
)

// built is what a build is worth telling.
type built struct {
	File         string         `json:"file"`
	Size         int            `json:"size"`
	Digest       string         `json:"digest"`
	Name         string         `json:"name"`
	Version      string         `json:"version"`
	Capabilities []abi.Function `json:"capabilities"`
}

func newModuleBuildCommand(e *environment) *cobra.Command {
	var file string
	var f format
	cmd := &cobra.Command{
		Use:   "build [DIR | FILE.wasm]",
		Short: "Build a module and write its manifest into the file",
		Long: `Build the Go package in DIR (default: the current directory) as a Wasm module, run its
describe export in the sandbox, check the manifest that it returns, and write that into
the file's custom section "caisson.manifest", where hosts and admins look for it.

A Wasm file that another compiler built is taken as it is, and gets its manifest in place
unless --output says otherwise. The same sources and the same Go version give the same
bytes.`,
		Example: `  caisson module build
  caisson module build ./mymodule -o mymodule.wasm
  caisson module build assemblyscript.wasm`,
		Args: optionalArg("DIR or FILE.wasm"),
		RunE: func(cmd *cobra.Command, args []string) error {
			source := "."
			if len(args) == 1 {
				source = args[0]
			}
			result, err := buildModule(cmd.Context(), e, source, file)
			if err != nil {
				return err
			}
			return f.print(e.out, result, result.table)
		},
	}
	cmd.Flags().StringVarP(&file, "output", "o", "", "the file to write (default: NAME.wasm, or FILE.wasm itself)")
	f = formatTable
	cmd.Flags().Var(formatValue{into: &f, people: formatTable}, "format", "how to print the result: table, json or yaml")
	return cmd
}

// buildModule builds source, which is a directory or a Wasm file, into file.
func buildModule(ctx context.Context, e *environment, source, file string) (*built, error) {
	info, err := os.Stat(source)
	if err != nil {
		return nil, failure("name the directory of a Go package or a Wasm file", "there is no %s", source)
	}
	var wasm []byte
	if info.IsDir() {
		wasm, err = compile(ctx, e, source)
	} else {
		wasm, err = readModule(source)
		if file == "" {
			file = source
		}
	}
	if err != nil {
		return nil, err
	}
	described, err := e.describe(ctx, wasm)
	if err != nil {
		return nil, err
	}
	m, err := readManifest(described)
	if err != nil {
		return nil, err
	}
	s, err := readSurface(wasm)
	if err != nil {
		return nil, err
	}
	if err := s.checkDeclared(m); err != nil {
		return nil, err
	}
	if unused := s.unused(m); len(unused) > 0 {
		_, _ = fmt.Fprintf(e.errOut, "Warning: %s declares %s and never calls it; an admin would grant it for nothing.\n", m.Name, join(unused))
	}
	var manifest bytes.Buffer
	if err := json.Compact(&manifest, described); err != nil {
		return nil, fmt.Errorf("compact the manifest: %w", err)
	}
	if wasm, err = wasmfile.Embed(wasm, manifest.Bytes()); err != nil {
		return nil, fmt.Errorf("write the manifest into the module: %w", err)
	}
	if file == "" {
		// A validated name is a DNS label and cannot lead anywhere else.
		file = m.Name + ".wasm"
	}
	if err := writeFile(file, wasm); err != nil {
		return nil, err
	}
	return &built{File: file, Size: len(wasm), Digest: digestOf(wasm), Name: m.Name, Version: m.Version, Capabilities: nonNil(m.Capabilities)}, nil
}

// compile builds a Go package as a reactor module. What the go command has to say goes
// to standard error as it comes.
func compile(ctx context.Context, e *environment, dir string) ([]byte, error) {
	temp, err := os.MkdirTemp("", "caisson-build-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for the build: %w", err)
	}
	defer func() { _ = os.RemoveAll(temp) }()
	out := filepath.Join(temp, "module.wasm")
	// -trimpath and -buildvcs keep what differs between two machines out of the file.
	cmd := exec.CommandContext(ctx, e.goCommand, "build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", out, ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	cmd.Stdout, cmd.Stderr = e.errOut, e.errOut
	if err := cmd.Run(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return nil, failure("install it from https://go.dev/dl", "build %s: there is no go command", dir)
		}
		return nil, failure("correct what the go command reports above", "build %s: the go command failed", dir)
	}
	return readModule(out)
}

// table prints the result and what to do next.
func (b *built) table(w io.Writer) error {
	p := newProperties(w)
	p.add("file", b.File)
	p.add("size", sizeText(b.Size))
	p.add("digest", b.Digest)
	p.add("module", b.Name+" "+b.Version)
	p.add("capabilities", join(b.Capabilities))
	if err := p.flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nNext: caisson module push %s REGISTRY/%s:%s\n", b.File, b.Name, tagOf(b.Version))
	return err
}
