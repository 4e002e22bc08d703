// Command caisson-operator runs Caisson on a cluster: flags and wiring, nothing else.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"go.uber.org/zap/zapcore"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/caisson-dev/caisson/host"
	"github.com/caisson-dev/caisson/host/scope"
)

func main() {
	if err := command().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "caisson-operator:", err)
		os.Exit(1)
	}
}

// flags are the command line.
type flags struct {
	kubeconfig      string
	metricsAddress  string
	healthAddress   string
	profileAddress  string
	leaderElect     bool
	lease           time.Duration
	verbose         bool
	insecureRemotes bool
	worker          string
	idleMemory      resource.QuantityValue
	limits          map[string]string
	ceilings        map[string]string
	host            host.Options
}

func command() *cobra.Command {
	f := &flags{}
	cmd := &cobra.Command{
		Use:   "caisson-operator",
		Short: "Run Caisson on a cluster",
		Long: `caisson-operator brings up what Stacks ask for, and keeps it up.

It acts on its own cluster as the ServiceAccount that each Stack names, and on remote
clusters with the identity of their kubeconfig. Modules run in worker processes without
any access of their own.`,
		Example: `  # In a pod, where namespace and credentials are known
  caisson-operator --namespace=$(POD_NAMESPACE) --cache-dir=/var/cache/caisson

  # On a laptop, against a cluster of a kubeconfig
  caisson-operator --kubeconfig=$HOME/.kube/config --namespace=caisson-system --cache-dir=/tmp/caisson`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), f) },
	}
	set := cmd.Flags()
	set.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the operator's own cluster; the pod's credentials if empty")
	set.StringVar(&f.host.Namespace, "namespace", os.Getenv("POD_NAMESPACE"), "namespace of the operator, where it keeps inventories; $POD_NAMESPACE if not given")
	set.StringVar(&f.host.CacheDir, "cache-dir", "", "private directory for artifacts and native code; native code out of it is run")
	set.StringVar(&f.worker, "worker", "", "path of caisson-worker; beside this program if empty")
	set.IntVar(&f.host.MaxWorkers, "max-workers", 0, "most worker processes at a time; two for each core if 0")
	set.Var(&f.idleMemory, "idle-worker-memory", "`memory` that idle worker processes may hold together, for instance 1Gi; the least recently used are ended above it; 512Mi if 0")
	set.StringToStringVar(&f.limits, "module-limits", nil, "limits `name=value,...` of modules that set none, in the words of spec.limits of a Module, for instance memory=256Mi,timeout=1m")
	set.StringToStringVar(&f.ceilings, "module-limit-ceilings", nil, "highest limits `name=value,...` that a Module may set, in the same words; one that asks for more is not loaded")
	set.StringSliceVar(&f.host.PlainHTTPHosts, "plain-http-registry", nil, "registry host that may be spoken to without TLS; repeatable. Loopback hosts always may")
	set.BoolVar(&f.host.AllowInProcess, "allow-in-process", false, "let Modules with isolation InProcess run in this process; whoever may write Modules can then end it")
	set.BoolVar(&f.insecureRemotes, "insecure-remotes", false, "accept kubeconfigs of remotes that skip the verification of certificates")
	set.StringVar(&f.host.DefaultServiceAccount, "default-service-account", "", "ServiceAccount for Stacks that name none; without it they are refused")
	set.DurationVar(&f.host.Resync, "resync", 10*time.Minute, "how often a converged Stack is looked at though nothing happened")
	set.BoolVar(&f.leaderElect, "leader-elect", true, "elect one leader among the replicas")
	set.DurationVar(&f.lease, "leader-elect-lease", 15*time.Second, "how long a leader that died holds up the others; at least 1s")
	set.StringVar(&f.metricsAddress, "metrics-bind-address", "127.0.0.1:8080", "address of the metrics endpoint; 0 turns it off")
	set.StringVar(&f.healthAddress, "health-probe-bind-address", "127.0.0.1:8081", "address of /healthz and /readyz; 0 turns it off")
	set.StringVar(&f.profileAddress, "pprof-bind-address", "0", "address of /debug/pprof, which whoever reaches it can read the memory of the operator by; 0 turns it off")
	set.BoolVar(&f.verbose, "verbose", false, "log every wake and every yield")
	return cmd
}

func run(ctx context.Context, f *flags) error {
	if f.host.Namespace == "" {
		return errors.New("--namespace is required; in a pod set POD_NAMESPACE from metadata.namespace")
	}
	if f.host.CacheDir == "" {
		return errors.New("--cache-dir is required; give a private directory, for instance an emptyDir volume")
	}
	var err error
	if f.host.DefaultLimits, err = host.ParseModuleLimits(f.limits); err != nil {
		return fmt.Errorf("--module-limits: %w", err)
	}
	if f.host.LimitCeilings, err = host.ParseModuleLimits(f.ceilings); err != nil {
		return fmt.Errorf("--module-limit-ceilings: %w", err)
	}
	if f.idleMemory.Sign() < 0 {
		return fmt.Errorf("--idle-worker-memory %s is negative; give 0 for the default", f.idleMemory.String())
	}
	if f.lease < time.Second {
		return fmt.Errorf("--leader-elect-lease %s is too short; give at least 1s", f.lease)
	}
	logger := zap.New(zap.UseDevMode(f.verbose), zap.StacktraceLevel(zapcore.DPanicLevel))
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	mgr, err := newManager(f, logger)
	if err != nil {
		return err
	}
	f.host.Logger = logger
	f.host.IdleWorkerBytes = f.idleMemory.Value()
	f.host.Kubeconfigs = scope.KubeconfigPolicy{AllowInsecureTLS: f.insecureRemotes}
	if f.worker != "" {
		worker, err := filepath.Abs(f.worker)
		if err != nil {
			return fmt.Errorf("find the worker: %w", err)
		}
		f.host.Worker = []string{worker}
	}
	if err := host.New(ctx, mgr, f.host); err != nil {
		return err
	}
	if err := errors.Join(
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("ping", healthz.Ping),
	); err != nil {
		return fmt.Errorf("add health checks: %w", err)
	}
	return mgr.Start(ctx)
}

// newManager connects to the operator's own cluster.
func newManager(f *flags, logger logr.Logger) (ctrl.Manager, error) {
	config, err := ownConfig(f.kubeconfig)
	if err != nil {
		return nil, err
	}
	// Priority and fairness on the server is what limits clients; its defaults are meant
	// for a client that is not limited at 5 requests a second.
	config.QPS, config.Burst = 100, 200
	scheme := runtime.NewScheme()
	if err := host.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("make scheme: %w", err)
	}
	// The proportions of controller-runtime's defaults, 15, 10 and 2 seconds.
	renew, retry := f.lease*2/3, f.lease*2/15
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Logger: logger,
		Cache:                         cache.Options{DefaultTransform: cache.TransformStripManagedFields()},
		Metrics:                       server.Options{BindAddress: f.metricsAddress},
		HealthProbeBindAddress:        f.healthAddress,
		PprofBindAddress:              f.profileAddress,
		LeaderElection:                f.leaderElect,
		LeaderElectionID:              "caisson-operator",
		LeaderElectionNamespace:       f.host.Namespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &f.lease,
		RenewDeadline:                 &renew,
		RetryPeriod:                   &retry,
	})
	if err != nil {
		return nil, fmt.Errorf("make the manager: %w", err)
	}
	return mgr, nil
}

// ownConfig says how to reach the operator's own cluster: by a kubeconfig, or with the
// credentials of the pod if there is none. Nothing else is tried.
func ownConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("find the credentials of the pod; outside of one, give --kubeconfig: %w", err)
		}
		return config, nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the operator's kubeconfig: %w", err)
	}
	return config, nil
}
