package explain

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Similar returns the Stacks that a person may have meant by a name that does not exist:
// those of the same name elsewhere, and those of a similar one in the namespace.
func Similar(wanted types.NamespacedName, stacks []types.NamespacedName) []types.NamespacedName {
	const most = 3
	var same []types.NamespacedName
	var here []string
	for _, s := range stacks {
		switch {
		case s.Name == wanted.Name && s.Namespace != wanted.Namespace:
			same = append(same, s)
		case s.Namespace == wanted.Namespace:
			here = append(here, s.Name)
		}
	}
	slices.SortFunc(same, func(a, b types.NamespacedName) int { return strings.Compare(a.Namespace, b.Namespace) })
	similar := same[:min(most, len(same))]
	for _, name := range closest(wanted.Name, here) {
		similar = append(similar, types.NamespacedName{Namespace: wanted.Namespace, Name: name})
	}
	return similar
}
