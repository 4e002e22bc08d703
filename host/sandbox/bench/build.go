package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/caisson-dev/caisson/abi"
)

// artefacts are what is measured, as files and as bytes.
type artefacts struct {
	dir, self, worker, plugin string
	// guests are the modules by their names; a language whose compiler is missing is not
	// there, and missing says why.
	guests  map[string][]byte
	missing map[string]string
	// firstParty are the sizes of the modules that come with Caisson, in bytes.
	firstParty map[string]int
}

// The guests.
const (
	guestGo        = "go"
	guestLean      = "lean"
	guestGoFresh   = "go-fresh"
	guestLeanFresh = "lean-fresh"
	guestC         = "c"
)

// artefactsIn names the files in a directory.
func artefactsIn(dir, self string) *artefacts {
	return &artefacts{
		dir: dir, self: self, worker: filepath.Join(dir, "caisson-worker"), plugin: filepath.Join(dir, "leaf-plugin"),
		guests: map[string][]byte{}, missing: map[string]string{}, firstParty: map[string]int{},
	}
}

// build builds the worker and the guests out of the repository, whose root is the working
// directory.
func build(ctx context.Context, dir string) (*artefacts, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	a := artefactsIn(dir, self)
	for out, pkg := range map[string]string{a.worker: "./cmd/caisson-worker", a.plugin: "./host/sandbox/bench/plugin"} {
		// A worker that links C lacks layers of its confinement.
		if err := command(ctx, []string{"CGO_ENABLED=0"}, "go", "build", "-o", out, pkg); err != nil {
			return nil, err
		}
	}
	for name, tags := range map[string]string{guestGo: "", guestLean: "", guestGoFresh: "fresh", guestLeanFresh: "fresh"} {
		pkg := "./host/sandbox/bench/testdata/guests/go"
		if name == guestLean || name == guestLeanFresh {
			pkg = "./host/sandbox/bench/testdata/guests/lean"
		}
		if a.guests[name], err = a.buildGo(ctx, pkg, name, tags); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{"cilium", "ingress", "storage"} {
		wasm, err := a.buildGo(ctx, "./modules/"+name, "first-party-"+name, "")
		if err != nil {
			return nil, err
		}
		a.firstParty[name] = len(wasm)
	}
	if err := a.buildC(ctx); err != nil {
		a.missing[guestC] = err.Error()
	}
	return a, nil
}

// buildGo builds a module as `caisson module build` does.
func (a *artefacts) buildGo(ctx context.Context, pkg, name, tags string) ([]byte, error) {
	out := filepath.Join(a.dir, name+".wasm")
	err := command(ctx, []string{"GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0"}, "go", "build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w", "-tags="+tags, "-o", out, pkg)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(out)
}

// buildC builds the leaf in C, where there is a compiler.
func (a *artefacts) buildC(ctx context.Context) error {
	out := filepath.Join(a.dir, "c.wasm")
	err := command(ctx, nil, "clang", "--target=wasm32", "-O2", "-mbulk-memory", "-fno-builtin", "-nostdlib", "-Wl,--no-entry", "-o", out, "host/sandbox/bench/testdata/guests/c/leaf.c")
	if err != nil {
		return err
	}
	a.guests[guestC], err = os.ReadFile(out)
	return err
}

// command runs a command of the toolchain.
func command(ctx context.Context, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w: %s", name, args, err, text)
	}
	return nil
}

// exports are what a guest is called by.
const provision = abi.ExportProvision
