package host

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/controller"
	"github.com/caisson-dev/caisson/host/plan"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/module"
	"github.com/caisson-dev/caisson/host/registry"
	"github.com/caisson-dev/caisson/host/sandbox"
	"github.com/caisson-dev/caisson/host/scope"
)

// planner gives trees their dependencies.
type planner struct {
	dependencies plan.Dependencies
	cache        *plan.Cache
	clients      *scope.ClientCache
	modules      *controller.Modules
	state        *controller.StateStore
}

var _ controller.Planner = (*planner)(nil)

// Plan implements controller.Planner.
func (p *planner) Plan(stack *v1alpha1.Stack, inputs provisioner.InputRecorder) (controller.Tree, error) {
	d, state := p.of(stack, inputs)
	tree, err := plan.Build(stack, d)
	if err != nil {
		return nil, err
	}
	return keeping(tree, state), nil
}

// of returns the dependencies of a tree for one pass of an owner, and its state.
func (p *planner) of(owner *v1alpha1.Stack, inputs provisioner.InputRecorder) (plan.Dependencies, *controller.OwnerState) {
	d, state := p.dependencies, p.state.For(owner)
	d.Clients, d.Inputs, d.Cache, d.State = p.clients, inputs, p.cache, state
	return d, state
}

// keeping tells the state which nodes there are.
func keeping(tree *plan.Tree, state *controller.OwnerState) *plan.Tree {
	nodes := tree.Nodes()
	paths := make([]string, len(nodes))
	for i, node := range nodes {
		paths[i] = node.Path
	}
	state.Keep(paths)
	return tree
}

// tenants gives the controller clients that act as a ServiceAccount.
type tenants struct{ clients *scope.ClientCache }

var _ controller.Tenants = tenants{}

// Tenant implements controller.Tenants.
func (t tenants) Tenant(namespace, serviceAccount string) (*rest.Config, client.Client, error) {
	connection, err := t.clients.Tenant(namespace, serviceAccount)
	if err != nil {
		return nil, nil, fmt.Errorf("connect as %s/%s: %w", namespace, serviceAccount, err)
	}
	return connection.Config(), connection.Client(), nil
}

// source fetches modules from registries.
type source struct {
	artifacts *registry.Client
	secrets   client.Reader
}

var _ controller.Source = (*source)(nil)

// Resolve implements controller.Source.
func (s *source) Resolve(ctx context.Context, module *v1alpha1.Module) (string, error) {
	ref, artifacts, err := s.open(ctx, module)
	if err != nil {
		return "", err
	}
	digest, err := artifacts.Resolve(ctx, ref)
	return digest, sourceError(err)
}

// Fetch implements controller.Source.
func (s *source) Fetch(ctx context.Context, module *v1alpha1.Module, digest string) ([]byte, error) {
	ref, artifacts, err := s.open(ctx, module)
	if err != nil {
		return nil, err
	}
	artifact, err := artifacts.Pull(ctx, ref, digest)
	if err != nil {
		return nil, sourceError(err)
	}
	return artifact.Wasm, nil
}

// open parses the reference and takes the credentials that the Module names.
func (s *source) open(ctx context.Context, module *v1alpha1.Module) (registry.Reference, *registry.Client, error) {
	ref, err := registry.ParseReference(module.Spec.Reference)
	if err != nil {
		return ref, nil, sourceError(err)
	}
	pull := module.Spec.PullSecret
	if pull == nil {
		return ref, s.artifacts, nil
	}
	unusable := func(err error) error {
		return &controller.ModuleError{
			Reason:  v1alpha1.ModuleReasonUnauthorized,
			Message: fmt.Sprintf("pull secret %s/%s cannot be used; it must exist, be of type %s, and be readable by the operator", pull.Namespace, pull.Name, corev1.SecretTypeDockerConfigJson),
			Err:     err,
		}
	}
	secret := &corev1.Secret{}
	if err := s.secrets.Get(ctx, types.NamespacedName{Namespace: pull.Namespace, Name: pull.Name}, secret); err != nil {
		return ref, nil, unusable(err)
	}
	credentials, err := registry.DockerConfig(secret.Data[corev1.DockerConfigJsonKey])
	if err != nil {
		return ref, nil, unusable(err)
	}
	return ref, s.artifacts.WithCredentials(credentials), nil
}

// sourceError puts an error of the registry into the words of the Module's condition.
func sourceError(err error) error {
	if err == nil {
		return nil
	}
	reason := v1alpha1.ModuleReasonRegistryUnavailable
	var typed *registry.Error
	if !errors.As(err, &typed) {
		return &controller.ModuleError{Reason: reason, Message: "the registry could not be asked; the operator's log has the details", Err: err}
	}
	switch typed.Kind {
	case registry.NotFound:
		reason = v1alpha1.ModuleReasonNotFound
	case registry.Unauthorized:
		reason = v1alpha1.ModuleReasonUnauthorized
	case registry.DigestMismatch:
		reason = v1alpha1.ModuleReasonDigestMismatch
	case registry.TooLarge:
		reason = v1alpha1.ModuleReasonTooLarge
	case registry.NotAModule:
		reason = v1alpha1.ModuleReasonNotAModule
	case registry.InvalidReference:
		reason = v1alpha1.ModuleReasonInvalidReference
	case registry.Unavailable:
		reason = v1alpha1.ModuleReasonRegistryUnavailable
	}
	return &controller.ModuleError{Reason: reason, Message: typed.Error()}
}

// loader compiles modules in the sandbox.
type loader struct {
	box    *sandbox.Sandbox
	policy limitPolicy
}

var _ controller.Loader = (*loader)(nil)

// Load implements controller.Loader.
func (l *loader) Load(ctx context.Context, object *v1alpha1.Module, wasm []byte) (controller.LoadedModule, error) {
	t, err := l.policy.resolve(object.Spec.Limits)
	if err != nil {
		return nil, fmt.Errorf("load module %s: %w", object.Name, err)
	}
	load := l.box.Load
	if object.Spec.Isolation == v1alpha1.IsolationInProcess {
		load = l.box.LoadInProcess
	}
	loaded, err := load(ctx, wasm, t.Limits)
	if err == nil {
		return loadedModule{loaded, t.Concurrency}, nil
	}
	return nil, fmt.Errorf("load module %s: %w", object.Name, loadError(err))
}

// loadedModule tells the controller of a module's limits in words of its own.
type loadedModule struct {
	*sandbox.Module
	concurrency int
}

var _ controller.LoadedModule = loadedModule{}

// Limits implements controller.LoadedModule.
func (m loadedModule) Limits() module.Limits {
	l := m.Module.Limits()
	return module.Limits{
		Timeout: l.Timeout, OutputBytes: l.OutputBytes, HostCallBytes: l.HostCallBytes, HostCalls: l.HostCalls,
		Concurrency: m.concurrency,
	}
}

// loadError puts what the sandbox says of a module into the words of its condition.
func loadError(err error) error {
	var typed *sandbox.LoadError
	if errors.As(err, &typed) {
		return &controller.ModuleError{Reason: v1alpha1.ModuleReasonLoadFailed, Message: typed.Error(), Err: errors.Unwrap(err)}
	}
	if errors.Is(err, sandbox.ErrInProcessNotAllowed) {
		return &controller.ModuleError{
			Reason: v1alpha1.ModuleReasonInProcessNotAllowed,
			Message: "spec.isolation is InProcess, and this operator runs no module in its own process; leave it out, " +
				"or start the operator with " + inProcessFlag + " if the module is trusted like the operator itself",
		}
	}
	return limitsError(err)
}

// inProcessFlag is the flag of caisson-operator that sets [Options.AllowInProcess].
const inProcessFlag = "--allow-in-process"
