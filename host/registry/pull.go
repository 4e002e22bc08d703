package registry

import (
	"context"
	"fmt"
)

// Artifact is a module as it was published.
type Artifact struct {
	// Digest is the digest that the artifact was pulled by: of its manifest, or of the
	// index around it.
	Digest string
	// Wasm is the module's file. It is shared between callers; do not change it.
	Wasm []byte
	// WasmDigest is the digest of Wasm.
	WasmDigest string
	// Annotations are those of the manifest. They mirror what the module says of itself
	// and are the publisher's word only.
	Annotations map[string]string
}

// Pull returns the module with the given digest from ref's repository, from the cache
// if it is there, else from the registry. Nothing is trusted: the digest covers the
// manifest, the manifest covers the layer, and both are verified as they are read.
// Concurrent calls for one digest share one download, which ends with the client's
// timeout and not with the first caller's context.
//
// Errors are an [*Error] of kind [Unavailable], [NotFound], [Unauthorized],
// [DigestMismatch], [TooLarge], [NotAModule] or [InvalidReference]; a caller that left
// gets Unavailable around its context's error.
func (c *Client) Pull(ctx context.Context, ref Reference, digest string) (*Artifact, error) {
	if !digestPattern.MatchString(digest) {
		return nil, &Error{Kind: InvalidReference, Op: "pull", Object: ref.String(), Remedy: "resolve the reference first and pull by what that returns",
			Detail: fmt.Sprintf("%q is not a sha256 digest", oneLine(digest))}
	}
	pinned := Reference{host: ref.host, repository: ref.repository, tag: ref.tag, digest: digest}
	flight := c.flights.DoChan(pinned.host+"/"+pinned.repository+"@"+digest, func() (any, error) {
		bounded, cancel := c.bounded(context.WithoutCancel(ctx))
		defer cancel()
		return c.pull(bounded, pinned)
	})
	select {
	case <-ctx.Done():
		return nil, classify(ctx, "pull", pinned, ctx.Err())
	case result := <-flight:
		if result.Err != nil {
			return nil, result.Err
		}
		artifact, ok := result.Val.(*Artifact)
		if !ok {
			return nil, fmt.Errorf("pull %s: unexpected result %T", pinned, result.Val)
		}
		return artifact, nil
	}
}

func (c *Client) pull(ctx context.Context, ref Reference) (*Artifact, error) {
	f := &fetcher{client: c, op: "pull", ref: ref}
	found, err := f.manifest(ctx, ref.digest)
	if err != nil {
		return nil, err
	}
	if found.child != "" {
		if found, err = f.manifest(ctx, found.child); err != nil {
			return nil, err
		}
		if found.child != "" {
			return nil, f.notAModule("its index points to another index")
		}
	}
	if found.layer.Size > c.maxModuleBytes {
		return nil, &Error{Kind: TooLarge, Op: f.op, Object: ref.String(), Size: found.layer.Size, Limit: c.maxModuleBytes, Remedy: remedyLimit,
			Detail: fmt.Sprintf("the module has %d bytes and %d are allowed", found.layer.Size, c.maxModuleBytes)}
	}
	wasm, err := f.content(ctx, "blobs", found.layer.Digest, found.layer.Size)
	if err != nil {
		return nil, err
	}
	if int64(len(wasm)) != found.layer.Size {
		return nil, f.notAModule(fmt.Sprintf("its layer has %d bytes and its manifest says %d", len(wasm), found.layer.Size))
	}
	return &Artifact{Digest: ref.digest, Wasm: wasm, WasmDigest: found.layer.Digest, Annotations: found.annotations}, nil
}
