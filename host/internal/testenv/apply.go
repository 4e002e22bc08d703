package testenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// fieldOwner is the manager of fields that tests apply.
	fieldOwner = client.FieldOwner("caisson-testenv")

	// servedDeadline is how long the API may take to serve a kind after its CRD was created. It takes less than a second.
	servedDeadline = 30 * time.Second
	servedPoll     = 100 * time.Millisecond
)

// Apply applies YAML or JSON documents by server-side apply, Namespaces and CRDs before the rest, and returns the objects in the
// order in which they were applied. Objects of a kind whose CRD is among them wait until it is served. It stops at the first
// object that is refused; the error names it, and wraps the API's own.
func Apply(ctx context.Context, to client.Client, documents string) ([]*unstructured.Unstructured, error) {
	objects, err := decode(documents)
	if err != nil {
		return nil, err
	}

	for _, object := range objects {
		if err := applyOne(ctx, to, object); err != nil {
			return nil, fmt.Errorf("apply %s %s: %w", object.GetKind(), client.ObjectKeyFromObject(object), err)
		}
	}

	return objects, nil
}

// ApplyPath is Apply for a file, or for the .yaml and .yml files of a directory (not below it) taken together.
func ApplyPath(ctx context.Context, to client.Client, path string) ([]*unstructured.Unstructured, error) {
	documents, err := readDocuments(path)
	if err != nil {
		return nil, err
	}

	return Apply(ctx, to, documents)
}

func readDocuments(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("find manifests: %w", err)
	}
	files := []string{path}
	if info.IsDir() {
		files = nil
		for _, pattern := range []string{"*.yaml", "*.yml"} {
			found, err := filepath.Glob(filepath.Join(path, pattern))
			if err != nil {
				return "", fmt.Errorf("list manifests: %w", err)
			}
			files = append(files, found...)
		}
		slices.Sort(files)
	}

	var all bytes.Buffer
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("read manifest: %w", err)
		}
		all.Write(data)
		all.WriteString("\n---\n")
	}

	return all.String(), nil
}

// decode splits documents into objects, those first that others need.
func decode(documents string) ([]*unstructured.Unstructured, error) {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewBufferString(documents), len(documents)+1)

	var objects []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("parse manifest %d: %w", len(objects)+1, err)
		}
		if len(object.Object) == 0 {
			continue // a document of comments only
		}
		if object.GetKind() == "" || object.GetAPIVersion() == "" || object.GetName() == "" {
			return nil, fmt.Errorf("manifest %d lacks apiVersion, kind or metadata.name", len(objects)+1)
		}
		objects = append(objects, object)
	}
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return rank(a) - rank(b) })

	return objects, nil
}

func rank(object *unstructured.Unstructured) int {
	switch object.GetKind() {
	case "Namespace", "CustomResourceDefinition":
		return 0
	default:
		return 1
	}
}

// applyOne applies an object. A kind that the API does not know may be one whose CRD was created a moment ago.
func applyOne(ctx context.Context, to client.Client, object *unstructured.Unstructured) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, servedPoll, servedDeadline, true, func(ctx context.Context) (bool, error) {
		// The client writes the answer into what it is given.
		applied := object.DeepCopy()
		last = to.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), fieldOwner, client.ForceOwnership)
		switch {
		case last == nil:
			object.Object = applied.Object

			return true, nil
		case unserved(last):
			return false, nil
		}

		return false, last
	})
	if wait.Interrupted(err) && last != nil {
		return last
	}

	return err
}

// unserved says whether an error means that a kind is not served. An object's namespace that does not exist is not found either,
// but named in the details.
func unserved(err error) bool {
	if meta.IsNoMatchError(err) {
		return true
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsNotFound(err) {
		return false
	}
	details := status.Status().Details

	return details == nil || details.Kind != "namespaces"
}
