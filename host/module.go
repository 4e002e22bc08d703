package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/capability"
	"github.com/caisson-dev/caisson/host/controller"
	"github.com/caisson-dev/caisson/host/plan"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/module"
	"github.com/caisson-dev/caisson/host/registry"
	"github.com/caisson-dev/caisson/host/sandbox"
)

// ModuleOptions say which module a program runs and what it may do. Name, and exactly one
// of Reference and Wasm, are required.
type ModuleOptions struct {
	// Name is what the module is called in logs and metrics. It is unique in the program.
	Name string
	// Reference is that of an OCI artifact. One with a digest is always the same code; a
	// tag is resolved once, when it is loaded.
	Reference string
	// Wasm is the file itself, for instance out of an embed directive.
	Wasm []byte
	// Credentials finds logins for the registry; nil means anonymously.
	Credentials registry.Credentials
	// Grant is what the module may do. The zero value allows nothing, so a module that
	// declares anything needs one.
	Grant capability.Grant
	// Limits are those of the options of the host where they are 0. The ceilings of the
	// options are for Module objects, and not for these.
	Limits sandbox.Limits
	// Concurrency is how many calls of the module may be under way at a time, and at most as
	// many as there are workers. 0 means half of these.
	Concurrency int
	// Isolation is where it runs; a worker if empty. [v1alpha1.IsolationInProcess] needs
	// [Options.AllowInProcess].
	Isolation v1alpha1.Isolation
}

// Module is a module that leaves can be made of; see [Pass.Module]. It is safe for
// concurrent use.
type Module struct {
	instance func(ctx context.Context, namespace string, inputs provisioner.InputRecorder) (*module.Instance, error)
}

// ModuleError says why a module cannot be used: Reason is a short code, and Message names
// the remedy and holds no secret.
type ModuleError = controller.ModuleError

// LoadModule fetches a module, checks it and compiles it in the sandbox, which takes
// seconds unless the cache has it. It needs no Module object. What the module declares
// beyond the grant is an error here and not later.
//
// An error that is a [*ModuleError] is about this module; of those, the reason
// RegistryUnavailable passes by itself, and the others want somebody to act.
func (h *Host) LoadModule(ctx context.Context, o ModuleOptions) (*Module, error) {
	switch {
	case o.Name == "":
		return nil, errors.New("a module needs a name")
	case h.granted.Digest(o.Name) != "":
		return nil, fmt.Errorf("there is another module named %s", o.Name)
	case (o.Reference == "") == (len(o.Wasm) == 0):
		return nil, fmt.Errorf("module %s needs a reference or the Wasm itself, and not both", o.Name)
	}
	wasm, digest, err := h.fetch(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("fetch module %s: %w", o.Name, err)
	}
	load := h.parts.box.Load
	if o.Isolation == v1alpha1.IsolationInProcess {
		load = h.parts.box.LoadInProcess
	}
	compiled, err := load(ctx, wasm, o.Limits)
	if err != nil {
		return nil, fmt.Errorf("load module %s: %w", o.Name, loadError(err))
	}
	loaded := loadedModule{compiled, o.Concurrency}
	manifest, err := controller.ManifestOf(loaded)
	if err != nil {
		compiled.Close()
		return nil, fmt.Errorf("load module %s: %w", o.Name, err)
	}
	if err := capability.Check(manifest, o.Grant); err != nil {
		compiled.Close()
		return nil, fmt.Errorf("load module %s: %w", o.Name, &ModuleError{Reason: v1alpha1.ModuleReasonNotGranted, Message: err.Error()})
	}
	h.granted.Put(o.Name, controller.Loaded{Digest: digest, Manifest: *manifest, Runtime: loaded})
	return &Module{instance: func(context.Context, string, provisioner.InputRecorder) (*module.Instance, error) {
		return h.granted.Granted(o.Name, o.Grant)
	}}, nil
}

// ModuleObject stands for the Module object of that name, whose admin decides what it is
// and what it may do. It may come and change at any time. [Host.UseObjects] must have been
// called; without it the leaf is a Retry unexpected, whose why says so.
func (h *Host) ModuleObject(name string) *Module {
	return &Module{instance: func(ctx context.Context, namespace string, inputs provisioner.InputRecorder) (*module.Instance, error) {
		if h.watched != controller.CaissonObjects {
			return nil, errNoObjects().WithCause(module.ErrNeverLoaded) // A removal does not wait for it.
		}
		return plan.FindModule(ctx, h.trees.modules, namespace, name, inputs)
	}}
}

// fetch returns the file and what identifies it.
func (h *Host) fetch(ctx context.Context, o ModuleOptions) ([]byte, string, error) {
	if len(o.Wasm) > 0 {
		sum := sha256.Sum256(o.Wasm)
		return o.Wasm, "sha256:" + hex.EncodeToString(sum[:]), nil
	}
	ref, err := registry.ParseReference(o.Reference)
	if err != nil {
		return nil, "", sourceError(err)
	}
	artifacts := h.parts.artifacts
	if o.Credentials != nil {
		artifacts = artifacts.WithCredentials(o.Credentials)
	}
	digest, err := artifacts.Resolve(ctx, ref)
	if err != nil {
		return nil, "", sourceError(err)
	}
	artifact, err := artifacts.Pull(ctx, ref, digest)
	if err != nil {
		return nil, "", sourceError(err)
	}
	return artifact.Wasm, digest, nil
}
