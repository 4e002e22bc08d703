package application

import (
	"fmt"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
)

// Resolve picks the version of an entry that was asked for: exactly one version, the
// newest of a range such as 3.x or ">=1.2 <2", or with nothing asked the newest that is
// no pre-release. A leading v and build metadata do not count, and a pre-release is in a
// range only if the range names one. Versions that are no semantic ones are found by
// their exact spelling.
//
// No such version is Terminal version_not_found, what is neither a version nor a range
// Terminal invalid_config, and an entry that holds the picked version twice
// UserActionRequired version_not_found, because either could be meant.
func Resolve(entry *Entry, wanted string) (*Version, error) {
	wanted = strings.TrimSpace(wanted)
	accept, err := matcher(wanted)
	if err != nil {
		return nil, provisioner.Terminal(abi.ReasonInvalidConfig, fmt.Sprintf("version %q of %s is neither a version nor a range", clip(wanted), entry.Name)).WithCause(err)
	}
	var best *Version
	var bestVersion *semver.Version
	twice := false
	for i := range entry.Versions {
		candidate := &entry.Versions[i]
		parsed, err := semver.NewVersion(candidate.Version)
		if err != nil {
			if wanted != "" && candidate.Version == wanted {
				return candidate, nil
			}
			continue
		}
		if !accept(parsed) {
			continue
		}
		switch {
		case best == nil || parsed.GreaterThan(bestVersion):
			best, bestVersion, twice = candidate, parsed, false
		case parsed.Equal(bestVersion):
			twice = true
		}
	}
	if best == nil {
		return nil, provisioner.Terminal(abi.ReasonVersionNotFound, fmt.Sprintf("catalogue entry %s has no version %q", entry.Name, clip(wanted)))
	}
	if twice {
		return nil, provisioner.UserActionRequired(abi.ReasonVersionNotFound,
			fmt.Sprintf("catalogue entry %s has two versions that equal %s", entry.Name, best.Version))
	}
	return best, nil
}

// matcher returns the test that a version must pass.
func matcher(wanted string) (func(*semver.Version) bool, error) {
	if wanted == "" {
		return func(v *semver.Version) bool { return v.Prerelease() == "" }, nil
	}
	if exact, err := semver.StrictNewVersion(strings.TrimPrefix(wanted, "v")); err == nil {
		return exact.Equal, nil
	}
	constraint, err := semver.NewConstraint(wanted)
	if err == nil {
		return constraint.Check, nil
	}
	if strings.ContainsAny(wanted, " \t\n<>=!~^|,*") {
		return nil, err
	}
	// A tag such as "main" is no range, but an entry may be spelled like it.
	return func(*semver.Version) bool { return false }, nil
}

// clip keeps hostile text from filling a log line.
func clip(s string) string {
	const enough = 80
	if len(s) <= enough {
		return s
	}
	return strings.ToValidUTF8(s[:enough], "") + "…"
}
