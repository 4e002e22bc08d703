package module_test

import (
	"context"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/capability"
	"github.com/caisson-dev/caisson/host/provisioner"
)

// A module that may read the bytes of a secret puts them everywhere it can. None of its
// texts gets further than the host with it.
func TestRawSecretsStayOut(t *testing.T) {
	encoded := base64.StdEncoding.EncodeToString([]byte(password))
	cases := map[string]struct {
		reason string
		code   int32
		output string
		err    error
		want   string
		why    string
	}{
		"why":        {reason: "the log is no place for it", code: 2, output: `{"reason":"unexpected","why":"login with ` + password + ` failed"}`, want: abi.ReasonUnexpected, why: "login with [secret] failed"},
		"encoded":    {reason: "nor as it is in the Secret", code: 2, output: `{"reason":"unexpected","why":"got ` + encoded + `"}`, want: abi.ReasonUnexpected, why: "got [secret]"},
		"reason":     {reason: "a code that is not declared goes to the log", code: 3, output: `{"reason":"` + password + `"}`, want: abi.ReasonUnspecified, why: `undeclared reason "[secret]"`},
		"bad code":   {reason: "with the why of an answer that is none", code: 7, output: `{"why":"` + password + `"}`, want: abi.ReasonModuleBadCode, why: "[secret]"},
		"fact":       {reason: "facts are shown to everybody", output: `{"facts":{"address":{"list":["x` + password + `"]}}}`, want: abi.ReasonModuleBadOutput, why: "a fact holds the value of a secret"},
		"fact key":   {reason: "inside of one, too", output: `{"facts":{"address":{"` + password + `":1}}}`, want: abi.ReasonModuleBadOutput, why: "a fact holds the value of a secret"},
		"fact name":  {reason: "whose name is refused anyway", output: `{"facts":{"` + password + `!":1}}`, want: abi.ReasonModuleBadOutput, why: "the fact name \"[secret]!\""},
		"trap":       {reason: "a panic quotes it", err: fault{reason: abi.ReasonModuleTrap, text: "panic: bad password " + password}, want: abi.ReasonModuleTrap, why: "bad password [secret]"},
		"near miss":  {reason: "another text is left as it is", code: 2, output: `{"reason":"unexpected","why":"login failed"}`, want: abi.ReasonUnexpected, why: "login failed"},
		"fact, fine": {reason: "a fact without it", output: `{"facts":{"address":"198.51.100.9"}}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := secretWorld(cluster(nil, cloudSecret("team", password)), cluster(nil))
			w.grant.Secrets = []capability.SecretRule{{Namespace: capability.OwnerNamespace, Names: []string{"cloud"}, Raw: true}}
			w.guest = func(ctx context.Context, _ string, _ []byte, host hostFunc) (int32, []byte, error) {
				result := read(t, ctx, host, abi.SecretReadRequest{Scope: abi.ScopeHome, Name: "cloud", Key: "password", Raw: true})
				require.Equal(t, password, string(result.Value))
				return c.code, []byte(c.output), c.err
			}
			err := w.provision(t)
			if c.want == "" {
				require.NoError(t, err, c.reason)
				require.Len(t, w.facts.values, 1)
				return
			}
			o := provisioner.OutcomeOf(err)
			require.Equal(t, c.want, o.Headline.Reason, c.reason)
			require.Contains(t, o.Headline.Why, c.why)
			for _, text := range []string{err.Error(), o.Headline.Sentence, o.Headline.Why} {
				require.NotContains(t, text, password)
				require.NotContains(t, text, encoded)
			}
			require.Empty(t, w.facts.values)
		})
	}
}

// What a guest gave to error_set before it trapped is part of the why, cleaned and cut, and
// of nothing else.
func TestGuestTextOfATrap(t *testing.T) {
	said := "connect: \x1b[31mrefused\x00" + strings.Repeat("x", 8<<10)
	w := newWorld(func(context.Context, string, []byte, hostFunc) (int32, []byte, error) {
		return 0, nil, fault{reason: abi.ReasonModuleTrap, text: "module sha256:aa: trap of provision: unreachable: " + said, trap: "unreachable"}
	})
	o := provisioner.OutcomeOf(w.provision(t))
	require.Equal(t, abi.ReasonModuleTrap, o.Headline.Reason)
	require.Contains(t, o.Headline.Why, "connect:  [31mrefused ")
	require.LessOrEqual(t, len(o.Headline.Why), 4<<10)
	sentence, _ := abi.HostSentence(abi.ReasonModuleTrap)
	require.Equal(t, sentence, o.Headline.Sentence)
}
