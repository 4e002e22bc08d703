package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/internal/testenv"
	"github.com/caisson-dev/caisson/host/registry/registrytest"
)

const (
	operatorNamespace = "caisson-system"
	operatorName      = "caisson-operator"
	// lease is how long a leader may not be heard of. It renews each 2/15 of that, and ends
	// itself if it could not for 2/3.
	lease         = 6 * time.Second
	renewDeadline = lease * 2 / 3
	// patience bounds every wait but that for what takes minutes by itself.
	patience  = 4 * time.Minute
	pollEvery = 25 * time.Millisecond
)

// site is a control plane with an operator.
type site struct {
	home     *testenv.Cluster
	admin    client.WithWatch
	registry *registrytest.Registry
	dir      string
	health   string
	operator *exec.Cmd
	ended    chan struct{}
	log      tail
	cleanups []func()
}

// Helper, Cleanup and Fatalf make the site a registrytest.TB.
func (s *site) Helper() {}

// Cleanup implements registrytest.TB.
func (s *site) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

// Fatalf implements registrytest.TB.
func (s *site) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (s *site) close() {
	for i := len(s.cleanups) - 1; i >= 0; i-- {
		s.cleanups[i]()
	}
}

// newSite starts everything. What it returns must be closed, if there is an error too.
func newSite(ctx context.Context, progress io.Writer) (*site, error) {
	s := &site{ended: make(chan struct{})}
	_, _ = fmt.Fprintln(progress, "starting a control plane and the operator")
	program, err := testenv.Build("./cmd/caisson-operator", operatorName)
	if err != nil {
		return s, err
	}
	worker, err := testenv.Build("./cmd/caisson-worker", "caisson-worker")
	if err != nil {
		return s, err
	}
	if s.home, err = testenv.StartMain(); err != nil {
		return s, err
	}
	s.Cleanup(s.home.Stop)
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return s, err
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return s, err
	}
	if s.admin, err = client.NewWithWatch(s.home.Config, client.Options{Scheme: scheme}); err != nil {
		return s, err
	}
	s.registry = registrytest.New(s)
	if err := s.furnish(ctx); err != nil {
		return s, err
	}
	return s, s.start(ctx, program, worker)
}

// furnish applies what we ship, and makes two tenants.
func (s *site) furnish(ctx context.Context) error {
	root, err := testenv.ModuleRoot()
	if err != nil {
		return err
	}
	for _, path := range []string{"deploy/crds", "deploy/rbac.yaml"} {
		if _, err := testenv.ApplyPath(ctx, s.admin, filepath.Join(root, path)); err != nil {
			return err
		}
	}
	for _, tenant := range []string{"neighbour", attackerNamespace} {
		if _, err := testenv.Apply(ctx, s.admin, strings.ReplaceAll(tenantYAML, "TENANT", tenant)); err != nil {
			return err
		}
	}
	return await(ctx, "the CRDs", func() (bool, string) {
		err := s.admin.List(ctx, &v1alpha1.StackList{})
		return err == nil, fmt.Sprint(err)
	})
}

const tenantYAML = `
apiVersion: v1
kind: Namespace
metadata: {name: TENANT}
---
apiVersion: v1
kind: ServiceAccount
metadata: {namespace: TENANT, name: builder}
`

// start runs the operator as the ServiceAccount that we ship.
func (s *site) start(ctx context.Context, program, worker string) error {
	account, request := &corev1.ServiceAccount{}, &authenticationv1.TokenRequest{}
	account.Namespace, account.Name = operatorNamespace, operatorName
	if err := s.admin.SubResource("token").Create(ctx, account, request); err != nil {
		return fmt.Errorf("mint the operator's token: %w", err)
	}
	config, err := clientcmd.Load(s.home.Kubeconfig)
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	for user := range config.AuthInfos {
		config.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: request.Status.Token}
	}
	if s.dir, err = os.MkdirTemp("", "caisson-attacks-"); err != nil {
		return err
	}
	s.Cleanup(func() { _ = os.RemoveAll(s.dir) })
	kubeconfig := filepath.Join(s.dir, "kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		return fmt.Errorf("write the operator's kubeconfig: %w", err)
	}
	if s.health, err = freeAddress(); err != nil {
		return err
	}
	s.operator = exec.Command(program, //nolint:noctx // It ends by close.
		"--kubeconfig="+kubeconfig, "--namespace="+operatorNamespace, "--worker="+worker, "--cache-dir="+filepath.Join(s.dir, "cache"),
		"--metrics-bind-address=0", "--health-probe-bind-address="+s.health, "--leader-elect-lease="+lease.String())
	s.operator.Stdout, s.operator.Stderr = &s.log, &s.log
	if err := s.operator.Start(); err != nil {
		return fmt.Errorf("start the operator: %w", err)
	}
	go func() {
		defer close(s.ended)
		_ = s.operator.Wait()
	}()
	s.Cleanup(func() {
		_ = s.operator.Process.Kill()
		<-s.ended
	})
	return await(ctx, "the operator's first answer", func() (bool, string) {
		err := s.probe(ctx)
		return err == nil, fmt.Sprint(err)
	})
}

// freeAddress is an address on loopback that nobody listens on.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // It is closed at once.
	if err != nil {
		return "", fmt.Errorf("find a port: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}

// running says whether the operator has not ended.
func (s *site) running() bool {
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// await looks until look says that it is done, and fails with what it saw last.
func await(ctx context.Context, what string, look func() (done bool, seen string)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		done, seen := look()
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s did not come; the last that was seen: %s", what, seen)
		case <-ticker.C:
		}
	}
}

// tail keeps the end of a log.
type tail struct {
	mu   sync.Mutex
	kept bytes.Buffer
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	const most = 32 << 10
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept.Write(p)
	if over := t.kept.Len() - most; over > most {
		t.kept.Next(over)
	}
	return len(p), nil
}

// String returns what was kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.kept.String()
}
