package plan

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/application"
	"github.com/caisson-dev/caisson/host/provisioner/module"
	"github.com/caisson-dev/caisson/host/scope"
)

// parseStack makes a Stack from the YAML of its spec.
func parseStack(t testing.TB, spec string) *v1alpha1.Stack {
	t.Helper()
	stack := &v1alpha1.Stack{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "demo", UID: "u-1", Generation: 3}}
	require.NoError(t, yaml.UnmarshalStrict([]byte(spec), &stack.Spec))
	return stack
}

// world is everything around a tree: a driver, modules, a home cluster and a remote, with
// a trace of all that a tree makes of them.
type world struct {
	mu        sync.Mutex
	trace     []string
	installed map[string]cd.Installed // by path
	clusters  map[string]*clientcmdapi.Config
	names     map[string]string // of scopes, by ID
	results   map[string][]error
	configs   map[string]string // last config of a module, by call
	facts     map[string]map[string]json.RawMessage
	inputs    []provisioner.Input
	specs     map[string]*cd.Application
	clock     time.Time

	home    scope.Scope
	clients *scope.ClientCache
}

// newWorld returns a world in which everything works and the Secret workload-kubeconfig
// leads to a remote that answers.
func newWorld(t testing.TB, stack *v1alpha1.Stack) *world {
	t.Helper()
	api := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"major":"1","minor":"37","gitVersion":"v1.37.0"}`)
	}))
	t.Cleanup(api.Close)
	w := &world{
		installed: map[string]cd.Installed{},
		clusters:  map[string]*clientcmdapi.Config{},
		names:     map[string]string{scope.HomeID: "home"},
		results:   map[string][]error{},
		configs:   map[string]string{},
		facts:     map[string]map[string]json.RawMessage{},
		specs:     map[string]*cd.Application{},
		clients:   scope.NewClientCache(scope.ClientCacheOptions{}),
	}
	for _, remote := range stack.Spec.Remotes {
		id := RemoteID(ownerOf(stack), remote.Name)
		w.names[id.Hash()] = remote.Name
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: stack.Namespace, Name: "workload-kubeconfig"},
		Data:       map[string][]byte{"value": kubeconfigOf(t, api)},
	}
	w.home = scope.NewHome(ownerOf(stack), nil, fake.NewClientBuilder().WithObjects(secret).Build())
	return w
}

func kubeconfigOf(t testing.TB, api *httptest.Server) []byte {
	t.Helper()
	config := clientcmdapi.NewConfig()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw})
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: api.URL, CertificateAuthorityData: ca}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: "t"}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	raw, err := clientcmd.Write(*config)
	require.NoError(t, err)
	return raw
}

func (w *world) context(ctx context.Context) context.Context { return scope.NewContext(ctx, w.home) }

func (w *world) dependencies() Dependencies {
	return Dependencies{
		Driver:    w,
		Clients:   w.clients,
		Catalogue: application.CatalogueFunc(w.entry),
		Modules:   ModulesFunc(w.module),
		Inputs:    provisioner.InputRecorderFunc(w.record),
		Now:       w.now,
	}
}

// will sets the results of the next calls for a node, by its path.
func (w *world) will(path string, results ...error) { w.results[path] = results }

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clock = w.clock.Add(time.Second)
	return w.clock
}

func (w *world) logf(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

func (w *world) next(path string) error {
	if len(w.results[path]) == 0 {
		return nil
	}
	err := w.results[path][0]
	w.results[path] = w.results[path][1:]
	return err
}

func (w *world) record(i provisioner.Input) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inputs = append(w.inputs, i)
}

func (w *world) entry(_ context.Context, name string) (*application.Entry, error) {
	return &application.Entry{Name: name, ResourceVersion: "7", Versions: []application.Version{
		{Version: "3.1.0", Repo: "oci://r.example.com/charts", Chart: name, Values: map[string]any{"from": "catalogue", "replicas": int64(1)}},
	}}, nil
}

// module returns a module whose calls are traced, and which publishes what is set.
func (w *world) module(_ context.Context, namespace, name string) (*module.Instance, error) {
	if name == "absent" {
		return nil, provisioner.UserActionRequired(abi.ReasonModuleNotFound, namespace+"/"+name)
	}
	return &module.Instance{Name: name, Digest: "sha256:" + name, Manifest: abi.Manifest{ABI: abi.Version, Name: name}, Runtime: runtimeFunc(w.call)}, nil
}

type runtimeFunc func(export string, input *abi.Input) (int32, []byte, error)

func (f runtimeFunc) Call(_ context.Context, _, export string, input []byte, _ func(context.Context, string, []byte) []byte) (int32, []byte, error) {
	var decoded abi.Input
	if err := json.Unmarshal(input, &decoded); err != nil {
		return 0, nil, err
	}
	return f(export, &decoded)
}

func (w *world) call(export string, input *abi.Input) (int32, []byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logf("module %s %s in %s", export, input.Node.Path, w.names[input.Scope.ID])
	w.configs[export+" "+input.Node.Name] = string(input.Config)
	if err := w.next(input.Node.Path); err != nil {
		outcome := provisioner.OutcomeOf(err).Headline
		raw, _ := json.Marshal(abi.Output{Reason: outcome.Reason})
		return int32(outcome.Disposition), raw, nil
	}
	raw, err := json.Marshal(abi.Output{Facts: w.facts[input.Node.Name]})
	return 0, raw, err
}

// Ensure implements cd.Applications.
func (w *world) Ensure(_ context.Context, to scope.Scope, app *cd.Application) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logf("ensure %s in %s", app.ID.Path, w.names[to.ID()])
	w.specs[app.ID.Path] = app
	w.installed[app.ID.Path] = cd.Installed{ID: app.ID, ScopeID: to.ID()}
	return w.next(app.ID.Path)
}

// Remove implements cd.Applications.
func (w *world) Remove(_ context.Context, from scope.Scope, id scope.ResourceIdentifier) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logf("remove %s from %s", id.Path, w.names[from.ID()])
	if err := w.next(id.Path); err != nil {
		return err
	}
	delete(w.installed, id.Path)
	return nil
}

// List implements cd.Applications.
func (w *world) List(context.Context, scope.Owner) ([]cd.Installed, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []cd.Installed
	for _, installed := range w.installed {
		list = append(list, installed)
	}
	slices.SortFunc(list, func(a, b cd.Installed) int { return strings.Compare(a.ID.Path, b.ID.Path) })
	return list, nil
}

// Register implements cd.Clusters.
func (w *world) Register(_ context.Context, id scope.ResourceIdentifier, config *clientcmdapi.Config) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logf("register %s", id.Path)
	w.clusters[id.Path] = config
	return nil
}

// Registered implements cd.Clusters.
func (w *world) Registered(_ context.Context, id scope.ResourceIdentifier) (*clientcmdapi.Config, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if config := w.clusters[id.Path]; config != nil {
		return config, nil
	}
	return nil, provisioner.ErrNotFound
}

// Deregister implements cd.Clusters.
func (w *world) Deregister(_ context.Context, id scope.ResourceIdentifier) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logf("deregister %s", id.Path)
	delete(w.clusters, id.Path)
	return nil
}

// golden compares text with a file in testdata; CAISSON_UPDATE=1 writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if os.Getenv("CAISSON_UPDATE") != "" {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func joinLines(lines []string) string { return strings.Join(lines, "\n") + "\n" }
