package blueprint

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// tally counts owners, and what could not be told to them. It is safe for concurrent use.
type tally struct {
	mu     sync.Mutex
	owners map[types.NamespacedName]entry
}

type entry struct {
	available bool
	// phase is the reason of what it was told last.
	phase   string
	trouble trouble
}

// counts is the sum of a tally.
type counts struct {
	owners, available int32
	// trouble is that of the first owner that has one, in order of names; troubled is how
	// many have.
	trouble  trouble
	first    types.NamespacedName
	troubled int
}

func newTally() *tally { return &tally{owners: map[types.NamespacedName]entry{}} }

// set notes how an owner is, and reports whether that is new.
func (t *tally) set(name types.NamespacedName, e entry) (was entry, changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	was, known := t.owners[name]
	t.owners[name] = e
	return was, !known || was != e
}

// forget drops an owner that is gone, and reports whether it was known.
func (t *tally) forget(name types.NamespacedName) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, known := t.owners[name]
	delete(t.owners, name)
	return known
}

func (t *tally) sum() counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	var c counts
	for name, e := range t.owners {
		c.owners++
		if e.available {
			c.available++
		}
		if e.trouble == (trouble{}) {
			continue
		}
		c.troubled++
		if c.troubled == 1 || name.String() < c.first.String() {
			c.first, c.trouble = name, e.trouble
		}
	}
	return c
}

// String says what is wrong and with whom.
func (c counts) String() string {
	name := c.first.Name
	if c.first.Namespace != "" {
		name = c.first.String()
	}
	if c.troubled == 1 {
		return fmt.Sprintf("%s: %s", name, c.trouble.message)
	}
	return fmt.Sprintf("%s and %d more: %s", name, c.troubled-1, c.trouble.message)
}
