package abi

import "strings"

// The shapes of names are matched by hand, not with package regexp: this package is
// linked into every module, where that one would cost 0.4 MB and compile its patterns
// anew in each fresh instance. The tests compare both.

// ReasonPattern is what every reason code matches, the host's own included.
const ReasonPattern = `^[a-z][a-z0-9_]{0,62}$`

// maxNameBytes is the length of a DNS label, and of a reason and a kind by analogy.
const maxNameBytes = 63

// ValidReason reports whether code matches [ReasonPattern].
func ValidReason(code string) bool {
	return code != "" && len(code) <= maxNameBytes && isLower(code[0]) &&
		every(code, func(c byte) bool { return isLower(c) || isDigit(c) || c == '_' })
}

// isLabel reports whether s is a DNS label of RFC 1123, which is what Kubernetes accepts
// as a name.
func isLabel(s string) bool {
	return len(s) <= maxNameBytes && bounded(s) &&
		every(s, func(c byte) bool { return isLower(c) || isDigit(c) || c == '-' })
}

// isGroup reports whether s has the shape of a Kubernetes API group that is not the core
// group.
func isGroup(s string) bool {
	return len(s) <= 253 && bounded(s) &&
		every(s, func(c byte) bool { return isLower(c) || isDigit(c) || c == '-' || c == '.' })
}

// isKind reports whether s has the shape of a Kubernetes kind.
func isKind(s string) bool {
	return s != "" && len(s) <= maxNameBytes && isUpper(s[0]) &&
		every(s, func(c byte) bool { return isUpper(c) || isLower(c) || isDigit(c) })
}

// isSemver reports whether s is a semantic version 2.0.0, without a leading v.
func isSemver(s string) bool {
	rest, build, hasBuild := strings.Cut(s, "+")
	core, pre, hasPre := strings.Cut(rest, "-")
	numbers := strings.Split(core, ".")
	if len(numbers) != 3 {
		return false
	}
	for _, n := range numbers {
		if n == "" || !every(n, isDigit) || leadingZero(n) {
			return false
		}
	}
	if hasPre && !identifiers(pre, func(id string) bool { return !every(id, isDigit) || !leadingZero(id) }) {
		return false
	}
	return !hasBuild || identifiers(build, func(string) bool { return true })
}

// identifiers reports whether s is a dotted list of identifiers of semantic versions that
// are also accepted.
func identifiers(s string, accepted func(id string) bool) bool {
	for _, id := range strings.Split(s, ".") {
		wellFormed := id != "" &&
			every(id, func(c byte) bool { return isLower(c) || isUpper(c) || isDigit(c) || c == '-' })
		if !wellFormed || !accepted(id) {
			return false
		}
	}
	return true
}

func leadingZero(n string) bool { return len(n) > 1 && n[0] == '0' }

// bounded reports whether s starts and ends with a lower-case letter or a digit.
func bounded(s string) bool {
	if s == "" {
		return false
	}
	first, last := s[0], s[len(s)-1]
	return (isLower(first) || isDigit(first)) && (isLower(last) || isDigit(last))
}

func every(s string, allowed func(byte) bool) bool {
	for i := range len(s) {
		if !allowed(s[i]) {
			return false
		}
	}
	return true
}

func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }
