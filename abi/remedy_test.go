package abi_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
)

// A reason without a remedy would leave a person with a Stack that says no, and no word of
// what to do.
func TestEveryReasonHasARemedy(t *testing.T) {
	reasons, remedies := abi.HostReasons(), abi.HostRemedies()
	require.Len(t, remedies, len(reasons))
	for i, r := range reasons {
		require.Equal(t, r.Code, remedies[i].Code, "in the order of the reasons, and each once")
		found, ok := abi.HostRemedy(r.Code)
		require.True(t, ok)
		require.Equal(t, remedies[i], found)
	}
	_, ok := abi.HostRemedy("nothing_of_ours")
	require.False(t, ok)
}

func TestRemediesAreSentences(t *testing.T) {
	known := []abi.Revival{
		abi.RevivedByTime, abi.RevivedByInput, abi.RevivedBySpec, abi.RevivedByModule,
		abi.RevivedByCatalogue, abi.RevivedByDriver, abi.RevivedByRetry,
	}
	for _, r := range abi.HostRemedies() {
		require.Contains(t, known, r.Revival, r.Code)
		require.True(t, strings.HasSuffix(r.Text, "."), r.Code)
		require.Equal(t, strings.ToUpper(r.Text[:1]), r.Text[:1], r.Code)
		require.Less(t, len(r.Text), 160, "%s: two lines of a terminal", r.Code)
		sentence, _ := abi.HostSentence(r.Code)
		require.NotEqual(t, sentence, r.Text, "%s: it says more than the sentence", r.Code)
	}
}

// What a sentence promises is what its remedy builds on. A phrase of a sentence allows
// certain revivals; what only others would allow is a contradiction.
func TestRemediesAgreeWithTheSentences(t *testing.T) {
	phrases := map[string]struct {
		reason  string
		allowed []abi.Revival
	}{
		"will be tried again":    {reason: "nobody has to do anything", allowed: []abi.Revival{abi.RevivedByTime, abi.RevivedByDriver}},
		"will be retried":        {reason: "nobody has to do anything", allowed: []abi.Revival{abi.RevivedByTime}},
		"will be repeated":       {reason: "nobody has to do anything", allowed: []abi.Revival{abi.RevivedByTime}},
		"will be continued":      {reason: "nobody has to do anything", allowed: []abi.Revival{abi.RevivedByTime}},
		"will be taken over":     {reason: "nobody has to do anything", allowed: []abi.Revival{abi.RevivedByTime}},
		" is being ":             {reason: "it is under way", allowed: []abi.Revival{abi.RevivedByTime, abi.RevivedByModule}},
		" yet.":                  {reason: "it is to come", allowed: []abi.Revival{abi.RevivedByTime}},
		"correct the spec":       {reason: "the spec is what is wrong", allowed: []abi.Revival{abi.RevivedBySpec}},
		"see its own conditions": {reason: "it is the Module's", allowed: []abi.Revival{abi.RevivedByModule}},
		"grant it, and then set the annotation caisson.dev/retry": {reason: "permissions are not watched", allowed: []abi.Revival{abi.RevivedByRetry}},
		"publish it":             {reason: "repositories are not watched", allowed: []abi.Revival{abi.RevivedByRetry}},
		"does not exist; create": {reason: "it is an input", allowed: []abi.Revival{abi.RevivedByInput, abi.RevivedByModule}},
		"set the annotation":     {reason: "it is not watched", allowed: []abi.Revival{abi.RevivedByRetry}},
		"look at":                {reason: "the cluster is what is wrong", allowed: []abi.Revival{abi.RevivedByDriver}},
	}
	for phrase, tc := range phrases {
		t.Run(strings.TrimSpace(phrase), func(t *testing.T) {
			met := 0
			for _, r := range abi.HostReasons() {
				if strings.Contains(r.Sentence, phrase) {
					met++
					remedy, ok := abi.HostRemedy(r.Code)
					require.True(t, ok)
					require.Contains(t, tc.allowed, remedy.Revival, "%s: %s", r.Code, tc.reason)
				}
			}
			require.NotZero(t, met, "no sentence says %q any more", phrase)
		})
	}
	said := map[string]string{}
	for _, r := range abi.HostReasons() {
		require.Empty(t, said[r.Sentence], "%s says what %s says", r.Code, said[r.Sentence])
		said[r.Sentence] = r.Code
	}
	done := map[string]abi.Revival{}
	for _, r := range abi.HostRemedies() {
		if other, ok := done[r.Text]; ok {
			require.Equal(t, other, r.Revival, "%s: the same words for something else", r.Code)
		}
		done[r.Text] = r.Revival
	}
}
