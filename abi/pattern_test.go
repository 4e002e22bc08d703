package abi

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// shapes are the matchers with the expressions that they stand in for.
func shapes() map[string]struct {
	pattern *regexp.Regexp
	matches func(string) bool
} {
	return map[string]struct {
		pattern *regexp.Regexp
		matches func(string) bool
	}{
		"label": {regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`), isLabel},
		"group": {regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`), isGroup},
		"kind":  {regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,62}$`), isKind},
		// The expression that semver.org gives.
		"semver": {regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)` +
			`(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?` +
			`(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?$`), isSemver},
	}
}

// samples are names that any of the shapes may have, or nearly have.
func samples() []string {
	return []string{
		"", "a", "-", "a-", "-a", "a-b", "0", "A", "Ab", "aB", "A-", "a.b", ".a", "a.", "a..b", "apps", "gateway.networking.k8s.io", "ä", "Ä", "a\n", "a b",
		strings.Repeat("a", 63), strings.Repeat("a", 64), "A" + strings.Repeat("a", 62), "A" + strings.Repeat("a", 63),
		strings.Repeat("a", 253), strings.Repeat("a", 254),
		// From the list of semver.org, and next to it.
		"0.0.4", "1.2.3", "10.20.30", "1.1.2-prerelease+meta", "1.1.2+meta", "1.0.0-alpha.beta.1", "1.0.0-alpha0.valid", "1.0.0-alpha-a.b-c-somethinglong+build.1-aef.1-its-okay",
		"2.0.0+build.1848", "1.0.0+0.build.1-rc.10000aaa-kk-0.1", "1.0.0-0A.is.legal", "1.2.3----RC-SNAPSHOT.12.9.1--.12", "1.2.3----R-S.12.9.1--.12+meta", "1.0.0-0", "1.0.0-0-0",
		"1", "1.2", "1.2.3-0123", "1.2.3-0123.0123", "1.1.2+.123", "+invalid", "-invalid", "alpha", "1.0.0-alpha..1", "01.1.1", "1.01.1", "1.1.01", "1.2.3.DEV", "1.2-SNAPSHOT",
		"1.2.31.2.3", "-1.0.3", "9.8.7+meta+meta", "9.8.7-whatever+meta+meta", "1.0.0-", "1.0.0+", "1.0.0-+a", "v1.2.3", "1.2.3 ", "1.2.3\n", "1..3", "١.٢.٣",
	}
}

func TestShapes(t *testing.T) {
	for name, shape := range shapes() {
		t.Run(name, func(t *testing.T) {
			accepted := 0
			for _, s := range samples() {
				want := shape.pattern.MatchString(s)
				require.Equal(t, want, shape.matches(s), "%q", s)
				if want {
					accepted++
				}
			}
			require.NotZero(t, accepted, "the samples say something about this shape")
		})
	}
}

func FuzzShapes(f *testing.F) {
	for _, s := range samples() {
		f.Add(s)
	}
	all := shapes()
	f.Fuzz(func(t *testing.T, s string) {
		for name, shape := range all {
			require.Equal(t, shape.pattern.MatchString(s), shape.matches(s), "%s %q", name, s)
		}
	})
}
