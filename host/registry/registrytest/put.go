package registrytest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
)

// Layer is one layer of an [Artifact].
type Layer struct {
	MediaType string
	Content   []byte
	// Size is written into the manifest; 0 means the true one.
	Size int64
}

// Artifact is whatever a publisher might put into a registry, well-formed or not.
type Artifact struct {
	// MediaType is that of the manifest; empty means an OCI image manifest.
	MediaType string
	// ConfigType is the config's media type.
	ConfigType  string
	Layers      []Layer
	Annotations map[string]string
}

const manifestType = "application/vnd.oci.image.manifest.v1+json"

type descriptor struct {
	MediaType string `json:"mediaType"`
	Size      int64  `json:"size"`
	Digest    string `json:"digest"`
}

// Put publishes an artifact without judging it and returns its digest.
func (r *Registry) Put(t TB, repository, tag string, a Artifact) string {
	t.Helper()
	config := []byte("{}")
	r.putBlob(t, repository, config)
	layers := make([]descriptor, 0, len(a.Layers))
	for _, layer := range a.Layers {
		r.putBlob(t, repository, layer.Content)
		size := layer.Size
		if size == 0 {
			size = int64(len(layer.Content))
		}
		layers = append(layers, descriptor{MediaType: layer.MediaType, Size: size, Digest: Digest(layer.Content)})
	}
	mediaType := a.MediaType
	if mediaType == "" {
		mediaType = manifestType
	}
	return r.PutManifest(t, repository, tag, mediaType, map[string]any{
		"schemaVersion": 2,
		"mediaType":     mediaType,
		"config":        descriptor{MediaType: a.ConfigType, Size: int64(len(config)), Digest: Digest(config)},
		"layers":        layers,
		"annotations":   a.Annotations,
	})
}

// PutManifest publishes any JSON, or a []byte as it is, as a manifest and returns its
// digest.
func (r *Registry) PutManifest(t TB, repository, tag, mediaType string, content any) string {
	t.Helper()
	body, raw := content.([]byte)
	if !raw {
		var err error
		if body, err = json.Marshal(content); err != nil {
			t.Fatalf("marshal a manifest: %v", err)
		}
	}
	r.do(t, http.MethodPut, "/v2/"+repository+"/manifests/"+tag, mediaType, body)
	return Digest(body)
}

func (r *Registry) putBlob(t TB, repository string, content []byte) {
	t.Helper()
	query := url.Values{"digest": {Digest(content)}}
	r.do(t, http.MethodPost, "/v2/"+repository+"/blobs/uploads/?"+query.Encode(), "application/octet-stream", content)
}

func (r *Registry) do(t TB, method, path, contentType string, body []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, r.URL+path, bytes.NewReader(body))
	if err != nil {
		t.Fatalf("make the request %s %s: %v", method, path, err)
	}
	req.Header.Set("Content-Type", contentType)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusCreated {
		t.Fatalf("%s %s: %s: %s", method, path, resp.Status, answer)
	}
}

// Digest is the digest of b as it is written in manifests.
func Digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}
