package module

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/caisson-dev/caisson/abi"
)

const (
	// maxStateBytes is what a node may keep, all kinds together: all nodes of an owner
	// share one Secret (DESIGN.md §9).
	maxStateBytes = 64 << 10
	// saveTimeout bounds the save of a state after the pass has run out of its own time.
	saveTimeout = 5 * time.Second
)

func (p *Provisioner) loadState(ctx context.Context) (Kept, error) {
	if p.options.State == nil {
		return Kept{}, nil
	}
	kept, err := p.options.State.Load(ctx, p.options.Node.Path)
	return kept, wrap("load the state of "+p.options.Node.Path, err)
}

// keptBy returns what a module was told that there is.
func keptBy(input *abi.Input) Kept {
	return Kept{State: input.State, Generation: input.GenerationState, Sticky: input.StickyState}
}

// after returns what is kept after an answer.
func (k Kept) after(output *abi.Output) Kept {
	return Kept{
		State:      replaced(k.State, output.State),
		Generation: replaced(k.Generation, output.GenerationState),
		Sticky:     replaced(k.Sticky, output.StickyState),
	}
}

// replaced returns what an output makes of a document: absent keeps it, null drops it.
func replaced(kept, next json.RawMessage) json.RawMessage {
	switch {
	case next == nil:
		return kept
	case string(next) == "null":
		return nil
	default:
		return next
	}
}

func (k Kept) same(o Kept) bool {
	return sameJSON(k.State, o.State) && sameJSON(k.Generation, o.Generation) && sameJSON(k.Sticky, o.Sticky)
}

// checkState refuses an answer after which there would be too much, as an [*outputError].
func checkState(input *abi.Input, output *abi.Output) error {
	kept := keptBy(input).after(output)
	if size := len(kept.State) + len(kept.Generation) + len(kept.Sticky); size > maxStateBytes {
		return &outputError{abi.ReasonOutputTooLarge, fmt.Sprintf("the state has %d bytes and %d are allowed", size, maxStateBytes)}
	}
	return nil
}

// save keeps what an answer left, if it differs. The state tells what the module has done,
// so it must not be lost with the pass.
func (p *Provisioner) save(ctx context.Context, before, after Kept) error {
	if p.options.State == nil || before.same(after) {
		return nil
	}
	saving, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	return wrap("save the state of "+p.options.Node.Path, p.options.State.Save(saving, p.options.Node.Path, after))
}

// dropState drops what is kept of a node that is removed.
func (p *Provisioner) dropState(ctx context.Context) error {
	kept, err := p.loadState(ctx)
	if err != nil {
		return err
	}
	return p.save(ctx, kept, Kept{})
}
