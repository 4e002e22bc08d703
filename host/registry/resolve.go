package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Resolve returns the digest, sha256:…, that ref stands for: the one that it is pinned
// to, without asking anybody, or what the registry says about its tag. Record it and
// pull by it; a tag can move between two calls. The digest is the registry's word
// until [Client.Pull] has verified the bytes. Errors are those of the registry:
// [Unavailable], [NotFound], [Unauthorized], [DigestMismatch], [TooLarge].
func (c *Client) Resolve(ctx context.Context, ref Reference) (string, error) {
	if ref.digest != "" {
		return ref.digest, nil
	}
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	f := &fetcher{client: c, op: "resolve", ref: ref}
	resp, err := f.request(ctx, http.MethodHead, "manifests", ref.tag)
	if err != nil {
		return "", err
	}
	_ = resp.Body.Close()
	if digest := resp.Header.Get(digestHeader); digestPattern.MatchString(digest) {
		return digest, nil
	}
	return f.resolveByContent(ctx)
}

// resolveByContent is for registries that do not name digests in headers.
func (f *fetcher) resolveByContent(ctx context.Context) (string, error) {
	resp, err := f.request(ctx, http.MethodGet, "manifests", f.ref.tag)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, manifestLimit+1))
	if err != nil {
		return "", f.failed(ctx, err)
	}
	if len(body) > manifestLimit {
		return "", &Error{Kind: TooLarge, Op: f.op, Object: f.ref.String(), Size: int64(len(body)), Limit: manifestLimit, Remedy: remedyModule,
			Detail: fmt.Sprintf("the manifest has more than %d bytes", manifestLimit)}
	}
	return digestOf(body), nil
}

// failed turns an error into what the package promises: a typed one, or the credential
// provider's own.
func failed(ctx context.Context, op string, ref Reference, err error) error {
	var credentials *credentialsError
	if errors.As(err, &credentials) {
		return fmt.Errorf("%s %s: %w", op, ref, err)
	}
	return classify(ctx, op, ref, err)
}
