package cd_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

func identifier(name string) scope.ResourceIdentifier {
	return scope.ResourceIdentifier{Owner: scope.Owner{Kind: "Stack", Name: "s", UID: "u"}, Path: "all/cni", Name: name}
}

func TestReleaseName(t *testing.T) {
	hash := identifier("").Hash()[:8]
	cases := map[string]struct {
		reason string
		wanted string
		name   string
		want   string
	}{
		"Wanted":        {reason: "a valid name is taken as it is", wanted: "my-release", want: "my-release"},
		"OneLetter":     {reason: "one character is enough", wanted: "x", want: "x"},
		"LongestWanted": {reason: "53 characters are Helm's limit", wanted: strings.Repeat("a", 53), want: strings.Repeat("a", 53)},
		"Derived":       {reason: "a derived name ends with the identity", name: "cilium", want: "cilium-" + hash},
		"DerivedLong":   {reason: "the head gives way to the suffix", name: strings.Repeat("a", 80), want: strings.Repeat("a", 44) + "-" + hash},
		"DerivedDash":   {reason: "no two dashes where the head was cut", name: strings.Repeat("a", 43) + "-b", want: strings.Repeat("a", 43) + "-" + hash},
		"DerivedDots":   {reason: "object names may have dots, release names may not", name: "My.App_1", want: "my-app-1-" + hash},
		"DerivedEmpty":  {reason: "a name without usable characters still gives a valid one", name: "--", want: "app-" + hash},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := cd.ReleaseName(tc.wanted, identifier(tc.name))
			require.NoError(t, err, tc.reason)
			require.Equal(t, tc.want, got, tc.reason)
			require.LessOrEqual(t, len(got), cd.MaxReleaseName, tc.reason)
			again, err := cd.ReleaseName(got, identifier(tc.name))
			require.NoError(t, err, "what is derived is valid")
			require.Equal(t, got, again)
		})
	}
}

func TestReleaseNameRefuses(t *testing.T) {
	for name, wanted := range map[string]string{
		"TooLong":      strings.Repeat("a", 54),
		"UpperCase":    "Release",
		"LeadingDash":  "-a",
		"TrailingDash": "a-",
		"Dot":          "a.b",
		"Space":        "a b",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := cd.ReleaseName(wanted, identifier("x"))
			require.ErrorIs(t, err, provisioner.ErrTerminal)
			require.Equal(t, abi.ReasonInvalidRelease, provisioner.OutcomeOf(err).Headline.Reason)
		})
	}
}

func TestReleaseNameTellsPlacesApart(t *testing.T) {
	a, b := identifier("cilium"), identifier("cilium")
	b.Path = "other"
	first, err := cd.ReleaseName("", a)
	require.NoError(t, err)
	second, err := cd.ReleaseName("", b)
	require.NoError(t, err)
	require.NotEqual(t, first, second)
}
