package remotecluster

import (
	"context"
	"slices"

	"github.com/caisson-dev/caisson/host/provisioner"
)

// Around returns a provisioner that runs a tree with all brackets that its nodes use,
// listed so that one that is declared on another comes after it. It begins a pass of
// every bracket, and after a deprovision finishes them, the innermost first, also while
// other parts of the tree are still being removed. It belongs at the root of a tree:
// its Deprovision takes the remotes for done with.
func Around(body provisioner.Provisioner, brackets ...*Bracket) provisioner.Provisioner {
	return &around{body: body, brackets: slices.Clone(brackets)}
}

type around struct {
	body     provisioner.Provisioner
	brackets []*Bracket
}

var _ provisioner.Provisioner = (*around)(nil)

// ProvisionerName implements provisioner.Provisioner.
func (a *around) ProvisionerName() string { return a.body.ProvisionerName() }

// Provision implements provisioner.Provisioner.
func (a *around) Provision(ctx context.Context) error {
	a.begin()
	return a.body.Provision(ctx)
}

// Deprovision implements provisioner.Provisioner.
func (a *around) Deprovision(ctx context.Context) error {
	a.begin()
	results := []error{provisioner.Unpark(a.body.Deprovision(ctx))}
	for _, bracket := range slices.Backward(a.brackets) {
		results = append(results, bracket.Finish(ctx))
	}
	return provisioner.Fold(results...)
}

func (a *around) begin() {
	for _, bracket := range a.brackets {
		bracket.Begin()
	}
}
