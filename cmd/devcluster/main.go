// devcp: a whole Kubernetes control plane without nodes in one process, for tests.
// usage: devcp DIR APIPORT
package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	v1 "k8s.io/api/core/v1"
	cacheddiscovery "k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/pkg/controller/certificates/rootcacertpublisher"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
	"k8s.io/kubernetes/pkg/controller/cronjob"
	"k8s.io/kubernetes/pkg/controller/daemon"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/endpointslice"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/job"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	serviceaccountcontroller "k8s.io/kubernetes/pkg/controller/serviceaccount"
	"k8s.io/kubernetes/pkg/controller/statefulset"
	"k8s.io/kubernetes/pkg/controller/ttlafterfinished"
	"k8s.io/kubernetes/pkg/serviceaccount"

	"github.com/caisson-dev/caisson/cmd/devcluster/klite"
)

func ck(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func must[T any](v T, err error) T { ck(err); return v }

func main() {
	dir, port := must(filepath.Abs(os.Args[1])), must(strconv.Atoi(os.Args[2]))
	ck(os.MkdirAll(dir, 0o700))
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	t0 := time.Now()

	// etcd in process
	ec := embed.NewConfig()
	ec.Dir, ec.LogLevel, ec.UnsafeNoFsync = filepath.Join(dir, "etcd"), "error", true
	u, p := *must(url.Parse(fmt.Sprintf("http://127.0.0.1:%d", port+1))), *must(url.Parse(fmt.Sprintf("http://127.0.0.1:%d", port+2)))
	ec.ListenClientUrls, ec.AdvertiseClientUrls, ec.ListenPeerUrls, ec.AdvertisePeerUrls = []url.URL{u}, []url.URL{u}, []url.URL{p}, []url.URL{p}
	ec.InitialCluster = ec.InitialClusterFromName(ec.Name)
	e := must(embed.StartEtcd(ec))
	defer e.Close()
	<-e.Server.ReadyNotify()

	key := must(rsa.GenerateKey(rand.Reader, 2048))
	sa := filepath.Join(dir, "sa.key")
	ck(os.WriteFile(sa, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}), 0o600))
	ck(os.WriteFile(filepath.Join(dir, "tokens.csv"), []byte("devtoken,admin,admin,system:masters\n"), 0o600))
	c := apiserver.NewAPIServerCommand()
	c.SetArgs([]string{"--etcd-servers=" + u.String(), fmt.Sprintf("--secure-port=%d", port), "--bind-address=127.0.0.1", "--cert-dir=" + filepath.Join(dir, "certs"),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + sa, "--service-account-signing-key-file=" + sa,
		"--token-auth-file=" + filepath.Join(dir, "tokens.csv"), "--authorization-mode=RBAC", "--service-cluster-ip-range=10.0.0.0/24", "--endpoint-reconciler-type=none"})
	go func() { log.Fatal(c.ExecuteContext(ctx)) }()

	caf := filepath.Join(dir, "certs", "apiserver.crt")
	cfg := &rest.Config{Host: fmt.Sprintf("https://127.0.0.1:%d", port), BearerToken: "devtoken", QPS: 500, Burst: 1000, TLSClientConfig: rest.TLSClientConfig{CAFile: caf}}
	var cs *clientset.Clientset
	for {
		if _, err := os.Stat(caf); err == nil {
			cs = must(clientset.NewForConfig(cfg))
			if _, err := cs.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err == nil {
				break
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	ca := must(os.ReadFile(caf))
	ck(os.WriteFile(filepath.Join(dir, "kc.yaml"), []byte(fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:%d", certificate-authority: "%s"}}]
users: [{name: u, user: {token: devtoken}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, port, caf)), 0o600))
	log.Printf("ready %s after %s", cfg.Host, time.Since(t0).Round(time.Millisecond))
	controllers(ctx, cs, cfg, serviceaccount_generator(key), ca)
	log.Fatal(klite.Run(ctx, cs, "klite-0"))
}

func serviceaccount_generator(k *rsa.PrivateKey) serviceaccount.TokenGenerator {
	return must(serviceaccount.JWTTokenGenerator(serviceaccount.LegacyIssuer, k))
}

func controllers(ctx context.Context, cs *clientset.Clientset, cfg *rest.Config, tg serviceaccount.TokenGenerator, ca []byte) {
	f := informers.NewSharedInformerFactory(cs, 0)
	apps, core, batch := f.Apps().V1(), f.Core().V1(), f.Batch().V1()
	md := must(metadata.NewForConfig(cfg))
	dc := cacheddiscovery.NewMemCacheClient(cs.Discovery())
	rm := restmapper.NewDeferredDiscoveryRESTMapper(dc)
	started := make(chan struct{})
	gb := garbagecollector.NewDependencyGraphBuilder(ctx, md, rm, garbagecollector.DefaultIgnoredResources(),
		informerfactory.NewInformerFactory(f, metadatainformer.NewSharedInformerFactory(md, 0)), started)
	gc := must(garbagecollector.NewComposedGarbageCollector(ctx, cs, md, rm, gb))
	dep := must(deployment.NewDeploymentController(ctx, apps.Deployments(), apps.ReplicaSets(), core.Pods(), cs))
	rs := replicaset.NewReplicaSetController(ctx, apps.ReplicaSets(), core.Pods(), cs, replicaset.BurstReplicas)
	ss := statefulset.NewStatefulSetController(ctx, core.Pods(), apps.StatefulSets(), core.PersistentVolumeClaims(), apps.ControllerRevisions(), cs)
	ds := must(daemon.NewDaemonSetsController(ctx, apps.DaemonSets(), apps.ControllerRevisions(), core.Pods(), core.Nodes(), cs, flowcontrol.NewBackOff(time.Second, 15*time.Minute)))
	jb := must(job.NewController(ctx, cs, core.Pods(), batch.Jobs(), nil, nil))
	cj := must(cronjob.NewControllerV2(ctx, batch.Jobs(), batch.CronJobs(), cs))
	ttl := ttlafterfinished.New(ctx, batch.Jobs(), cs)
	ns := namespace.NewNamespaceController(ctx, cs, md, cs.Discovery().ServerPreferredNamespacedResources, core.Namespaces(), 5*time.Minute, v1.FinalizerKubernetes)
	lg := klog.FromContext(ctx)
	sa := must(serviceaccountcontroller.NewServiceAccountsController(lg, core.ServiceAccounts(), core.Namespaces(), cs, serviceaccountcontroller.DefaultServiceAccountsControllerOptions()))
	tok := must(serviceaccountcontroller.NewTokensController(lg, core.ServiceAccounts(), core.Secrets(), cs, serviceaccountcontroller.TokensControllerOptions{TokenGenerator: tg, RootCA: ca}))
	agg := clusterroleaggregation.NewClusterRoleAggregation(f.Rbac().V1().ClusterRoles(), cs.RbacV1())
	es := endpointslice.NewController(ctx, core.Pods(), core.Services(), core.Nodes(), f.Discovery().V1().EndpointSlices(), 100, cs, 0)
	cp := must(rootcacertpublisher.NewPublisher(core.ConfigMaps(), core.Namespaces(), cs, ca))
	f.Start(ctx.Done())
	close(started)
	for _, run := range []func(context.Context, int){dep.Run, rs.Run, ss.Run, ds.Run, jb.Run, cj.Run, ttl.Run, ns.Run, sa.Run, tok.Run, es.Run, cp.Run, agg.Run} {
		go run(ctx, 2)
	}
	go gc.Run(ctx, 5, 30*time.Second)
	go gc.Sync(ctx, cs.Discovery(), 5*time.Second)
}
