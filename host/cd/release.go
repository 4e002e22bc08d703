package cd

import (
	"regexp"
	"strings"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

// MaxReleaseName is Helm's limit: release names become label values with suffixes.
const MaxReleaseName = 53

var releasePattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// ReleaseName returns the release name for an application: the wanted one if there is
// one, otherwise the identifier's name and the first 8 digits of its hash. A wanted
// name that Helm would refuse is a Terminal invalid_release.
func ReleaseName(wanted string, id scope.ResourceIdentifier) (string, error) {
	if wanted == "" {
		const suffix = 9 // a dash and 8 hex digits
		head := strings.Trim(strings.Map(releaseRune, strings.ToLower(id.Name)), "-")
		if len(head) > MaxReleaseName-suffix {
			head = strings.TrimRight(head[:MaxReleaseName-suffix], "-")
		}
		if head == "" {
			head = "app"
		}
		return head + "-" + id.Hash()[:suffix-1], nil
	}
	if len(wanted) > MaxReleaseName || !releasePattern.MatchString(wanted) {
		return "", provisioner.Terminal(abi.ReasonInvalidRelease, "release name "+wanted)
	}
	return wanted, nil
}

// releaseRune replaces what a release name may not have, such as the dots that object
// names may.
func releaseRune(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
		return r
	}
	return '-'
}
