package controlplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

const (
	// accountIssuer is the issuer of ServiceAccount tokens that clusters have by default.
	accountIssuer = "https://kubernetes.default.svc"

	// serviceNetwork has room for 65 thousand Services. It overlaps neither the pods' network nor that of load balancers.
	serviceNetwork = "10.96.0.0/16"

	// clientQPS and clientBurst lift client-go's limit of 5 requests a second, with which a cold start crawls. Server and
	// clients share the process, so there is nobody to protect.
	clientQPS   = 500
	clientBurst = 1000
)

// errStopped is what the API server "fails" with when it ends because it was asked to.
var errStopped = errors.New("kube-apiserver has stopped")

// apiServer is a running kube-apiserver.
type apiServer struct {
	// config is the administrator's access.
	config *rest.Config
	// failed receives the error that the server ended with, and is closed after that.
	failed <-chan error
}

// startAPIServer serves the API on the given loopback port, 0 being any free one, until ctx ends. It does not wait for the
// server to be ready. kube-apiserver's own command is bypassed, because it takes over the signals of the process.
func startAPIServer(ctx context.Context, port int, storage string, secrets *credentials) (*apiServer, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("listen for the API: %w", err)
	}

	server := serverOptions(listener, storage, secrets)
	if err := server.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return nil, fmt.Errorf("set up kube-apiserver's features: %w", err)
	}
	completed, err := server.Complete(ctx)
	if err != nil {
		return nil, fmt.Errorf("complete kube-apiserver's options: %w", err)
	}
	if problems := completed.Validate(); len(problems) > 0 {
		return nil, fmt.Errorf("check kube-apiserver's options: %w", errors.Join(problems...))
	}
	// The generated certificate comes with its CA in the same bundle.
	bundle, _ := completed.SecureServing.ServerCert.GeneratedCert.CurrentCertKeyContent()

	failed := make(chan error, 1)
	go func() {
		defer close(failed)
		failed <- cmp.Or(app.Run(ctx, completed), errStopped)
	}()

	return &apiServer{
		config: &rest.Config{
			Host:            "https://" + listener.Addr().String(),
			BearerToken:     secrets.adminToken,
			TLSClientConfig: rest.TLSClientConfig{CAData: bundle},
			QPS:             clientQPS,
			Burst:           clientBurst,
		},
		failed: failed,
	}, nil
}

// serverOptions are kube-apiserver's defaults with what a cluster of one process needs.
func serverOptions(listener net.Listener, storage string, secrets *credentials) *options.ServerRunOptions {
	loopback := net.IPv4(127, 0, 0, 1)

	server := options.NewServerRunOptions()
	server.Etcd.StorageConfig.Transport.ServerList = []string{storage}

	server.SecureServing.Listener = listener
	server.SecureServing.BindAddress = loopback
	if address, ok := listener.Addr().(*net.TCPAddr); ok {
		server.SecureServing.BindPort = address.Port
	}
	// Without a directory the serving certificate stays in memory.
	server.SecureServing.ServerCert.CertDirectory, server.SecureServing.ServerCert.PairName = "", ""
	// The default is the address of some network interface, and a laptop on a train has none.
	server.GenericServerRunOptions.AdvertiseAddress = loopback

	server.Authentication.TokenFile.TokenFile = secrets.tokenFile
	server.Authentication.ServiceAccounts.Issuers = []string{accountIssuer}
	server.Authentication.ServiceAccounts.KeyFiles = []string{secrets.accountKeyFile}
	server.ServiceAccountSigningKeyFile = secrets.accountKeyFile
	server.Authorization.Modes = []string{"RBAC"}

	server.AllowPrivileged = true // as kubeadm and kind have it: CNI and storage charts need privileged pods
	server.ServiceClusterIPRanges = serviceNetwork
	server.EndpointReconcilerType = "none" // the API is reached by its kubeconfig, never through the Service "kubernetes"
	server.Features.EnableProfiling = false

	return server
}
