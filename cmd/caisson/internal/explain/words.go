package explain

import (
	"slices"
	"strconv"
	"strings"

	"github.com/caisson-dev/caisson/cmd/caisson/internal/tree"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/scope"
)

// The kinds of input that a person can create.
const (
	kindSecret    = "Secret"
	kindConfigMap = "ConfigMap"
)

func atHome(i v1alpha1.InputRecord) bool { return i.Scope == scope.HomeID }

// object names an input.
func object(i v1alpha1.InputRecord) string {
	text := i.Kind + " " + i.Name
	if i.Namespace != "" {
		text += " in namespace " + i.Namespace
	}
	if !atHome(i) {
		text += " on the remote cluster"
	}
	return tree.Clean(text)
}

// objects names inputs; more than a person reads are counted.
func objects(inputs []v1alpha1.InputRecord) string {
	names := make([]string, 0, len(inputs))
	for _, i := range inputs {
		names = append(names, object(i))
	}
	return list(names)
}

// list joins names; more than a person reads are counted.
func list(names []string) string {
	const most = 6
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:most], ", ") + ", and " + strconv.Itoa(len(names)-most) + " more"
}

// where says on which cluster a node acts.
func where(p place) string {
	if p.remote == "" {
		return "at home"
	}
	return "on remote " + tree.Clean(p.remote)
}

// alike adds the names that somebody may have meant.
func alike(name string, names []string) string {
	similar := closest(name, names)
	if len(similar) == 0 {
		return ""
	}
	return "; there is " + strings.Join(similar, ", ")
}

func (e *explainer) moduleNames() []string {
	names := make([]string, 0, len(e.Modules))
	for _, m := range e.Modules {
		names = append(names, tree.Clean(m.Name))
	}
	return names
}

func (e *explainer) applicationNames() []string {
	names := make([]string, 0, len(e.Applications))
	for _, a := range e.Applications {
		names = append(names, tree.Clean(a.Name))
	}
	return names
}

// closest returns the names that a person may have meant, the closest first.
func closest(name string, names []string) []string {
	const most = 3
	type candidate struct {
		name     string
		distance int
	}
	var found []candidate
	for _, n := range names {
		d := distance(name, n)
		if strings.Contains(n, name) || strings.Contains(name, n) {
			d = min(d, 1)
		}
		if d <= max(2, len(name)/3) && n != "" {
			found = append(found, candidate{n, d})
		}
	}
	slices.SortFunc(found, func(a, b candidate) int {
		if a.distance != b.distance {
			return a.distance - b.distance
		}
		return strings.Compare(a.name, b.name)
	})
	var closest []string
	for _, c := range found[:min(most, len(found))] {
		closest = append(closest, c.name)
	}
	return closest
}

// distance is how many letters have to be put in, taken out or changed.
func distance(a, b string) int {
	before := make([]int, len(b)+1)
	for j := range before {
		before[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(before[j]+1, row[j-1]+1, before[j-1]+cost)
		}
		before = row
	}
	return before[len(b)]
}
