package controlplane

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/certificates/rootcacertpublisher"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
	"k8s.io/kubernetes/pkg/controller/cronjob"
	"k8s.io/kubernetes/pkg/controller/daemon"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/endpointslice"
	"k8s.io/kubernetes/pkg/controller/job"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	accounts "k8s.io/kubernetes/pkg/controller/serviceaccount"
	"k8s.io/kubernetes/pkg/controller/statefulset"
	"k8s.io/kubernetes/pkg/controller/ttlafterfinished"
	"k8s.io/kubernetes/pkg/serviceaccount"
)

const (
	// controllerWorkers is how many objects each controller handles at once. kube-controller-manager's 5 are for clusters of
	// thousands of nodes.
	controllerWorkers = 2

	// endpointsPerSlice is kube-controller-manager's default.
	endpointsPerSlice = 100

	// Backoff of failing daemon pods, kube-controller-manager's defaults.
	daemonBackoff, daemonBackoffMax = time.Second, 15 * time.Minute
)

// runner is how Kubernetes' controllers are started: Run works until the context ends.
type runner func(ctx context.Context, workers int)

// workloads returns the controllers that turn workloads into pods.
func workloads(ctx context.Context, client kubernetes.Interface, factory informers.SharedInformerFactory) ([]runner, error) {
	apps, core, batch := factory.Apps().V1(), factory.Core().V1(), factory.Batch().V1()

	deployments, err := deployment.NewDeploymentController(ctx, apps.Deployments(), apps.ReplicaSets(), core.Pods(), client)
	if err != nil {
		return nil, fmt.Errorf("make deployment controller: %w", err)
	}
	daemons, err := daemon.NewDaemonSetsController(ctx, apps.DaemonSets(), apps.ControllerRevisions(), core.Pods(), core.Nodes(), client,
		flowcontrol.NewBackOff(daemonBackoff, daemonBackoffMax))
	if err != nil {
		return nil, fmt.Errorf("make daemon set controller: %w", err)
	}
	jobs, err := job.NewController(ctx, client, core.Pods(), batch.Jobs(), nil, nil) // no Workload API: gang scheduling is off by default
	if err != nil {
		return nil, fmt.Errorf("make job controller: %w", err)
	}
	cronJobs, err := cronjob.NewControllerV2(ctx, batch.Jobs(), batch.CronJobs(), client)
	if err != nil {
		return nil, fmt.Errorf("make cron job controller: %w", err)
	}
	replicas := replicaset.NewReplicaSetController(ctx, apps.ReplicaSets(), core.Pods(), client, replicaset.BurstReplicas)
	stateful := statefulset.NewStatefulSetController(ctx, core.Pods(), apps.StatefulSets(), core.PersistentVolumeClaims(), apps.ControllerRevisions(), client)
	finished := ttlafterfinished.New(ctx, batch.Jobs(), client)

	return []runner{deployments.Run, replicas.Run, stateful.Run, daemons.Run, jobs.Run, cronJobs.Run, finished.Run}, nil
}

// identities returns the controllers of ServiceAccounts and roles.
func identities(ctx context.Context, client kubernetes.Interface, factory informers.SharedInformerFactory, secrets *credentials, ca []byte) ([]runner, error) {
	core := factory.Core().V1()
	logger := klog.FromContext(ctx)

	defaults, err := accounts.NewServiceAccountsController(logger, core.ServiceAccounts(), core.Namespaces(), client, accounts.DefaultServiceAccountsControllerOptions())
	if err != nil {
		return nil, fmt.Errorf("make ServiceAccount controller: %w", err)
	}
	generator, err := serviceaccount.JWTTokenGenerator(serviceaccount.LegacyIssuer, secrets.accountKey)
	if err != nil {
		return nil, fmt.Errorf("make token generator: %w", err)
	}
	tokens, err := accounts.NewTokensController(logger, core.ServiceAccounts(), core.Secrets(), client, accounts.TokensControllerOptions{TokenGenerator: generator, RootCA: ca})
	if err != nil {
		return nil, fmt.Errorf("make token controller: %w", err)
	}
	roots, err := rootcacertpublisher.NewPublisher(core.ConfigMaps(), core.Namespaces(), client, ca)
	if err != nil {
		return nil, fmt.Errorf("make root CA publisher: %w", err)
	}
	// Without this one the ClusterRoles admin, edit and view are empty, and binding them grants nothing.
	aggregation := clusterroleaggregation.NewClusterRoleAggregation(factory.Rbac().V1().ClusterRoles(), client.RbacV1())

	return []runner{defaults.Run, tokens.Run, roots.Run, aggregation.Run}, nil
}

// networking returns the controller of EndpointSlices.
func networking(ctx context.Context, client kubernetes.Interface, factory informers.SharedInformerFactory) runner {
	core := factory.Core().V1()

	return endpointslice.NewController(ctx, core.Pods(), core.Services(), core.Nodes(), factory.Discovery().V1().EndpointSlices(), endpointsPerSlice, client, 0).Run
}
