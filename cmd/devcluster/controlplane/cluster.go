package controlplane

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/klog/v2"

	"github.com/caisson-dev/caisson/cmd/devcluster/kubelet"
)

// stopPatience is how long a stop may take. kube-apiserver lets open watches of its clients run out first, for up to a minute,
// and nobody who ends a development cluster wants to wait for that. Its state is safe in any case: every acknowledged write
// has been handed to the operating system.
const stopPatience = 500 * time.Millisecond

// Options says where and how to run a control plane.
type Options struct {
	// Dir is an existing directory for state and secrets, readable for the owner alone. State that is there is continued.
	Dir string
	// Port is the API's port on 127.0.0.1; 0 takes any free one.
	Port int
	// Node is the name of the one Node.
	Node string
}

// Cluster is a control plane that is ready.
type Cluster struct {
	server *apiServer
	etcd   *etcd
	cancel context.CancelFunc
	group  *sync.WaitGroup
}

// Start runs a control plane in this process and returns when it is ready for use: the API answers, the controllers have
// started, the Node and the default ServiceAccount exist. It fails when ctx ends before that, with what it was waiting for; the
// parts that ran are stopped then. A second call in one process fails.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	secrets, err := newCredentials(options.Dir)
	if err != nil {
		return nil, err
	}
	storage, err := startEtcd(ctx, options.Dir)
	if err != nil {
		return nil, err
	}

	// The parts outlive the context of the start, and end by Stop.
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	cluster := &Cluster{etcd: storage, cancel: cancel, group: &sync.WaitGroup{}}
	cluster.server, err = startAPIServer(running, options.Port, storage.endpoint, secrets)
	if err != nil {
		cluster.Stop()

		return nil, err
	}
	if err := cluster.populate(ctx, running, options, secrets); err != nil {
		cluster.Stop()

		return nil, err
	}

	return cluster, nil
}

// populate starts, as soon as the API serves, all that works through it, and waits until that has had its effect.
// The parts live as long as running; starting is the context of the waits.
func (c *Cluster) populate(starting, running context.Context, options Options, secrets *credentials) error {
	client, err := kubernetes.NewForConfig(c.server.config)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	objects, err := metadata.NewForConfig(c.server.config)
	if err != nil {
		return fmt.Errorf("make metadata client: %w", err)
	}
	if err := await(starting, c.server.failed, serving(client)); err != nil {
		return err
	}

	factory := informers.NewSharedInformerFactory(client, 0)
	node := kubelet.New(client, factory, kubelet.Options{NodeName: options.Node})
	runNode, err := node.Loops()
	if err != nil {
		return err
	}
	namespaces, err := newNamespaces(running, client, objects, factory)
	if err != nil {
		return err
	}
	runners, err := workloads(running, client, factory)
	if err != nil {
		return err
	}
	identityRunners, err := identities(running, client, factory, secrets, c.CA())
	if err != nil {
		return err
	}
	runners = append(append(runners, identityRunners...), networking(running, client, factory))
	informersStarted := make(chan struct{})
	collector, collect, err := newCollector(running, client, objects, factory, informersStarted)
	if err != nil {
		return err
	}

	factory.Start(running.Done())
	close(informersStarted)
	for _, run := range runners {
		c.group.Go(func() { run(running, controllerWorkers) })
	}
	c.group.Go(func() { namespaces.Run(running, namespaceWorkers) })
	c.group.Go(func() { collect(running) })
	c.group.Go(func() { runNode(running) })

	register := check{what: "the node to be registered", try: node.RegisterNode}
	synced := func() bool { return collector.IsSynced(klog.FromContext(running)) }
	for _, wanted := range append([]check{register}, usable(client, options.Node, synced)...) {
		if err := await(starting, c.server.failed, wanted); err != nil {
			return err
		}
	}
	factory.WaitForCacheSync(starting.Done())

	return nil
}

// Server is the API's URL.
func (c *Cluster) Server() string { return c.server.config.Host }

// CA is the PEM bundle that the API's certificate is verified with.
func (c *Cluster) CA() []byte { return c.server.config.CAData }

// Token is the administrator's bearer token, a new one for each start.
func (c *Cluster) Token() string { return c.server.config.BearerToken }

// Failed receives an error if the API server ends by itself. Nothing works after that.
func (c *Cluster) Failed() <-chan error { return c.server.failed }

// Stop ends all parts. It returns when they have ended, or after stopPatience: what is left then ends with the process, which
// the caller is expected to end next.
func (c *Cluster) Stop() {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		c.cancel()
		c.group.Wait()
		if c.server != nil {
			for range c.server.failed { // until it is closed
			}
		}
		c.etcd.stop()
	}()

	select {
	case <-stopped:
	case <-time.After(stopPatience):
	}
}
