package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/abi/wasmfile"
)

const (
	// AnnotationABI mirrors the ABI version of a module's manifest, for tools that inspect
	// an artifact without pulling it. The manifest in the Wasm file is what counts.
	AnnotationABI = "caisson.dev/abi"
	// AnnotationCapabilities mirrors the manifest's capabilities, as a JSON list.
	AnnotationCapabilities = "caisson.dev/capabilities"

	annotationTitle       = "org.opencontainers.image.title"
	annotationVersion     = "org.opencontainers.image.version"
	annotationDescription = "org.opencontainers.image.description"

	// wasmFileName is the title of the layer. Without one, oras pull silently pulls
	// nothing.
	wasmFileName = "module.wasm"
	// epoch stands for the time of creation, so that equal bytes have an equal digest.
	epoch = "1970-01-01T00:00:00Z"
)

// ManifestAnnotations returns the annotations that mirror a module's manifest.
func ManifestAnnotations(m abi.Manifest) (map[string]string, error) {
	capabilities := m.Capabilities
	if capabilities == nil {
		capabilities = []abi.Function{}
	}
	list, err := json.Marshal(capabilities)
	if err != nil {
		return nil, fmt.Errorf("write the capabilities of %s: %w", m.Name, err)
	}
	annotations := map[string]string{
		annotationTitle:        m.Name,
		annotationVersion:      m.Version,
		AnnotationABI:          strconv.Itoa(m.ABI),
		AnnotationCapabilities: string(list),
	}
	if m.Description != "" {
		annotations[annotationDescription] = m.Description
	}
	return annotations, nil
}

// wasmConfig is the config of the CNCF's Wasm OCI artifact, version 0.
type wasmConfig struct {
	Created      string   `json:"created"`
	Architecture string   `json:"architecture"`
	OS           string   `json:"os"`
	LayerDigests []string `json:"layerDigests"`
}

// Push publishes a module under ref's tag and returns the digest of its manifest,
// which depends on the two last arguments alone. The Wasm is neither compiled nor
// judged beyond its first bytes. Errors are an [*Error] of kind [InvalidReference] for
// a ref without a tag or with a digest, [NotAModule] for what is no core Wasm file,
// [TooLarge], [Unauthorized], [NotFound] or [Unavailable].
func (c *Client) Push(ctx context.Context, ref Reference, wasm []byte, annotations map[string]string) (string, error) {
	if err := wasmfile.Check(wasm); err != nil {
		return "", &Error{Kind: NotAModule, Op: "push", Object: ref.String(), Detail: "the file is " + err.Error(), Remedy: "build one with `caisson module build`", Err: err}
	}
	config, err := json.Marshal(wasmConfig{Created: epoch, Architecture: "wasm", OS: "wasip1", LayerDigests: []string{digestOf(wasm)}})
	if err != nil {
		return "", fmt.Errorf("write the config of %s: %w", ref, err)
	}
	return c.publish(ctx, ref, publication{
		artifactType: ArtifactType,
		config:       part{mediaType: wasmConfigType, content: config},
		layer:        part{mediaType: wasmLayerType, content: wasm, annotations: map[string]string{annotationTitle: wasmFileName}},
		annotations:  annotations,
	})
}

// publication is an artifact of one layer.
type publication struct {
	artifactType  string
	config, layer part
	annotations   map[string]string
}

type part struct {
	mediaType   types.MediaType
	content     []byte
	annotations map[string]string
}

func (p part) blob() v1.Layer { return static.NewLayer(p.content, p.mediaType) }

func (p part) descriptor() (v1.Descriptor, error) {
	digest, err := v1.NewHash(digestOf(p.content))
	if err != nil {
		return v1.Descriptor{}, fmt.Errorf("digest of %s: %w", p.mediaType, err)
	}
	return v1.Descriptor{MediaType: p.mediaType, Size: int64(len(p.content)), Digest: digest, Annotations: p.annotations}, nil
}

// manifest is the publication as JSON; encoding/json sorts the maps in it.
func (p publication) manifest() (rawManifest, error) {
	config, err := p.config.descriptor()
	if err != nil {
		return nil, err
	}
	layer, err := p.layer.descriptor()
	if err != nil {
		return nil, err
	}
	return json.Marshal(v1.Manifest{
		SchemaVersion: 2,
		MediaType:     types.OCIManifestSchema1,
		ArtifactType:  p.artifactType,
		Config:        config,
		Layers:        []v1.Descriptor{layer},
		Annotations:   p.annotations,
	})
}

// rawManifest is what the library can put under a tag.
type rawManifest []byte

// RawManifest implements remote.Taggable.
func (m rawManifest) RawManifest() ([]byte, error) { return m, nil }

// MediaType tells the library how to label it.
func (rawManifest) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// publish uploads the two blobs and then the manifest, so that a tag never points to
// something incomplete.
func (c *Client) publish(ctx context.Context, ref Reference, p publication) (string, error) {
	if ref.tag == "" || ref.digest != "" {
		return "", &Error{Kind: InvalidReference, Op: "push", Object: ref.String(), Detail: "a push needs a tag, and the digest comes out of it",
			Remedy: "write it like ghcr.io/acme/cilium:1.2.3"}
	}
	if size := int64(len(p.layer.content)); size > c.maxModuleBytes {
		return "", &Error{Kind: TooLarge, Op: "push", Object: ref.String(), Size: size, Limit: c.maxModuleBytes, Remedy: remedyLimit,
			Detail: fmt.Sprintf("the file has %d bytes and %d are allowed", size, c.maxModuleBytes)}
	}
	manifest, err := p.manifest()
	if err != nil {
		return "", fmt.Errorf("write the manifest of %s: %w", ref, err)
	}
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	if err := c.upload(ctx, ref, p, manifest); err != nil {
		return "", failed(ctx, "push", ref, err)
	}
	return digestOf(manifest), nil
}

func (c *Client) upload(ctx context.Context, ref Reference, p publication, manifest rawManifest) error {
	repo, auth, guard, err := c.prepare(ctx, ref)
	if err != nil {
		return err
	}
	pusher, err := remote.NewPusher(
		remote.WithContext(ctx),
		remote.WithAuth(auth),
		remote.WithTransport(guard),
		remote.WithRetryBackoff(remote.Backoff{Duration: c.backoff, Factor: 2, Steps: attempts}),
		remote.WithRetryPredicate(serverFault),
		// The predicate decides; retrying statuses below it as well would multiply.
		remote.WithRetryStatusCodes(),
	)
	if err != nil {
		return err
	}
	for _, blob := range []part{p.config, p.layer} {
		if err := pusher.Upload(ctx, repo, blob.blob()); err != nil {
			return err
		}
	}
	return pusher.Push(ctx, repo.Tag(ref.tag), manifest)
}

// serverFault reports whether an upload failed by the registry's own doing.
func serverFault(err error) bool {
	var answer *transport.Error
	return errors.As(err, &answer) && answer.StatusCode >= http.StatusInternalServerError
}

var _ remote.Taggable = rawManifest(nil)

// baseName is the last element of a repository.
func baseName(repository string) string {
	return repository[strings.LastIndexByte(repository, '/')+1:]
}
