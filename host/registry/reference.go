package registry

import (
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

const (
	// scheme is the optional prefix of a reference, as Helm and Flux write it.
	scheme = "oci://"
	// referenceLimit bounds a reference before anything looks at it: 255 for host and
	// repository as in the reference grammar of distribution, 128 for the tag, the
	// digest, and some room.
	referenceLimit = 512
	// repositoryLimit is the 255 of that grammar.
	repositoryLimit = 255
)

// The three expressions are those of the OCI distribution specification 1.1, which
// has no element that consists of dots: a repository can never work as a path.
var (
	repositoryPattern = regexp.MustCompile(`^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*$`)
	tagPattern        = regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}$`)
	digestPattern     = regexp.MustCompile(`^sha256:[a-f0-9]{64}$`)
	domainPattern     = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*$`)
)

// Reference names an artifact in a registry by tag, by digest, or by both, where the
// digest decides. The zero value names nothing; [ParseReference] makes others. It is
// comparable.
type Reference struct {
	host, repository, tag, digest string
}

// ParseReference reads oci://host/repository:tag. The scheme may be left out, and
// @sha256:… may stand instead of the tag or after it. There is no default host and no
// default tag: a module is executable, so what is meant has to be said. The error is
// an [*Error] of kind [InvalidReference].
func ParseReference(s string) (Reference, error) {
	fail := func(detail, remedy string) (Reference, error) {
		return Reference{}, &Error{Kind: InvalidReference, Op: "parse", Object: strconv.Quote(oneLine(withoutCredentials(s))), Detail: detail, Remedy: remedy}
	}
	const example = "write it like ghcr.io/acme/cilium:1.2.3"
	if len(s) > referenceLimit {
		return fail("the reference is too long", example)
	}
	rest := strings.TrimPrefix(s, scheme)
	if strings.Contains(rest, "://") {
		return fail("the only scheme is oci://", example)
	}
	host, rest, found := strings.Cut(rest, "/")
	if !found || !validHost(host) {
		return fail("it does not start with the host of a registry", example)
	}
	ref := Reference{host: strings.ToLower(host)}
	if before, digest, found := strings.Cut(rest, "@"); found {
		if !digestPattern.MatchString(digest) {
			return fail("what follows the @ is not a sha256 digest", "write sha256: and 64 lower-case hexadecimal digits")
		}
		rest, ref.digest = before, digest
	}
	if before, tag, found := strings.Cut(rest, ":"); found {
		if !tagPattern.MatchString(tag) {
			return fail("the tag is not valid", "use at most 128 letters, digits, dots, dashes and underscores")
		}
		rest, ref.tag = before, tag
	}
	if len(rest) > repositoryLimit || !repositoryPattern.MatchString(rest) {
		return fail("the repository is not valid", "use lower-case letters, digits, dots, dashes and underscores between slashes")
	}
	ref.repository = rest
	if ref.tag == "" && ref.digest == "" {
		return fail("it has neither a tag nor a digest", example)
	}
	return ref, nil
}

// withoutCredentials replaces what somebody has put in front of the host, because errors
// are shown to users. A reference cannot hold credentials; a pull secret can.
func withoutCredentials(s string) string {
	prefix, rest, found := strings.Cut(s, "://")
	if !found {
		prefix, rest = "", s
	}
	head, _, _ := strings.Cut(rest, "/")
	at := strings.LastIndex(head, "@")
	if found && at < 0 {
		// A password may hold slashes.
		at = strings.LastIndex(rest, "@")
		if strings.HasPrefix(rest[at+1:], "sha256:") {
			at = -1
		}
	}
	if at < 0 {
		return s
	}
	if found {
		prefix += "://"
	}
	return prefix + "[credentials]" + rest[at:]
}

// Host is the registry's host, with its port if it was given.
func (r Reference) Host() string { return r.host }

// Repository is the path below the host.
func (r Reference) Repository() string { return r.repository }

// Tag is the tag, or empty.
func (r Reference) Tag() string { return r.tag }

// Digest is the digest that the reference is pinned to, sha256:…, or empty.
func (r Reference) Digest() string { return r.digest }

// String is the reference without a scheme, in the form that other tools accept.
func (r Reference) String() string {
	s := r.host + "/" + r.repository
	if r.tag != "" {
		s += ":" + r.tag
	}
	if r.digest != "" {
		s += "@" + r.digest
	}
	return s
}

// validHost accepts what can only be a host: a name with a dot or a port, localhost,
// or an IP address, each with an optional port. "acme/cilium" therefore has none.
func validHost(s string) bool {
	host, port, hasPort := splitPort(s)
	if hasPort {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return false
		}
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		addr, err := netip.ParseAddr(strings.TrimSuffix(inner, "]"))
		return err == nil && addr.Is6() && addr.Zone() == "" && strings.HasSuffix(inner, "]")
	}
	if len(host) > 253 || !domainPattern.MatchString(host) {
		return false
	}
	return hasPort || host == "localhost" || strings.Contains(host, ".")
}

// splitPort splits the port off a host; an IPv6 address is in brackets.
func splitPort(s string) (host, port string, hasPort bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 || strings.HasSuffix(s, "]") {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// isLoopback reports whether a host, with or without a port, is this machine.
func isLoopback(hostport string) bool {
	host, _, _ := splitPort(hostport)
	host = strings.ToLower(strings.Trim(host, "[]"))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}
