package registry

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// manifestLimit bounds a manifest: 4 MiB is the limit that the distribution
// specification asks registries to support, and what oras-go reads at most.
const manifestLimit = 4 << 20

// digestHeader is how a registry says which digest a tag stands for.
const digestHeader = "Docker-Content-Digest"

// digestOf is the digest of b as it is written in manifests.
func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// fetcher reads parts of one artifact, from the cache or else from the registry, to
// which it connects when it first has to.
type fetcher struct {
	client  *Client
	op      string
	ref     Reference
	session *session
}

// content returns the bytes with the given digest; kind is "manifests" or "blobs".
// More than limit bytes is [TooLarge], other bytes are [DigestMismatch].
func (f *fetcher) content(ctx context.Context, kind, digest string, limit int64) ([]byte, error) {
	if f.client.cache != nil {
		if b, ok := f.client.cache.get(digest, limit); ok {
			return b, nil
		}
	}
	resp, err := f.request(ctx, http.MethodGet, kind, digest)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := f.read(ctx, resp.Body, digest, limit)
	if err != nil {
		return nil, err
	}
	if f.client.cache != nil {
		f.client.cache.put(digest, b)
	}
	return b, nil
}

// read reads at most limit bytes and verifies them against digest on the way.
func (f *fetcher) read(ctx context.Context, body io.Reader, digest string, limit int64) ([]byte, error) {
	hash := sha256.New()
	var buf bytes.Buffer
	n, err := io.Copy(&buf, io.TeeReader(io.LimitReader(body, limit+1), hash))
	if err != nil {
		return nil, classify(ctx, f.op, f.ref, err)
	}
	if n > limit {
		return nil, &Error{Kind: TooLarge, Op: f.op, Object: f.ref.String(), Size: n, Limit: limit, Remedy: remedyLimit,
			Detail: fmt.Sprintf("the registry %s sent more than the %d bytes that were announced or allowed for %s", f.ref.Host(), limit, digest)}
	}
	if got := "sha256:" + hex.EncodeToString(hash.Sum(nil)); got != digest {
		return nil, &Error{Kind: DigestMismatch, Op: f.op, Object: f.ref.String(), Remedy: remedyDigest,
			Detail: fmt.Sprintf("the registry %s served %s where %s was asked for", f.ref.Host(), got, digest)}
	}
	return buf.Bytes(), nil
}

// request asks for one thing below the repository and returns the answer if its
// status is 200; the caller closes its body.
func (f *fetcher) request(ctx context.Context, method, kind, what string) (*http.Response, error) {
	if f.session == nil {
		session, err := f.client.open(ctx, f.ref)
		if err != nil {
			return nil, f.failed(ctx, err)
		}
		f.session = session
	}
	repo := f.session.repo
	address := url.URL{Scheme: repo.Scheme(), Host: repo.RegistryStr(), Path: "/v2/" + repo.RepositoryStr() + "/" + kind + "/" + what}
	req, err := http.NewRequestWithContext(ctx, method, address.String(), http.NoBody)
	if err != nil {
		return nil, f.failed(ctx, err)
	}
	req.Body = nil
	if kind == "manifests" {
		req.Header.Set("Accept", strings.Join([]string{string(types.OCIManifestSchema1), string(types.OCIImageIndex)}, ","))
	}
	resp, err := f.session.http.Do(req)
	if err != nil {
		return nil, f.failed(ctx, err)
	}
	if err := transport.CheckError(resp, http.StatusOK); err != nil {
		_ = resp.Body.Close()
		return nil, f.failed(ctx, err)
	}
	return resp, nil
}

func (f *fetcher) failed(ctx context.Context, err error) error { return failed(ctx, f.op, f.ref, err) }
