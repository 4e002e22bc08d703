package application_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/application"
)

func entry(versions ...string) *application.Entry {
	e := &application.Entry{Name: "metrics-server", ResourceVersion: "7"}
	for _, v := range versions {
		e.Versions = append(e.Versions, application.Version{Version: v, Repo: "oci://r/charts", Chart: "metrics-server"})
	}
	return e
}

func TestCase091VersionMatch(t *testing.T) {
	cases := map[string]struct {
		reason string
		have   []string
		wanted string
		want   string
		class  abi.Disposition
		code   string
	}{
		"LeadingVInCatalogue": {reason: "a leading v does not count, and the catalogue's spelling is what is asked for", have: []string{"v1.2.3"}, wanted: "1.2.3", want: "v1.2.3"},
		"LeadingVInRequest":   {reason: "nor does one in the request", have: []string{"1.2.3"}, wanted: "v1.2.3", want: "1.2.3"},
		"BuildMetadata":       {reason: "build metadata does not count", have: []string{"1.2.3+k8s"}, wanted: "1.2.3", want: "1.2.3+k8s"},
		"BuildInRequest":      {reason: "nor does it in the request", have: []string{"1.2.3"}, wanted: "1.2.3+other", want: "1.2.3"},
		"ExactNotNewest":      {reason: "an exact version is that version", have: []string{"1.2.4", "1.2.3", "2.0.0"}, wanted: "1.2.3", want: "1.2.3"},
		"ExactPrerelease":     {reason: "a pre-release can be named", have: []string{"2.0.0-rc.1", "1.0.0"}, wanted: "2.0.0-rc.1", want: "2.0.0-rc.1"},
		"Wildcard":            {reason: "the newest of a range, in whatever order they are listed", have: []string{"3.1.0", "3.12.1", "3.2.0", "4.0.0"}, wanted: "3.x", want: "3.12.1"},
		"Partial":             {reason: "two numbers mean the newest patch", have: []string{"1.2.0", "1.2.9", "1.3.0"}, wanted: "1.2", want: "1.2.9"},
		"Interval":            {reason: "a space is an and", have: []string{"1.1.0", "1.9.0", "2.0.0"}, wanted: ">=1.2 <2", want: "1.9.0"},
		"Either":              {reason: "alternatives", have: []string{"1.0.0", "3.0.0", "2.0.0"}, wanted: "1.x || 2.x", want: "2.0.0"},
		"Caret":               {reason: "the usual operators", have: []string{"1.2.0", "1.4.0", "2.0.0"}, wanted: "^1.2.0", want: "1.4.0"},
		"RangePrerelease":     {reason: "a range does not pick pre-releases", have: []string{"3.1.0", "3.2.0-rc.1"}, wanted: "3.x", want: "3.1.0"},
		"RangeNamesPre":       {reason: "unless it names one", have: []string{"3.1.0", "3.2.0-rc.1"}, wanted: ">=3.1.0-0", want: "3.2.0-rc.1"},
		"Newest":              {reason: "nothing asked is the newest", have: []string{"1.0.0", "1.10.0", "1.9.0"}, want: "1.10.0"},
		"NewestSpaces":        {reason: "white space asks nothing", have: []string{"1.0.0"}, wanted: "  ", want: "1.0.0"},
		"NewestNoPre":         {reason: "the newest is no pre-release", have: []string{"1.0.0", "2.0.0-alpha"}, want: "1.0.0"},
		"OnlyPre":             {reason: "a pre-release is never picked unasked", have: []string{"2.0.0-alpha"}, class: abi.Terminal, code: abi.ReasonVersionNotFound},
		"NoSemver":            {reason: "a tag is found by its spelling", have: []string{"main", "1.0.0"}, wanted: "main", want: "main"},
		"NoSemverSkipped":     {reason: "and is in no range", have: []string{"main", "1.0.0"}, wanted: "*", want: "1.0.0"},
		"Case092Missing":      {reason: "the spec must change, or the catalogue", have: []string{"1.0.0"}, wanted: "1.0.1", class: abi.Terminal, code: abi.ReasonVersionNotFound},
		"MissingRange":        {reason: "a range may match nothing", have: []string{"1.0.0"}, wanted: "2.x", class: abi.Terminal, code: abi.ReasonVersionNotFound},
		"MissingTag":          {reason: "a word is a tag", have: []string{"1.0.0"}, wanted: "latest", class: abi.Terminal, code: abi.ReasonVersionNotFound},
		"Unparsable":          {reason: "this is neither", have: []string{"1.0.0"}, wanted: ">>1 <", class: abi.Terminal, code: abi.ReasonInvalidConfig},
		"Huge":                {reason: "hostile text costs nothing", have: []string{"1.0.0"}, wanted: strings.Repeat(">=1 ", 5000), class: abi.Terminal, code: abi.ReasonInvalidConfig},
		"Empty":               {reason: "an empty entry has no version", class: abi.Terminal, code: abi.ReasonVersionNotFound},
		"Twice":               {reason: "two equal versions could both be meant", have: []string{"v1.2.3", "1.2.3"}, wanted: "1.2.3", class: abi.UserActionRequired, code: abi.ReasonVersionNotFound},
		"TwiceInRange":        {reason: "also when a range leads there", have: []string{"1.2.3+a", "1.2.3+b", "1.0.0"}, wanted: "1.x", class: abi.UserActionRequired, code: abi.ReasonVersionNotFound},
		"TwiceBelow":          {reason: "two equal versions that are not picked do no harm", have: []string{"1.0.0", "v1.0.0", "1.1.0"}, wanted: "1.x", want: "1.1.0"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := application.Resolve(entry(tc.have...), tc.wanted)
			if tc.code == "" {
				require.NoError(t, err, tc.reason)
				require.Equal(t, tc.want, got.Version, tc.reason)
				return
			}
			outcome := provisioner.OutcomeOf(err)
			require.Equal(t, tc.class, outcome.Class, tc.reason)
			require.Equal(t, tc.code, outcome.Headline.Reason, tc.reason)
			require.Less(t, len(err.Error()), 500, "a log line must stay one")
		})
	}
}

func FuzzResolve(f *testing.F) {
	for _, seed := range []string{"", "1.2.3", "v1", "3.x", ">=1.2 <2", "1.x || 2.x", "main", "\x00", "^^", "1.2.3-é", "~> 1"} {
		f.Add(seed, "v1.2.3")
	}
	f.Fuzz(func(t *testing.T, wanted, have string) {
		e := entry(have, "1.0.0")
		got, err := application.Resolve(e, wanted)
		if err == nil {
			require.True(t, got == &e.Versions[0] || got == &e.Versions[1], "the answer is one of the entry's own")
			return
		}
		require.True(t, provisioner.IsTerminal(err), "a version that cannot be found parks")
	})
}

func TestLookup(t *testing.T) {
	broken := errors.New("cache is not synced")
	cases := map[string]struct {
		reason string
		entry  *application.Entry
		err    error
		class  abi.Disposition
		code   string
		want   []provisioner.Input
	}{
		"Found":  {reason: "an entry is an input with its version", entry: entry("1.0.0"), want: []provisioner.Input{{ScopeID: "home", Kind: "Application", Name: "metrics-server", Version: "7"}}},
		"Absent": {reason: "so is one that is missing: its creation must wake the owner", err: provisioner.ErrNotFound, class: abi.UserActionRequired, code: abi.ReasonApplicationNotFound, want: []provisioner.Input{{ScopeID: "home", Kind: "Application", Name: "metrics-server", Absent: true}}},
		"Error":  {reason: "a failure to find out is not absence", err: broken, class: abi.Retry, code: abi.ReasonUnexpected},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var recorded []provisioner.Input
			catalogue := application.CatalogueFunc(func(context.Context, string) (*application.Entry, error) { return tc.entry, tc.err })
			recorder := provisioner.InputRecorderFunc(func(i provisioner.Input) { recorded = append(recorded, i) })
			got, err := application.Lookup(t.Context(), catalogue, "metrics-server", recorder)
			outcome := provisioner.OutcomeOf(err)
			require.Equal(t, tc.class, outcome.Class, tc.reason)
			require.Equal(t, tc.code, outcome.Headline.Reason, tc.reason)
			require.Equal(t, tc.want, recorded, tc.reason)
			if err == nil {
				require.Same(t, tc.entry, got, tc.reason)
			}
			_, again := application.Lookup(t.Context(), catalogue, "metrics-server", nil)
			require.Equal(t, err == nil, again == nil, "the recorder is optional")
		})
	}
}
