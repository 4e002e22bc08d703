package kubelet

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/caisson-dev/caisson/cmd/devcluster/loop"
)

// podWorkers is how many pods move at once. Each step is one small request, so a few keep up with any chart.
const podWorkers = 4

// Kubelet moves pods, Services and claims. It is made by New.
type Kubelet struct {
	client  kubernetes.Interface
	factory informers.SharedInformerFactory
	pods    corelisters.PodLister
	node    string
	now     func() time.Time
}

// Options says who a Kubelet is. The zero value of Now means the wall clock.
type Options struct {
	// NodeName is the name of the one Node, a DNS label.
	NodeName string
	// Now is the clock that ages of pods are measured with.
	Now func() time.Time
}

// New returns a kubelet that reads through the factory and writes with the client. The caller starts the factory after
// Loops was called.
func New(client kubernetes.Interface, factory informers.SharedInformerFactory, options Options) *Kubelet {
	now := options.Now
	if now == nil {
		now = time.Now
	}

	return &Kubelet{
		client:  client,
		factory: factory,
		pods:    factory.Core().V1().Pods().Lister(),
		node:    options.NodeName,
		now:     now,
	}
}

// Loops registers the kubelet's watches with the factory and returns a function that works until its context ends.
// The Node must exist before pods can run on it; see RegisterNode.
func (k *Kubelet) Loops() (func(ctx context.Context), error) {
	core := k.factory.Core().V1()

	pods, err := loop.New("pods", core.Pods().Informer(), k.syncPod)
	if err != nil {
		return nil, fmt.Errorf("set up pods: %w", err)
	}
	services, err := loop.New("services", core.Services().Informer(), k.syncService)
	if err != nil {
		return nil, fmt.Errorf("set up Services: %w", err)
	}
	claims, err := loop.New("claims", core.PersistentVolumeClaims().Informer(), k.syncClaim)
	if err != nil {
		return nil, fmt.Errorf("set up claims: %w", err)
	}

	return func(ctx context.Context) {
		var group sync.WaitGroup
		group.Go(func() { pods.Run(ctx, podWorkers) })
		group.Go(func() { services.Run(ctx, 1) })
		group.Go(func() { claims.Run(ctx, 1) })
		group.Wait()
	}, nil
}
