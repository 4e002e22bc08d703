package depcheck

// Module is the path that the packages of this repository begin with, those of nested
// modules included.
const Module = "github.com/caisson-dev/caisson"

// Rule says what some packages may import besides the standard library, themselves and
// each other's tests. A pattern is a directory such as host/cd, or host/cd/... for that
// and everything below it. Of several rules that match a package the longest pattern
// counts, and it alone.
type Rule struct {
	// Packages are the patterns of the packages that the rule is for.
	Packages []string
	// Ours are patterns of packages of this repository.
	Ours []string
	// Others are import paths of other modules; what is below them is included.
	Others []string
	// TestOurs and TestOthers are further ones for _test.go files, where testify is
	// always allowed.
	TestOurs   []string
	TestOthers []string
}

// The modules of others that several rules name.
const (
	apimachinery  = "k8s.io/apimachinery"
	kubernetesAPI = "k8s.io/api"
	apiextensions = "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	clientGo      = "k8s.io/client-go"
	clientcmdAPI  = "k8s.io/client-go/tools/clientcmd/api"
	runtimeClient = "sigs.k8s.io/controller-runtime/pkg/client"
	runtime       = "sigs.k8s.io/controller-runtime"
	contextLogger = "sigs.k8s.io/controller-runtime/pkg/log"
	logr          = "github.com/go-logr/logr"
	prometheus    = "github.com/prometheus/client_golang/prometheus"
	yaml          = "sigs.k8s.io/yaml"
	testify       = "github.com/stretchr/testify"
	cobra         = "github.com/spf13/cobra"
	semver        = "github.com/Masterminds/semver/v3"
)

// Owned are the libraries that exactly one package of the repository may import, and
// that packages below it may import as well.
func Owned() map[string]string {
	return map[string]string{
		"github.com/tetratelabs/wazero":           "host/sandbox",
		"github.com/elastic/go-seccomp-bpf":       "host/sandbox",
		"github.com/google/cel-go":                "host/plan",
		"helm.sh/helm/v4":                         "host/cd/helm",
		"github.com/google/go-containerregistry":  "host/registry",
		"oras.land/oras-go/v2":                    "host/registry",
		"github.com/sigstore":                     "host/registry",
		"github.com/opencontainers":               "host/registry",
		"github.com/extism/go-pdk":                "guest-sdk",
		"k8s.io/kubernetes":                       "cmd/devcluster",
		"k8s.io/controller-manager":               "cmd/devcluster",
		"github.com/fluxcd/cli-utils/pkg/kstatus": "host/cd/helm",
	}
}

// Rules is the table. Package abi may be imported by every package of the host.
func Rules() []Rule {
	return []Rule{
		// The contract with guests, and what a module's author imports.
		{Packages: []string{"abi"}},
		{Packages: []string{"abi/abitest", "abi/wasmfile", "abi/internal/schema"}, Ours: []string{"abi"}},
		{Packages: []string{"abi/internal/schema/generate"}, Ours: []string{"abi/internal/schema"}},
		{Packages: []string{"guest-sdk/internal/wire"}, Ours: []string{"abi"}, TestOurs: []string{"abi/abitest"}},
		{Packages: []string{"guest-sdk"}, Ours: []string{"abi", "guest-sdk/internal/wire"}, Others: []string{"github.com/extism/go-pdk"}, TestOurs: []string{"abi/abitest", "guest-sdk/guesttest"}},
		{Packages: []string{"guest-sdk/guesttest"}, Ours: []string{"abi", "guest-sdk"}, TestOurs: []string{"abi/abitest"}},
		{Packages: []string{"modules/..."}, Ours: []string{"abi", "guest-sdk"}, TestOurs: []string{"guest-sdk/guesttest", "abi/wasmfile"}},
		{Packages: []string{"examples/module-go/conformance"}, Ours: []string{"abi"}, Others: []string{"github.com/extism/go-pdk"}},
		{Packages: []string{"examples/..."}, Ours: []string{"abi", "guest-sdk"}, TestOurs: []string{"guest-sdk/guesttest"}},
		{Packages: []string{"examples/embed/api"}, Others: []string{apimachinery}},
		{Packages: []string{"examples/embed"}, Ours: []string{"abi", "examples/embed/api", "host/..."}, Others: []string{runtime, clientGo, apimachinery, kubernetesAPI}},

		// The sandbox knows nothing of Kubernetes.
		{Packages: []string{"host/sandbox/..."}, Ours: []string{"abi", "abi/wasmfile", "host/sandbox/..."}, Others: []string{"github.com/tetratelabs/wazero", "golang.org/x/sys", "github.com/elastic/go-seccomp-bpf"}, TestOurs: []string{"abi/abitest"}},
		// What the sandbox is compared with: a Go module of its own.
		{
			Packages: []string{"host/sandbox/bench/..."},
			Ours:     []string{"abi", "abi/abitest", "guest-sdk", "host/sandbox", "host/sandbox/internal/wasmtest", "host/sandbox/bench/..."},
			Others: []string{
				"github.com/extism/go-sdk", "github.com/tetratelabs/wazero", "github.com/hashicorp/go-plugin", "github.com/hashicorp/go-hclog",
				"google.golang.org/grpc", "google.golang.org/protobuf", "golang.org/x/perf",
			},
		},
		// A program for those who develop it: it attacks an operator that runs.
		{
			Packages: []string{"host/sandbox/attacks"},
			Ours:     []string{"abi", "abi/wasmfile", "host/api/v1alpha1", "host/registry/registrytest", "host/sandbox/...", "host/internal/testenv"},
			Others:   []string{clientGo, runtimeClient, contextLogger, logr, apimachinery, kubernetesAPI, apiextensions},
		},
		{Packages: []string{"host/capability"}, Ours: []string{"abi"}},
		{
			Packages: []string{"host/registry/..."},
			Ours:     []string{"abi", "abi/wasmfile", "host/registry/..."},
			Others:   []string{"github.com/google/go-containerregistry", "oras.land/oras-go/v2", "github.com/sigstore", "github.com/opencontainers", "golang.org/x/sync", "golang.org/x/sys"},
		},

		// The contract of the tree, and the kinds of node.
		{
			Packages: []string{"host/scope"}, Ours: []string{"abi"},
			Others:     []string{clientGo, runtimeClient, apimachinery},
			TestOurs:   []string{"host/internal/testenv"},
			TestOthers: []string{kubernetesAPI, logr},
		},
		{
			Packages: []string{"host/provisioner"}, Ours: []string{"abi", "host/scope"}, Others: []string{clientcmdAPI, runtimeClient},
			TestOurs: []string{
				"host/provisioner/serial", "host/provisioner/concurrent", "host/provisioner/conditional", "host/provisioner/remotecluster",
				"host/provisioner/provisionertest", "host/cd",
			},
			TestOthers: []string{apimachinery, kubernetesAPI, "pgregory.net/rapid"},
		},
		{
			Packages: []string{"host/provisioner/serial", "host/provisioner/concurrent", "host/provisioner/conditional"},
			Ours:     []string{"abi", "host/provisioner", "host/scope"},
			TestOurs: []string{"host/provisioner/serial", "host/provisioner/concurrent", "host/provisioner/conditional", "host/provisioner/provisionertest"},
		},
		{
			Packages:   []string{"host/provisioner/remotecluster"},
			Ours:       []string{"abi", "host/provisioner", "host/scope", "host/cd"},
			Others:     []string{clientcmdAPI, runtimeClient, apimachinery, kubernetesAPI},
			TestOurs:   []string{"host/provisioner/serial", "host/provisioner/concurrent", "host/provisioner/conditional", "host/provisioner/provisionertest", "host/internal/testenv"},
			TestOthers: []string{clientGo},
		},
		{
			Packages: []string{"host/provisioner/application"},
			Ours:     []string{"abi", "host/provisioner", "host/scope", "host/cd"},
			Others:   []string{runtimeClient, apimachinery, kubernetesAPI, semver, yaml},
			TestOurs: []string{"host/provisioner/provisionertest"}, TestOthers: []string{clientGo},
		},
		{
			Packages: []string{"host/provisioner/module"},
			Ours:     []string{"abi", "host/provisioner", "host/provisioner/application", "host/scope", "host/cd", "host/capability"},
			Others:   []string{runtimeClient, contextLogger, apimachinery, kubernetesAPI},
			TestOurs: []string{"abi/abitest", "host/provisioner/provisionertest"}, TestOthers: []string{clientGo},
		},
		{Packages: []string{"host/provisioner/provisionertest"}, Ours: []string{"abi", "host/provisioner", "host/scope"}},

		// Drivers: each knows its own SDK, and none knows another.
		{Packages: []string{"host/cd"}, Ours: []string{"abi", "host/provisioner", "host/scope"}, Others: []string{clientcmdAPI}},
		{
			Packages: []string{"host/cd/cdtest"},
			Ours:     []string{"abi", "host/provisioner", "host/scope", "host/cd"},
			Others:   []string{clientGo, runtimeClient, apimachinery, kubernetesAPI, testify},
		},
		{
			Packages: []string{"host/cd/helm/..."},
			Ours:     []string{"abi", "host/provisioner", "host/scope", "host/cd", "host/cd/helm/..."},
			Others: []string{
				"helm.sh/helm/v4", "github.com/fluxcd/cli-utils/pkg/kstatus", clientGo, runtimeClient,
				contextLogger, logr, apimachinery, kubernetesAPI, apiextensions, "k8s.io/cli-runtime", yaml, semver,
			},
			TestOurs:   []string{"host/cd/cdtest", "host/internal/testenv"},
			TestOthers: []string{runtime},
		},

		// The API, the planner and the controllers.
		{
			Packages: []string{"host/api/v1alpha1"}, Others: []string{apimachinery, apiextensions},
			TestOurs: []string{"host/internal/testenv"}, TestOthers: []string{runtimeClient, kubernetesAPI, clientGo, yaml, "k8s.io/apiextensions-apiserver"},
		},
		{
			Packages:   []string{"host/plan"},
			Ours:       []string{"abi", "host/api/v1alpha1", "host/provisioner/...", "host/scope", "host/cd", "host/capability"},
			Others:     []string{"github.com/google/cel-go", apimachinery, apiextensions},
			TestOthers: []string{clientGo, runtimeClient, kubernetesAPI, yaml},
		},
		{
			Packages: []string{"host/controller/..."},
			Ours: []string{
				"abi", "host/api/v1alpha1", "host/plan", "host/provisioner/...", "host/scope", "host/cd", "host/capability",
				"host/controller/...", "host/internal/conditions", "host/internal/clock",
			},
			Others:     []string{runtime, clientGo, apimachinery, kubernetesAPI, apiextensions, logr, prometheus},
			TestOurs:   []string{"host/internal/testenv", "host/cd/helm", "host/registry", "host/sandbox"},
			TestOthers: []string{"github.com/fluxcd/cli-utils/pkg/kstatus", "github.com/yuin/gopher-lua", yaml},
		},

		// Helpers for all of the host, which import none of it.
		{Packages: []string{"host/internal/depcheck"}},
		{Packages: []string{"host/internal/abischema"}, TestOurs: []string{"abi", "abi/abitest"}, TestOthers: []string{"github.com/santhosh-tekuri/jsonschema/v6"}},
		{Packages: []string{"host/internal/clock"}},
		{Packages: []string{"host/internal/conditions"}, Ours: []string{"host/api/v1alpha1"}, Others: []string{apimachinery}},
		{
			Packages: []string{"host/internal/testenv"},
			Others:   []string{clientGo, runtimeClient, apimachinery, kubernetesAPI, "k8s.io/apiextensions-apiserver", yaml, testify, "golang.org/x/sys"},
		},

		{
			Packages: []string{"host/internal/benchscale"},
			Ours:     []string{"abi/wasmfile", "host/api/v1alpha1", "host/sandbox", "host/registry", "host/registry/registrytest", "host/internal/testenv"},
			Others:   []string{clientGo, runtimeClient, contextLogger, logr, apimachinery, kubernetesAPI, apiextensions},
		},

		// Assembly.
		{
			Packages: []string{"host"},
			Ours:     []string{"abi", "host/..."},
			Others:   []string{runtime, clientGo, apimachinery, kubernetesAPI, apiextensions, logr, prometheus},
			TestOurs: []string{"abi/wasmfile"}, TestOthers: []string{yaml, "golang.org/x/sync", "k8s.io/klog/v2", "github.com/fluxcd/cli-utils/pkg/kstatus"},
		},
		// It runs the programs, and imports what it needs to serve and to watch them.
		{
			Packages:   []string{"host/faults"},
			TestOurs:   []string{"abi/wasmfile", "host/api/v1alpha1", "host/registry", "host/registry/registrytest", "host/sandbox", "host/internal/testenv"},
			TestOthers: []string{clientGo, runtimeClient, contextLogger, logr, apimachinery, kubernetesAPI, yaml, "golang.org/x/sync"},
		},
		{Packages: []string{"cmd/caisson-worker"}, Ours: []string{"host/sandbox"}},
		{
			Packages:   []string{"cmd/caisson-operator/..."},
			Ours:       []string{"abi", "host/...", "cmd/caisson-operator/..."},
			Others:     []string{runtime, clientGo, apimachinery, kubernetesAPI, cobra, "github.com/spf13/pflag", "k8s.io/klog/v2", logr, "go.uber.org/zap/zapcore"},
			TestOthers: []string{yaml},
		},
		{
			Packages: []string{"cmd/caisson/..."},
			Ours:     []string{"abi", "abi/wasmfile", "host/...", "cmd/caisson/..."},
			Others: []string{
				runtime, clientGo, apimachinery, kubernetesAPI, "k8s.io/apiextensions-apiserver", "k8s.io/klog/v2", logr,
				cobra, "github.com/spf13/pflag", yaml, "golang.org/x/term", "golang.org/x/sys", "golang.org/x/sync",
			},
		},
		{
			Packages: []string{"cmd/devcluster/..."},
			Ours:     []string{"cmd/devcluster/..."},
			Others:   []string{"k8s.io", "sigs.k8s.io", "go.etcd.io", "google.golang.org/grpc", "go.uber.org/zap", "golang.org/x/sys", "github.com/spf13/pflag"},
		},
	}
}
