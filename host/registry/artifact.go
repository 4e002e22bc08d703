package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/types"
)

// The media types of the artifact that we publish: the one of the CNCF's Wasm working
// group, with an artifact type of our own.
const (
	// ArtifactType tells our modules from other Wasm in a registry's list.
	ArtifactType = "application/vnd.caisson.provisioner.v1"

	wasmConfigType = "application/vnd.wasm.config.v0+json"
	wasmLayerType  = "application/wasm"
)

// configTypes are the config media types that are accepted: ours, the empty config of
// an artifact made with oras, and what kubewarden and wasm-to-oci write.
func configTypes() []string {
	return []string{wasmConfigType, "application/vnd.oci.empty.v1+json", "application/vnd.wasm.config.v1+json"}
}

// layerTypes are the accepted layer media types. All of them are raw Wasm; nothing
// compressed is accepted, so there is nothing that could inflate.
func layerTypes() []string {
	return []string{wasmLayerType, "application/vnd.wasm.content.layer.v1+wasm"}
}

// descriptor, manifest and index are what we read of the OCI types. The library's own
// would fail to parse on a digest algorithm in a part that we never look at.
type descriptor struct {
	MediaType string    `json:"mediaType"`
	Size      int64     `json:"size"`
	Digest    string    `json:"digest"`
	Platform  *platform `json:"platform"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type document struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Config        descriptor        `json:"config"`
	Layers        []descriptor      `json:"layers"`
	Manifests     []descriptor      `json:"manifests"`
	Annotations   map[string]string `json:"annotations"`
}

// found is what a document leads to: a layer, or for an index the child to read next.
type found struct {
	layer       descriptor
	annotations map[string]string
	child       string
}

// manifest reads and judges the document with the given digest.
func (f *fetcher) manifest(ctx context.Context, digest string) (found, error) {
	raw, err := f.content(ctx, "manifests", digest, manifestLimit)
	if err != nil {
		return found{}, err
	}
	result, why := judge(raw)
	if why != "" {
		return found{}, f.notAModule(why)
	}
	return result, nil
}

func (f *fetcher) notAModule(why string) error {
	return &Error{Kind: NotAModule, Op: f.op, Object: f.ref.String(), Remedy: remedyModule, Detail: "it is not a Caisson module: " + why}
}

// judge decides whether a document is the manifest of a module, or an index of one,
// and otherwise says why not.
func judge(raw []byte) (found, string) {
	var doc document
	if err := json.Unmarshal(raw, &doc); err != nil {
		return found{}, "its manifest is not JSON of the expected shape"
	}
	// A document that is valid as both could be read differently by a scanner.
	if len(doc.Manifests) > 0 && len(doc.Layers) > 0 {
		return found{}, "its manifest claims to be an index as well"
	}
	switch types.MediaType(doc.MediaType) {
	case types.OCIImageIndex:
		return judgeIndex(doc)
	case types.OCIManifestSchema1:
		return judgeManifest(doc)
	case "":
		// The field is optional in OCI 1.0.
		if len(doc.Manifests) > 0 {
			return judgeIndex(doc)
		}
		return judgeManifest(doc)
	default:
		return found{}, "its manifest is of type " + oneLine(doc.MediaType)
	}
}

func judgeIndex(doc document) (found, string) {
	var wasm []descriptor
	for _, m := range doc.Manifests {
		if m.Platform == nil || (m.Platform.Architecture == "wasm" && m.Platform.OS == "wasip1") {
			wasm = append(wasm, m)
		}
	}
	if len(wasm) != 1 {
		return found{}, fmt.Sprintf("its index has %d manifests for wasm/wasip1 and must have one", len(wasm))
	}
	if !digestPattern.MatchString(wasm[0].Digest) {
		return found{}, "its index names a manifest by something that is not a sha256 digest"
	}
	return found{child: wasm[0].Digest}, ""
}

func judgeManifest(doc document) (found, string) {
	if !slices.Contains(configTypes(), doc.Config.MediaType) {
		return found{}, fmt.Sprintf("its config is of type %q, as of a container image or a chart", oneLine(doc.Config.MediaType))
	}
	if len(doc.Layers) != 1 {
		return found{}, fmt.Sprintf("it has %d layers and must have one", len(doc.Layers))
	}
	layer := doc.Layers[0]
	if strings.Contains(layer.MediaType, "tar") || strings.Contains(layer.MediaType, "gzip") || strings.Contains(layer.MediaType, "zstd") {
		return found{}, fmt.Sprintf("its layer is packed (%s); a module is pushed as raw Wasm", oneLine(layer.MediaType))
	}
	if !slices.Contains(layerTypes(), layer.MediaType) {
		return found{}, fmt.Sprintf("its layer is of type %q and not Wasm", oneLine(layer.MediaType))
	}
	if !digestPattern.MatchString(layer.Digest) || layer.Size <= 0 {
		return found{}, "its layer has no sha256 digest or no size"
	}
	return found{layer: layer, annotations: doc.Annotations}, ""
}
