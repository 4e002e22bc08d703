package registry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"unicode"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// Kind says what went wrong, as far as a caller treats it differently. A Kind is an
// error itself, so that errors.Is(err, registry.NotFound) works.
type Kind string

// The kinds.
const (
	// Unavailable says that the registry did not give a usable answer; try again later.
	Unavailable Kind = "unavailable"
	// NotFound says that the registry has no such repository, tag or digest.
	NotFound Kind = "not found"
	// Unauthorized says that the registry wants other credentials.
	Unauthorized Kind = "unauthorized"
	// DigestMismatch says that the registry served bytes that are not the ones named.
	DigestMismatch Kind = "digest mismatch"
	// TooLarge says that something is over its limit; see Size and Limit.
	TooLarge Kind = "too large"
	// NotAModule says that the artifact is none that Caisson can run; see Detail.
	NotAModule Kind = "not a module"
	// InvalidReference says that the reference itself is malformed.
	InvalidReference Kind = "invalid reference"
)

// Error implements error.
func (k Kind) Error() string { return string(k) }

// Error is a failure that a caller can branch on by its Kind. Its text is one line
// without secrets: what was attempted, what came of it, and what to do.
type Error struct {
	Kind Kind
	// Op is what was attempted: "parse", "resolve", "pull" or "push".
	Op string
	// Object is the reference that it was attempted on.
	Object string
	// Detail is what happened, in words.
	Detail string
	// Remedy is what the reader can do about it.
	Remedy string
	// Size and Limit are bytes, set for TooLarge. Size is what was announced, or the
	// limit plus one where more came than was announced.
	Size, Limit int64
	// Err is the cause, or nil.
	Err error
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("%s %s: %s; %s", e.Op, e.Object, e.Detail, e.Remedy)
}

// Is makes errors.Is(err, kind) work.
func (e *Error) Is(target error) bool {
	kind, ok := target.(Kind)
	return ok && kind == e.Kind
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

const (
	remedyDown     = "check that it runs and can be reached from here, then try again"
	remedyNotFound = "check the name and the tag, or push it"
	remedyAuth     = "check the credentials, and that they may reach this repository"
	remedyDigest   = "do not use it; somebody between here and its author changed it, or the registry is damaged"
	remedyModule   = "push a module with `caisson module push`"
	remedyLimit    = "make it smaller, or raise the limit"
)

// classify turns whatever the OCI library or the HTTP client returned into an *Error.
func classify(ctx context.Context, op string, ref Reference, err error) error {
	var typed *Error
	if errors.As(err, &typed) {
		return err
	}
	out := &Error{Kind: Unavailable, Op: op, Object: ref.String(), Remedy: remedyDown, Err: err}
	var answered *transport.Error
	if errors.As(err, &answered) {
		out.answered(ref, answered)
		return out
	}
	if ctx.Err() != nil {
		out.Detail = "the registry " + ref.Host() + " did not answer in time"
		if errors.Is(ctx.Err(), context.Canceled) {
			out.Detail = "the request to " + ref.Host() + " was cancelled"
		}
		out.Err = ctx.Err()
		return out
	}
	cause := rootCause(err)
	// What follows a line break is the body of an answer, for instance of a token service.
	says, _, _ := strings.Cut(networkText(cause), "\n")
	out.Detail = fmt.Sprintf("the registry %s does not answer (%s)", ref.Host(), oneLine(says))
	// The library's error may quote a URL whose query holds a signature.
	out.Err = cause
	if errors.Is(cause, http.ErrSchemeMismatch) {
		out.Detail = fmt.Sprintf("the registry %s speaks plain HTTP", ref.Host())
		out.Remedy = "give it a certificate, or list the host among the plain-HTTP hosts"
	}
	return out
}

// networkText is the text of an error of package net without what is another each time
// though nothing has changed, because a text that changes is written to a status at each
// poll: the port of our own end, as in "read tcp 10.0.0.1:43366->10.0.0.2:443", and whether
// a connection broke while it was read from or written to.
func networkText(err error) string {
	var op *net.OpError
	var call *os.SyscallError
	if errors.As(err, &op) && op.Source != nil && errors.As(op.Err, &call) {
		return call.Err.Error()
	}
	return localEnd().ReplaceAllString(err.Error(), "")
}

// localEnd finds our own end of a connection in a text.
func localEnd() *regexp.Regexp { return regexp.MustCompile(`\S+:\d+->`) }

// answered fills in what follows from the status that the registry answered with.
func (e *Error) answered(ref Reference, answer *transport.Error) {
	e.Err = nil
	says := registryText(answer)
	switch answer.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		e.Kind, e.Remedy = Unauthorized, remedyAuth
		e.Detail = fmt.Sprintf("the registry %s refused access (%s)", ref.Host(), says)
	case http.StatusNotFound:
		e.Kind, e.Remedy = NotFound, remedyNotFound
		e.Detail = fmt.Sprintf("the registry %s has no such thing (%s)", ref.Host(), says)
	default:
		e.Detail = fmt.Sprintf("the registry %s answered with an error (%s)", ref.Host(), says)
	}
}

// registryText is the status and, if it gave one, the registry's own first message.
// The raw body is left out: it may be a page of HTML.
func registryText(answer *transport.Error) string {
	text := fmt.Sprintf("%d %s", answer.StatusCode, http.StatusText(answer.StatusCode))
	if len(answer.Errors) > 0 {
		first := answer.Errors[0]
		text += ": " + oneLine(string(first.Code)+" "+first.Message)
	}
	return text
}

// rootCause strips the layers that quote URLs. Where the library tried HTTPS and HTTP
// and both failed, it is the HTTPS error, because that one names the real cause.
func rootCause(err error) error {
	for {
		var quoted *url.Error
		if !errors.As(err, &quoted) || quoted.Err == nil {
			return err
		}
		err = quoted.Err
	}
}

// oneLine makes text from outside fit for a message: printable, one line, short.
func oneLine(s string) string {
	const enough = 200
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(s, "?"))
	s = strings.TrimSpace(s)
	if len(s) > enough {
		return strings.ToValidUTF8(s[:enough], "") + "…"
	}
	return s
}
