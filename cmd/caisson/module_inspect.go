package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/abi/wasmfile"
	"github.com/caisson-dev/caisson/host/registry"
)

// inspection is everything that can be said about a module without a cluster.
type inspection struct {
	Source string `json:"source"`
	Size   int    `json:"size"`
	// Digest is of the Wasm file, ArtifactDigest of the artifact that it came in.
	Digest         string        `json:"digest"`
	ArtifactDigest string        `json:"artifactDigest,omitempty"`
	Manifest       *abi.Manifest `json:"manifest,omitempty"`
	// Functions are the host functions that the module imports: all it can ever ask for.
	Functions []abi.Function `json:"functions"`
	// Unused are declared and not imported.
	Unused       []abi.Function `json:"unused,omitempty"`
	OtherImports map[string]int `json:"otherImports"`
	Exports      []string       `json:"exports"`
	// Problems are why a host would refuse the module.
	Problems []string `json:"problems,omitempty"`
}

func newModuleInspectCommand(e *environment) *cobra.Command {
	var f format
	var plainHosts []string
	cmd := &cobra.Command{
		Use:   "inspect FILE | REFERENCE",
		Short: "Show what a module is and what it can ask for",
		Long: `Show a module's digest, manifest, imports and exports, and whether the manifest in the
file agrees with what the module says when it is asked. The module runs in the sandbox for
that, without any host function.

What it imports is all that it can ever ask a host for. The exit code is 1 if a host would
refuse the module.`,
		Example: `  caisson module inspect mymodule.wasm
  caisson module inspect ghcr.io/acme/mymodule:1.0.0 -o yaml`,
		Args: exactArgs("FILE or REFERENCE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			result, err := inspectModule(cmd.Context(), e, args[0], plainHosts)
			if err != nil {
				return err
			}
			if err := f.print(e.out, result, result.table); err != nil {
				return err
			}
			if len(result.Problems) > 0 {
				return failure("mend them and build it again", "a host would refuse %s for %d reasons, listed as problems", args[0], len(result.Problems))
			}
			return nil
		},
	}
	addFormatFlag(cmd, &f, formatTable)
	addPlainHTTPFlag(cmd, &plainHosts)
	return cmd
}

func inspectModule(ctx context.Context, e *environment, source string, plainHosts []string) (*inspection, error) {
	result := &inspection{Source: source}
	wasm, err := result.fetch(ctx, e, plainHosts)
	if err != nil {
		return nil, err
	}
	result.Size, result.Digest = len(wasm), digestOf(wasm)
	s, err := readSurface(wasm)
	if err != nil {
		return nil, fmt.Errorf("inspect %s: %w", source, err)
	}
	result.Functions, result.OtherImports, result.Exports = nonNil(s.functions), s.others, nonNil(s.exports)

	described, err := e.describe(ctx, wasm)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		result.problem(err)
	}
	embedded, found, err := wasmfile.Manifest(wasm)
	switch {
	case err != nil:
		result.problem(err)
	case !found:
		result.Problems = append(result.Problems, "the file holds no manifest; write one into it with 'caisson module build FILE.wasm'")
	case described != nil && !sameJSON(embedded, described):
		result.Problems = append(result.Problems, "the manifest in the file differs from what describe returns; build the module again")
	}
	if !found {
		embedded = described
	}
	if embedded != nil {
		result.judge(embedded, s)
	}
	return result, nil
}

// judge reads the manifest and compares it with what the file shows.
func (i *inspection) judge(manifest []byte, s surface) {
	m, err := readManifest(manifest)
	if err != nil {
		i.problem(err)
		return
	}
	i.Manifest, i.Unused = m, s.unused(m)
	if err := s.checkDeclared(m); err != nil {
		i.problem(err)
	}
}

func (i *inspection) problem(err error) { i.Problems = append(i.Problems, err.Error()) }

// fetch reads a file if there is one of that name, and otherwise pulls a reference.
func (i *inspection) fetch(ctx context.Context, e *environment, plainHosts []string) ([]byte, error) {
	if _, err := os.Stat(i.Source); !errors.Is(err, fs.ErrNotExist) {
		return readModule(i.Source)
	}
	ref, err := registry.ParseReference(i.Source)
	if err != nil {
		if strings.HasSuffix(i.Source, ".wasm") {
			return readModule(i.Source)
		}
		return nil, failure("name a Wasm file, or a reference like ghcr.io/acme/mymodule:1.0.0", "%s is neither a file nor a reference", i.Source)
	}
	client, err := newRegistryClient(e, plainHosts)
	if err != nil {
		return nil, err
	}
	digest, err := client.Resolve(ctx, ref)
	if err != nil {
		return nil, err
	}
	artifact, err := client.Pull(ctx, ref, digest)
	if err != nil {
		return nil, err
	}
	i.ArtifactDigest = digest
	return artifact.Wasm, nil
}

func (i *inspection) table(w io.Writer) error {
	p := newProperties(w)
	p.add("source", i.Source)
	p.add("size", sizeText(i.Size))
	p.add("digest", i.Digest)
	if i.ArtifactDigest != "" {
		p.add("artifact", i.ArtifactDigest)
	}
	if m := i.Manifest; m != nil {
		p.add("module", m.Name+" "+m.Version)
		p.add("description", orDash(m.Description))
		p.add("abi", strconv.Itoa(m.ABI))
	}
	p.add("imports", join(i.Functions))
	for _, module := range slices.Sorted(maps.Keys(i.OtherImports)) {
		p.add("", fmt.Sprintf("%d of %s", i.OtherImports[module], module))
	}
	p.add("exports", join(i.Exports))
	if m := i.Manifest; m != nil {
		p.add("needs grants", grantLines(m)...)
		if len(i.Unused) > 0 {
			p.add("never uses", join(i.Unused))
		}
		reasons := make([]string, 0, len(m.Reasons))
		for _, r := range m.Reasons {
			reasons = append(reasons, r.Code+": "+r.Sentence)
		}
		p.add("reasons", reasons...)
	}
	if len(i.Problems) == 0 {
		p.add("problems", "none")
	} else {
		p.add("problems", i.Problems...)
	}
	return p.flush()
}

// grantLines says what an admin would have to grant.
func grantLines(m *abi.Manifest) []string {
	lines := []string{join(m.Capabilities)}
	for _, rule := range m.Kube {
		where := "every namespace"
		if len(rule.Namespaces) > 0 {
			where = strings.Join(rule.Namespaces, ", ")
		}
		kinds := strings.Join(rule.Kinds, ", ")
		if rule.APIGroup != "" {
			kinds += " of " + rule.APIGroup
		}
		lines = append(lines, fmt.Sprintf("%s %s in %s", strings.Join(rule.Verbs, ", "), kinds, where))
	}
	return lines
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// nonNil makes an empty list print as one.
func nonNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
