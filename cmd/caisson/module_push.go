package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/abi/wasmfile"
	"github.com/caisson-dev/caisson/host/registry"
)

func newModulePushCommand(e *environment) *cobra.Command {
	var f format
	var plainHosts []string
	cmd := &cobra.Command{
		Use:   "push FILE REFERENCE",
		Short: "Publish a module in a registry",
		Long: `Push a module that 'caisson module build' made, with the login that docker or podman
left on this machine, and print a Module object to start from. With -o yaml or json, that
object is all that is printed.

The same file has the same digest wherever and whenever it is pushed.`,
		Example: `  caisson module push mymodule.wasm ghcr.io/acme/mymodule:1.0.0
  caisson module push mymodule.wasm ghcr.io/acme/mymodule:1.0.0 -o yaml > mymodule.yaml`,
		Args: exactArgs("FILE", "REFERENCE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			result, err := pushModule(cmd.Context(), e, args[0], args[1], plainHosts)
			if err != nil {
				return err
			}
			return f.print(e.out, result.object(), result.table)
		},
	}
	addFormatFlag(cmd, &f, formatTable)
	addPlainHTTPFlag(cmd, &plainHosts)
	return cmd
}

// pushed is a module in a registry.
type pushed struct {
	ref      registry.Reference
	digest   string
	manifest *abi.Manifest
}

func pushModule(ctx context.Context, e *environment, file, reference string, plainHosts []string) (*pushed, error) {
	ref, err := registry.ParseReference(reference)
	if err != nil {
		return nil, err
	}
	wasm, err := readModule(file)
	if err != nil {
		return nil, err
	}
	raw, found, err := wasmfile.Manifest(wasm)
	if err != nil {
		return nil, fmt.Errorf("read the manifest of %s: %w", file, err)
	}
	if !found {
		return nil, failure("write one into it with 'caisson module build "+file+"'", "%s holds no manifest", file)
	}
	m, err := readManifest(raw)
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
	annotations, err := registry.ManifestAnnotations(*m)
	if err != nil {
		return nil, err
	}
	client, err := newRegistryClient(e, plainHosts)
	if err != nil {
		return nil, err
	}
	digest, err := client.Push(ctx, ref, wasm, annotations)
	if err != nil {
		return nil, err
	}
	return &pushed{ref: ref, digest: digest, manifest: m}, nil
}

// object is the Module that an admin would start from.
func (p *pushed) object() moduleObject { return newModuleObject(p.ref, p.digest, p.manifest) }

func (p *pushed) table(w io.Writer) error {
	properties := newProperties(w)
	properties.add("pushed", p.ref.String())
	properties.add("digest", p.digest)
	properties.add("module", p.manifest.Name+" "+p.manifest.Version)
	if err := properties.flush(); err != nil {
		return err
	}
	var text strings.Builder
	for _, note := range p.object().notes() {
		_, _ = fmt.Fprintf(&text, "# %s\n", note)
	}
	if err := formatYAML.print(&text, p.object(), nil); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s", text.String())
	return err
}

// newRegistryClient makes a client without a cache: what is built and inspected by hand
// is looked at once.
func newRegistryClient(e *environment, plainHosts []string) (*registry.Client, error) {
	return registry.New(registry.Options{Credentials: e.credentials, PlainHTTPHosts: plainHosts})
}

func addPlainHTTPFlag(cmd *cobra.Command, hosts *[]string) {
	cmd.Flags().StringSliceVar(hosts, "plain-http-host", nil, "a registry, HOST[:PORT], that may do without TLS; loopback ones always may")
}

// tagOf is a version as a tag, which has no room for a plus sign.
func tagOf(version string) string { return strings.ReplaceAll(version, "+", "_") }
