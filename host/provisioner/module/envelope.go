package module

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

// envelope builds the input of a call, without its time and deadline, which the call
// itself adds.
func (p *Provisioner) envelope(ctx context.Context, s scope.Scope, instance *Instance, operation string) (*abi.Input, error) {
	config, err := p.config(ctx, operation)
	if err != nil {
		return nil, err
	}
	kept, err := p.loadState(ctx)
	if err != nil {
		return nil, err
	}
	installed, err := p.applications(ctx, s)
	if err != nil {
		return nil, err
	}
	owner := s.Owner()
	host, port := s.Address()
	input := &abi.Input{
		ABI:       abi.Version,
		Operation: operation,
		Node:      p.options.Node,
		Owner: abi.Owner{
			APIVersion: owner.APIVersion, Kind: owner.Kind, Namespace: owner.Namespace,
			Name: owner.Name, UID: owner.UID, Generation: owner.Generation,
		},
		Config:          config,
		State:           kept.State,
		GenerationState: kept.Generation,
		StickyState:     kept.Sticky,
		Scope:           abi.Scope{ID: s.ID(), Remote: s.IsRemote(), Host: host, Port: port, State: s.State()},
		Teardown:        s.Teardown(),
		Installed:       len(installed) > 0,
		Capabilities:    effective(instance),
	}
	if p.options.Facts != nil {
		input.Facts = p.options.Facts.Snapshot()
	}
	return input, nil
}

// config evaluates the node's config. A deprovision goes on without one that cannot be
// evaluated any more, because what it was made from may be gone first.
func (p *Provisioner) config(ctx context.Context, operation string) (json.RawMessage, error) {
	empty := json.RawMessage("{}")
	if p.options.Config == nil {
		return empty, nil
	}
	config, err := p.options.Config(ctx)
	if err != nil {
		if operation == abi.ExportProvision || provisioner.OutcomeOf(err).Cancelled {
			return nil, err
		}
		log.FromContext(ctx).Error(err, "deprovisioning without the config, which cannot be evaluated")
		return empty, nil
	}
	config = bytes.TrimSpace(config)
	if len(config) == 0 || string(config) == "null" {
		return empty, nil
	}
	if config[0] != '{' || !json.Valid(config) {
		return nil, provisioner.Terminal(abi.ReasonInvalidConfig, "the config is not a JSON object")
	}
	return config, nil
}

// applications returns what the driver knows of the node in one scope.
func (p *Provisioner) applications(ctx context.Context, s scope.Scope) ([]cd.Installed, error) {
	all, err := p.options.Driver.List(ctx, s.Owner())
	if err != nil {
		return nil, wrap("list the applications of "+p.options.Node.Path, err)
	}
	var own []cd.Installed
	for _, installed := range all {
		if _, ok := p.applicationName(installed.ID.Path); ok && installed.ScopeID == s.ID() {
			own = append(own, installed)
		}
	}
	return own, nil
}

// applicationID derives an identity from the node's and a name, which may be empty.
func (p *Provisioner) applicationID(name string) scope.ResourceIdentifier {
	id := p.options.ID
	if name != "" {
		id.Path += "/" + name
		id.Name += "-" + name
	}
	return id
}

// applicationName returns the name within the node of the application at a path, and
// whether it is the node's at all.
func (p *Provisioner) applicationName(path string) (string, bool) {
	if path == p.options.ID.Path {
		return "", true
	}
	name, ok := strings.CutPrefix(path, p.options.ID.Path+"/")
	return name, ok && !strings.Contains(name, "/")
}

// effective returns the functions that are both declared and granted.
func effective(instance *Instance) []abi.Function {
	var functions []abi.Function
	for _, f := range abi.Functions() {
		if instance.Manifest.Declares(f) && instance.Grant.AllowsFunction(f) {
			functions = append(functions, f)
		}
	}
	return functions
}

// stamp completes an envelope with the time and the deadline of a call, and encodes it.
func stamp(input *abi.Input, now time.Time, budget time.Duration) ([]byte, error) {
	stamped := *input
	stamped.Now = now.UTC().Format(time.RFC3339)
	stamped.DeadlineMillis = max(budget.Milliseconds(), 1)
	raw, err := json.Marshal(&stamped)
	return raw, wrap("encode the envelope", err)
}

// envelopeDigest identifies everything that a call depends on but the time: the envelope,
// the module and its grant.
func envelopeDigest(input *abi.Input, instance *Instance) (string, error) {
	raw, err := json.Marshal([]any{input, instance.Name, instance.Digest, instance.Manifest, instance.Grant})
	if err != nil {
		return "", wrap("encode the envelope", err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(raw)), nil
}
