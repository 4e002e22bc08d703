package registry_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/host/registry"
)

const zeroDigest = "sha256:0000000000000000000000000000000000000000000000000000000000000000"

func TestParseReference(t *testing.T) {
	type parts struct{ host, repository, tag, digest, text string }
	cases := map[string]struct {
		reason string
		ref    string
		want   parts
	}{
		"Tag":       {reason: "the usual form", ref: "ghcr.io/acme/cilium:1.2.3", want: parts{"ghcr.io", "acme/cilium", "1.2.3", "", "ghcr.io/acme/cilium:1.2.3"}},
		"Scheme":    {reason: "as Helm and Flux write it", ref: "oci://ghcr.io/acme/cilium:1", want: parts{"ghcr.io", "acme/cilium", "1", "", "ghcr.io/acme/cilium:1"}},
		"Port":      {reason: "a port is part of the host", ref: "127.0.0.1:5000/a:b", want: parts{"127.0.0.1:5000", "a", "b", "", "127.0.0.1:5000/a:b"}},
		"Localhost": {reason: "localhost needs no dot", ref: "localhost/a:b", want: parts{"localhost", "a", "b", "", "localhost/a:b"}},
		"ShortHost": {reason: "a port makes a short name a host", ref: "registry:5000/a:b", want: parts{"registry:5000", "a", "b", "", "registry:5000/a:b"}},
		"IPv6":      {reason: "an address in brackets is a host", ref: "[::1]:5000/a:b", want: parts{"[::1]:5000", "a", "b", "", "[::1]:5000/a:b"}},
		"HostCase":  {reason: "hosts have no case", ref: "GHCR.io/a:B", want: parts{"ghcr.io", "a", "B", "", "ghcr.io/a:B"}},
		"Digest":    {reason: "a pinned reference needs no tag", ref: "ghcr.io/a@" + zeroDigest, want: parts{"ghcr.io", "a", "", zeroDigest, "ghcr.io/a@" + zeroDigest}},
		"Both":      {reason: "a tag may stand beside the digest", ref: "ghcr.io/a:1@" + zeroDigest, want: parts{"ghcr.io", "a", "1", zeroDigest, "ghcr.io/a:1@" + zeroDigest}},
		"Separators": {reason: "the grammar's separators are accepted", ref: "ghcr.io/a.b/c_d/e__f/g--h:v_1.0-x",
			want: parts{"ghcr.io", "a.b/c_d/e__f/g--h", "v_1.0-x", "", "ghcr.io/a.b/c_d/e__f/g--h:v_1.0-x"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ref, err := registry.ParseReference(tc.ref)
			require.NoError(t, err, tc.reason)
			require.Equal(t, tc.want, parts{ref.Host(), ref.Repository(), ref.Tag(), ref.Digest(), ref.String()}, tc.reason)
		})
	}
}

func TestParseReferenceRefuses(t *testing.T) {
	cases := map[string]struct {
		reason string
		ref    string
		want   string
	}{
		"Empty":         {reason: "nothing names nothing", ref: "", want: "host of a registry"},
		"NoHost":        {reason: "there is no default registry", ref: "acme/cilium:1", want: "host of a registry"},
		"OnlyHost":      {reason: "a host holds many things", ref: "ghcr.io", want: "host of a registry"},
		"NoTag":         {reason: "there is no default tag", ref: "ghcr.io/acme/cilium", want: "neither a tag nor a digest"},
		"EmptyTag":      {reason: "an empty tag is none", ref: "ghcr.io/a:", want: "the tag is not valid"},
		"LongTag":       {reason: "a tag has 128 characters", ref: "ghcr.io/a:" + strings.Repeat("t", 129), want: "the tag is not valid"},
		"HTTP":          {reason: "a web address is no reference", ref: "https://ghcr.io/a:1", want: "the only scheme is oci://"},
		"TwoSchemes":    {reason: "one scheme is enough", ref: "oci://oci://ghcr.io/a:1", want: "the only scheme is oci://"},
		"Traversal":     {reason: "a repository never works as a path", ref: "ghcr.io/a/../b:1", want: "the repository is not valid"},
		"TraversalTail": {reason: "nor at its end", ref: "ghcr.io/..:1", want: "the repository is not valid"},
		"TraversalTag":  {reason: "nor does a tag", ref: "ghcr.io/a:../../b", want: "the tag is not valid"},
		"TraversalHash": {reason: "nor does a digest", ref: "ghcr.io/a@sha256:../../../../etc/passwd", want: "not a sha256 digest"},
		"Escaped":       {reason: "escapes are not decoded later", ref: "ghcr.io/a%2f..%2fb:1", want: "the repository is not valid"},
		"DoubleSlash":   {reason: "an element is not empty", ref: "ghcr.io/a//b:1", want: "the repository is not valid"},
		"UpperCase":     {reason: "repositories are lower-case", ref: "ghcr.io/Acme:1", want: "the repository is not valid"},
		"ShortDigest":   {reason: "a digest is whole", ref: "ghcr.io/a@sha256:abc", want: "not a sha256 digest"},
		"UpperDigest":   {reason: "a digest has one spelling", ref: "ghcr.io/a@sha256:" + strings.Repeat("A", 64), want: "not a sha256 digest"},
		"OtherDigest":   {reason: "weaker digests are not accepted", ref: "ghcr.io/a@md5:d41d8cd98f00b204e9800998ecf8427e", want: "not a sha256 digest"},
		"TwoDigests":    {reason: "one digest is enough", ref: "ghcr.io/a@" + zeroDigest + "@" + zeroDigest, want: "not a sha256 digest"},
		"UserInfo":      {reason: "a reference holds no password", ref: "user:pass@ghcr.io/a:1", want: "host of a registry"},
		"BadPort":       {reason: "a port is a number", ref: "ghcr.io:http/a:1", want: "host of a registry"},
		"BigPort":       {reason: "a port has 16 bits", ref: "ghcr.io:70000/a:1", want: "host of a registry"},
		"NoPort":        {reason: "a colon announces a port", ref: "ghcr.io:/a:1", want: "host of a registry"},
		"BadHost":       {reason: "a host has no underscores", ref: "my_host.io/a:1", want: "host of a registry"},
		"BareIPv6":      {reason: "an IPv6 address is in brackets", ref: "::1/a:1", want: "host of a registry"},
		"ZonedIPv6":     {reason: "a zone is local to a machine", ref: "[fe80::1%25eth0]:5000/a:1", want: "host of a registry"},
		"OpenBracket":   {reason: "a bracket is closed", ref: "[::1/a:1", want: "host of a registry"},
		"Space":         {reason: "white space is a copy-and-paste mistake", ref: " ghcr.io/a:1", want: "host of a registry"},
		"NewLine":       {reason: "a line break must not reach a log or a header", ref: "ghcr.io/a:1\r\nX: y", want: "the tag is not valid"},
		"Long":          {reason: "a reference is bounded", ref: "ghcr.io/" + strings.Repeat("a", 600) + ":1", want: "too long"},
		"LongRepo":      {reason: "a repository is bounded", ref: "ghcr.io/" + strings.Repeat("a", 300) + ":1", want: "the repository is not valid"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := registry.ParseReference(tc.ref)
			require.ErrorIs(t, err, registry.InvalidReference, tc.reason)
			require.ErrorContains(t, err, tc.want, tc.reason)
			require.NotContains(t, err.Error(), "\n", "an error is one line")
			require.Less(t, len(err.Error()), 600, "an error is short")
		})
	}
}

func FuzzParseReference(f *testing.F) {
	for _, seed := range []string{
		"ghcr.io/acme/cilium:1.2.3", "oci://127.0.0.1:5000/a@" + zeroDigest, "[::1]:5000/a:b", "ghcr.io/a/../b:1", "a/b:c", "localhost/a:b@" + zeroDigest, "::1/a:1",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ref, err := registry.ParseReference(s)
		if err != nil {
			require.ErrorIs(t, err, registry.InvalidReference)
			require.NotContains(t, err.Error(), "\n")
			return
		}
		again, err := registry.ParseReference(ref.String())
		require.NoError(t, err, "what a reference prints can be parsed")
		require.Equal(t, ref, again)
		require.NotContains(t, ref.Repository(), "..")
		require.False(t, ref.Tag() == "" && ref.Digest() == "")
	})
}
