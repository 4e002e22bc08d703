package plan

import (
	"fmt"
	"sort"
	"strings"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
)

// Finding is one thing that is wrong with a Stack.
type Finding struct {
	// Path is the place in the spec, for instance provisioners[cni].config.podCIDR.
	Path string
	// Node is the name of the node, or "".
	Node string
	// Problem says what is wrong and what would be right. It is made of fixed words and
	// of names and expressions in the user's own spec, so users may see it.
	Problem string
}

// String returns path and problem.
func (f Finding) String() string { return f.Path + ": " + f.Problem }

// InvalidError lists everything that is wrong with a Stack. It is the cause of the
// Terminal error that [Build] returns; find it with errors.As. Its text is safe to show
// to users.
type InvalidError struct {
	// Findings is not empty, and sorted by path.
	Findings []Finding
}

// maxListed is how many findings a message spells out, so that it fits a condition.
const maxListed = 10

// Error implements error.
func (e *InvalidError) Error() string {
	texts := make([]string, 0, maxListed+1)
	for i, f := range e.Findings {
		if i == maxListed {
			texts = append(texts, fmt.Sprintf("and %d more", len(e.Findings)-maxListed))
			break
		}
		texts = append(texts, f.String())
	}
	return strings.Join(texts, "; ")
}

// findings collects what is wrong, and whether any of it is about the structure.
type findings struct {
	structure   []Finding
	expressions []Finding
}

func (f *findings) addf(path, node, format string, args ...any) {
	f.structure = append(f.structure, Finding{Path: path, Node: node, Problem: fmt.Sprintf(format, args...)})
}

func (f *findings) addExpressions(node string, problems []problem) {
	for _, p := range problems {
		f.expressions = append(f.expressions, Finding{Path: p.path, Node: node, Problem: p.err.Error()})
	}
}

// sorted returns all that was found, by path.
func (f *findings) sorted() []Finding {
	all := append(append([]Finding(nil), f.structure...), f.expressions...)
	sort.SliceStable(all, func(i, j int) bool { return all[i].Path < all[j].Path })
	return all
}

// terminal returns the error for what was found, or nil: invalid_stack if anything is
// wrong with the structure, and invalid_expression otherwise.
func (f *findings) terminal() error {
	reason := abi.ReasonInvalidStack
	if len(f.structure) == 0 {
		reason = abi.ReasonInvalidExpression
	}
	all := f.sorted()
	if len(all) == 0 {
		return nil
	}
	invalid := &InvalidError{Findings: all}
	sentence, _ := abi.HostSentence(reason)
	return provisioner.Terminal(reason, "").WithCause(invalid).WithSentence(sentence + " " + clipSentence(invalid.Error()) + ".")
}

// maxSentence bounds what a condition shows of the findings: conditions hold 32 KiB, and
// a terminal far less.
const maxSentence = 1024

func clipSentence(text string) string {
	if len(text) <= maxSentence {
		return text
	}
	return strings.ToValidUTF8(text[:maxSentence], "") + "…"
}
