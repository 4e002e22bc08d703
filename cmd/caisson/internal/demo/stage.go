package demo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/caisson-dev/caisson/cmd/caisson/internal/devenv"
	"golang.org/x/sync/errgroup"
)

// The names that the manifests use.
const (
	operatorNamespace = "caisson-system"
	operatorAccount   = "caisson-operator"
	stackNamespace    = "platform"
	stackName         = "platform"
	adminNamespace    = "caisson-demo"
	adminAccount      = "admin"
)

// workloadAdmin is the identity on the workload cluster that the Stack is given: a
// cluster is brought up by somebody who may do everything on it.
const workloadAdmin = `
apiVersion: v1
kind: Namespace
metadata: {name: caisson-demo}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: admin, namespace: caisson-demo}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: caisson-demo-admin}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: admin, namespace: caisson-demo}]
`

// startClusters starts what the demo was not given.
func (d *demo) startClusters(ctx context.Context) error {
	var group errgroup.Group
	start := func(name, given string, into **cluster) {
		group.Go(func() error {
			return d.show.timed(what(name, given), func() error {
				kubeconfig := given
				if given == "" {
					var err error
					if kubeconfig, err = d.env.StartCluster(ctx, name, filepath.Join(d.bin, "devcluster")); err != nil {
						return err
					}
				}
				c, err := connect(name, kubeconfig)
				*into = c
				return err
			})
		})
	}
	start("home", d.HomeKubeconfig, &d.home)
	start("workload", d.WorkloadKubeconfig, &d.workload)
	group.Go(func() error {
		return d.show.timed("start the registry", func() error {
			var err error
			d.registry, err = d.env.StartRegistry(ctx, d.Self)
			return err
		})
	})
	return group.Wait()
}

func what(name, given string) string {
	if given == "" {
		return "start the " + name + " control plane"
	}
	return "connect to the given " + name + " cluster"
}

// push publishes the modules as OCI artifacts and the charts as OCI charts.
func (d *demo) push(ctx context.Context) error {
	for _, m := range demoModules() {
		err := d.show.timed("push module "+m, func() error {
			return d.command(ctx, d.Self, "module", "push", d.wasm(m), d.registry+"/modules/"+m+":1")
		})
		if err != nil {
			return err
		}
	}
	return d.show.timed("push the charts", func() error { return d.pushCharts(ctx) })
}

func (d *demo) pushCharts(ctx context.Context) error {
	client, err := d.pusher()
	if err != nil {
		return err
	}
	charts, err := os.ReadDir(d.example("charts"))
	if err != nil {
		return fmt.Errorf("list charts: %w", err)
	}
	for _, entry := range charts {
		if err := d.pushChart(ctx, client, d.example("charts", entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) example(parts ...string) string {
	return filepath.Join(append([]string{d.Root, "examples", "platform"}, parts...)...)
}

// installOperator installs what we ship, and starts the operator as the ServiceAccount
// that we ship: it is no admin.
func (d *demo) installOperator(ctx context.Context) error {
	crds, err := filepath.Glob(filepath.Join(d.Root, "deploy", "crds", "*.yaml"))
	if err != nil {
		return fmt.Errorf("list CRDs: %w", err)
	}
	err = d.show.timed("apply the CRDs and the operator's own rights", func() error {
		if err := d.home.apply(ctx, d.registry, append(crds, filepath.Join(d.Root, "deploy", "rbac.yaml"))...); err != nil {
			return err
		}
		return d.home.established(ctx)
	})
	if err != nil {
		return err
	}
	return d.show.timed("start the operator", func() error {
		raw, err := d.home.identity(ctx, operatorNamespace, operatorAccount)
		if err != nil {
			return err
		}
		kubeconfig := filepath.Join(d.env.Dir(), "operator.kubeconfig")
		if err := os.WriteFile(kubeconfig, raw, 0o600); err != nil {
			return fmt.Errorf("write kubeconfig of the operator: %w", err)
		}
		d.operator, err = d.startOperator(ctx, "operator")
		return err
	})
}

// startOperator starts a replica under a name, which says where it keeps its cache.
func (d *demo) startOperator(ctx context.Context, name string) (*devenv.Operator, error) {
	return d.env.StartOperator(ctx, devenv.OperatorOptions{
		Name: name, Program: filepath.Join(d.bin, "caisson-operator"), Worker: filepath.Join(d.bin, "caisson-worker"),
		Kubeconfig: filepath.Join(d.env.Dir(), "operator.kubeconfig"), Namespace: operatorNamespace,
		Args: []string{"--leader-elect-lease=" + lease.String()},
	})
}

// prepare gives the Stacks what they need: their tenants and the kubeconfig of the remote.
func (d *demo) prepare(ctx context.Context) error {
	if err := d.home.apply(ctx, d.registry, d.example("tenant.yaml"), d.example("life", "tenant.yaml")); err != nil {
		return err
	}
	for _, namespace := range []string{stackNamespace, lifeNamespace} {
		if err := d.lend(ctx, d.workload, namespace); err != nil {
			return err
		}
	}
	return d.home.apply(ctx, d.registry, d.example("modules.yaml"), d.example("catalogue.yaml"))
}

// lease is how long a leader that was killed holds up the others: less than the 15 s of a
// real installation, for a show.
const lease = 5 * time.Second

// settle is how long the demo looks at a Stack that is left alone.
const settle = 5 * time.Second
