package cdtest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Chart is a Helm chart in memory.
type Chart struct {
	Name    string
	Version string
	// Values is the text of values.yaml.
	Values string
	// Files are added as they are, by their path inside the chart.
	Files map[string]string
	// Type is the chart's type; "" leaves it out.
	Type string
}

// Archive returns the chart as Helm packages it. Equal charts give equal archives.
func (c Chart) Archive(t *testing.T) []byte {
	t.Helper()
	// JSON is YAML too.
	meta := map[string]any{"apiVersion": "v2", "name": c.Name, "version": c.Version}
	if c.Type != "" {
		meta["type"] = c.Type
	}
	header, err := json.Marshal(meta)
	require.NoError(t, err)
	files := map[string]string{"Chart.yaml": string(header), "values.yaml": c.Values}
	for name, content := range c.Files {
		files[name] = content
	}
	var buffer bytes.Buffer
	zipped := gzip.NewWriter(&buffer)
	archive := tar.NewWriter(zipped)
	for _, name := range sortedKeys(files) {
		content := files[name]
		require.NoError(t, archive.WriteHeader(&tar.Header{
			Name: path.Join(c.Name, name), Mode: 0o644, Size: int64(len(content)), Typeflag: tar.TypeReg,
		}))
		_, err := archive.Write([]byte(content))
		require.NoError(t, err)
	}
	require.NoError(t, archive.Close())
	require.NoError(t, zipped.Close())
	return buffer.Bytes()
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// Repository is a chart repository over plain HTTP on loopback.
type Repository struct {
	// URL is what an application names as its repository.
	URL string

	server *httptest.Server
	mu     sync.Mutex
	charts map[string]published
}

type published struct {
	chart   Chart
	archive []byte
}

// NewRepository serves an empty repository until the test ends.
func NewRepository(t *testing.T) *Repository {
	t.Helper()
	r := &Repository{charts: map[string]published{}}
	r.server = httptest.NewServer(r)
	r.URL = r.server.URL
	t.Cleanup(r.server.Close)
	return r
}

// Down ends the repository: nobody answers any more.
func (r *Repository) Down() { r.server.Close() }

// Publish adds a chart, or replaces it.
func (r *Repository) Publish(t *testing.T, c Chart) {
	t.Helper()
	archive := c.Archive(t)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.charts[c.Name+"-"+c.Version+".tgz"] = published{chart: c, archive: archive}
}

// ServeHTTP implements http.Handler.
func (r *Repository) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := strings.TrimPrefix(request.URL.Path, "/")
	if name == "index.yaml" {
		r.serveIndex(w)
		return
	}
	found, ok := r.charts[name]
	if !ok {
		http.NotFound(w, request)
		return
	}
	_, _ = w.Write(found.archive) // A client that hung up is no concern of a fixture.
}

func (r *Repository) serveIndex(w http.ResponseWriter) {
	entries := map[string][]map[string]any{}
	for _, file := range sortedKeys(r.charts) {
		p := r.charts[file]
		sum := sha256.Sum256(p.archive)
		entries[p.chart.Name] = append(entries[p.chart.Name], map[string]any{
			"apiVersion": "v2", "name": p.chart.Name, "version": p.chart.Version,
			"urls": []string{file}, "digest": hex.EncodeToString(sum[:]),
		})
	}
	index, err := json.Marshal(map[string]any{"apiVersion": "v1", "entries": entries})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = w.Write(index)
}

// settingsTemplate shows what the chart was rendered with.
const settingsTemplate = `apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-settings
data:
  version: {{ .Chart.Version | quote }}
  greeting: {{ .Values.greeting | quote }}
  nested: {{ (default dict .Values.nested).inner | default "none" | quote }}
  optional: {{ if hasKey .Values "optional" }}{{ .Values.optional | quote }}{{ else }}"absent"{{ end }}
`

// keptTemplate survives an uninstall.
const keptTemplate = `apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-kept
  annotations:
    helm.sh/resource-policy: keep
`

// balancerTemplate becomes ready when somebody gives it an address. Its class is one
// that no cloud serves: the tests decide when.
const balancerTemplate = `{{ if .Values.balancer }}apiVersion: v1
kind: Service
metadata:
  name: {{ .Release.Name }}-balancer
spec:
  type: LoadBalancer
  loadBalancerClass: example.com/by-hand
  ports: [{port: 80}]
{{ end }}`

// workloadTemplate is a Deployment that rolls out.
const workloadTemplate = `{{ if .Values.workload }}apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}-workload
spec:
  replicas: 1
  selector: {matchLabels: {app: {{ .Release.Name }}}}
  template:
    metadata: {labels: {app: {{ .Release.Name }}}}
    spec: {containers: [{name: main, image: example.invalid/main:1}]}
{{ end }}`

// DemoChart is the chart of the suite: a ConfigMap that shows its values, one that is
// kept, and on demand a Service that needs an address and a Deployment.
func DemoChart(version string) Chart {
	return Chart{
		Name: "demo", Version: version,
		Values: "greeting: hello\noptional: fallback\nbalancer: false\nworkload: false\n",
		Files: map[string]string{
			"templates/settings.yaml": settingsTemplate,
			"templates/kept.yaml":     keptTemplate,
			"templates/balancer.yaml": balancerTemplate,
			"templates/workload.yaml": workloadTemplate,
		},
	}
}
