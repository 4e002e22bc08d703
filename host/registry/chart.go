package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

// The media types that Helm gives a chart in a registry.
const (
	chartConfigType = "application/vnd.cncf.helm.config.v1+json"
	chartLayerType  = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// ChartMeta is what Helm keeps of a chart's Chart.yaml beside the chart.
type ChartMeta struct {
	// APIVersion is that of the chart format; empty means v2.
	APIVersion  string `json:"apiVersion"`
	Name        string `json:"name"`
	Version     string `json:"version"`
	AppVersion  string `json:"appVersion,omitempty"`
	Description string `json:"description,omitempty"`
	// Type is application or library; empty means application.
	Type string `json:"type,omitempty"`
}

// PushChart publishes a packed Helm chart so that Helm, Flux and Argo CD can install
// it, and returns the digest of its manifest, which depends on the two last arguments
// alone. As Helm demands, the last element of ref's repository is the chart's name and
// its tag is the chart's version with _ for +; anything else is [InvalidReference]. A
// file that is not gzip is [NotAModule]. Other errors are those of [Client.Push].
func (c *Client) PushChart(ctx context.Context, ref Reference, chart []byte, meta ChartMeta) (string, error) {
	if got := baseName(ref.repository); got != meta.Name {
		return "", &Error{Kind: InvalidReference, Op: "push", Object: ref.String(), Remedy: "end the repository with the chart's name",
			Detail: fmt.Sprintf("the chart is named %q", oneLine(meta.Name))}
	}
	if tag := strings.ReplaceAll(meta.Version, "+", "_"); tag != ref.tag {
		return "", &Error{Kind: InvalidReference, Op: "push", Object: ref.String(), Remedy: "use the chart's version as the tag, with _ for +",
			Detail: fmt.Sprintf("the chart's version is %q", oneLine(meta.Version))}
	}
	if !bytes.HasPrefix(chart, []byte{0x1f, 0x8b}) {
		return "", &Error{Kind: NotAModule, Op: "push", Object: ref.String(), Detail: "the file is not a packed chart", Remedy: "pack it with `helm package`"}
	}
	if meta.APIVersion == "" {
		meta.APIVersion = "v2"
	}
	config, err := json.Marshal(meta)
	if err != nil {
		return "", fmt.Errorf("write the config of %s: %w", ref, err)
	}
	annotations := map[string]string{annotationTitle: meta.Name, annotationVersion: meta.Version}
	if meta.Description != "" {
		annotations[annotationDescription] = meta.Description
	}
	return c.publish(ctx, ref, publication{
		config:      part{mediaType: chartConfigType, content: config},
		layer:       part{mediaType: chartLayerType, content: chart},
		annotations: annotations,
	})
}
