package controlplane

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/restmapper"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
)

const (
	// collectorWorkers is how many orphans are looked at together.
	collectorWorkers = 5

	// discoveryResync is how soon the collector learns of a new CRD, and so how long the children of a custom resource may
	// outlive it. kube-controller-manager's 30 seconds are longer than most tests. A resync is two cached requests.
	discoveryResync = 2 * time.Second

	// collectorSyncTimeout is how long the first listing of everything may take, kube-controller-manager's default.
	collectorSyncTimeout = 30 * time.Second
)

// newCollector returns the garbage collector and a function that runs it until its context ends. Informers that it starts
// itself wait for the channel to be closed.
func newCollector(ctx context.Context, client kubernetes.Interface, objects metadata.Interface, factory informers.SharedInformerFactory, started <-chan struct{}) (*garbagecollector.GarbageCollector, func(context.Context), error) {
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
	both := informerfactory.NewInformerFactory(factory, metadatainformer.NewSharedInformerFactory(objects, 0))

	graph := garbagecollector.NewDependencyGraphBuilder(ctx, objects, mapper, garbagecollector.DefaultIgnoredResources(), both, started)
	collector, err := garbagecollector.NewComposedGarbageCollector(ctx, client, objects, mapper, graph)
	if err != nil {
		return nil, nil, fmt.Errorf("make garbage collector: %w", err)
	}

	return collector, func(ctx context.Context) {
		go collector.Sync(ctx, client.Discovery(), discoveryResync)
		collector.Run(ctx, collectorWorkers, collectorSyncTimeout)
	}, nil
}
