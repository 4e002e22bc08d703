// Command embed is an operator of somebody else's: it has a kind of its own, builds a
// tree for each object in Go, and runs a Wasm module beside native code in it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/examples/embed/api"
	"github.com/caisson-dev/caisson/host"
	"github.com/caisson-dev/caisson/host/capability"
	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/concurrent"
	"github.com/caisson-dev/caisson/host/provisioner/conditional"
	"github.com/caisson-dev/caisson/host/provisioner/serial"
	"github.com/caisson-dev/caisson/host/scope"
)

func main() {
	host.RunWorkerIfRequested() // Modules run in child processes of this very program.
	greeter := flag.String("greeter", "", "reference of the module greeter")
	charts := flag.String("charts", "oci://ghcr.io/stefanprodan/charts", "where the chart podinfo is")
	cache := flag.String("cache-dir", "", "private directory for what is downloaded and compiled")
	flag.Parse()
	if err := run(ctrl.SetupSignalHandler(), *greeter, *charts, *cache); err != nil {
		fmt.Fprintln(os.Stderr, "embed:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, greeter, charts, cache string) error {
	ctrl.SetLogger(zap.New())
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	if err := api.AddToScheme(scheme); err != nil {
		return err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	h, err := host.Embed(ctx, mgr, host.Options{
		Namespace: "environments", CacheDir: cache, Worker: []string{self},
		DefaultServiceAccount: "environment", Logger: ctrl.Log,
	})
	if err != nil {
		return err
	}
	// The grant is all that the module can ever do, and the tenant's rights bound it further.
	module, err := h.LoadModule(ctx, host.ModuleOptions{Name: "greeter", Reference: greeter, Grant: capability.Grant{
		Capabilities: []abi.Function{abi.KubeApply, abi.KubeDelete},
		Kube:         []capability.KubeRule{{Kinds: []string{"ConfigMap"}, Verbs: []string{"apply", "delete"}, Namespaces: []string{capability.Any}}},
	}})
	if err != nil {
		return err
	}
	e := environments{greeter: module, charts: charts}
	if err := host.Manage(h, host.Kind[*api.Environment]{Name: "platform.example.com/environment", Tree: e.tree}); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// environments builds the trees.
type environments struct {
	greeter *host.Module
	charts  string
}

func (e environments) tree(pass *host.Pass, env *api.Environment) (provisioner.Provisioner, error) {
	wanted := func(context.Context) conditional.Decision {
		if env.Spec.Demo {
			return conditional.True()
		}
		return conditional.False()
	}
	return serial.New("environment",
		pass.Native("quota", &quota{pods: env.Spec.Pods}),
		concurrent.New("rest", concurrent.Options{},
			pass.Module("greeting", e.greeter, map[string]string{"text": env.Spec.Greeting}),
			conditional.New("demo", wanted, pass.Application("podinfo", cd.Application{
				Repo: e.charts, Chart: "podinfo", Version: "6.7.0", Namespace: env.Namespace,
			})),
		),
	), nil
}

// quota is a leaf in plain Go: idempotent, quick, and done when what it wants is there.
type quota struct {
	provisioner.Metadata
	pods int64
}

func (q *quota) object(s scope.Scope) *corev1.ResourceQuota {
	object := &corev1.ResourceQuota{}
	object.Name, object.Namespace = "environment", s.Owner().Namespace
	return object
}

// Provision implements provisioner.Provisioner. The client is the tenant's.
func (q *quota) Provision(ctx context.Context) error {
	s, _ := scope.FromContext(ctx)
	object := q.object(s)
	_, err := controllerutil.CreateOrUpdate(ctx, s.Client(), object, func() error {
		object.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(q.pods, resource.DecimalSI)}
		return nil
	})
	return err
}

// Deprovision implements provisioner.Provisioner.
func (q *quota) Deprovision(ctx context.Context) error {
	s, _ := scope.FromContext(ctx)
	return client.IgnoreNotFound(s.Client().Delete(ctx, q.object(s)))
}
