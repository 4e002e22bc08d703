package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/internal/testenv"
)

const (
	operatorNamespace = "caisson-system"
	operatorAccount   = "caisson-operator"
	// soon bounds waits for what takes seconds.
	soon = 3 * time.Minute
)

// programs are the paths of what is run.
type programs struct{ operator, worker string }

func build() (programs, error) {
	var p programs
	var err error
	if p.worker, err = testenv.Build("./cmd/caisson-worker", "caisson-worker"); err != nil {
		return p, err
	}
	p.operator, err = testenv.Build("./cmd/caisson-operator", "caisson-operator")
	return p, err
}

// site is a control plane with an operator.
type site struct {
	cluster  *testenv.Cluster
	admin    client.Client
	operator *operator
}

// open starts a control plane, installs what we ship, and starts the operator as the
// identity that we ship.
func open(ctx context.Context, p programs, shelf *shelf, o options) (s *site, err error) {
	s = &site{}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.cluster, err = testenv.StartMain(); err != nil {
		return s, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return s, err
	}
	if s.admin, err = s.cluster.Client(scheme); err != nil {
		return s, err
	}
	root, err := testenv.ModuleRoot()
	if err != nil {
		return s, err
	}
	for _, path := range []string{"deploy/crds", "deploy/rbac.yaml"} {
		if _, err := testenv.ApplyPath(ctx, s.admin, filepath.Join(root, path)); err != nil {
			return s, err
		}
	}
	if err := s.catalogue(ctx, shelf); err != nil {
		return s, err
	}
	dir, err := os.MkdirTemp("", "caisson-scale-")
	if err != nil {
		return s, fmt.Errorf("make a directory for the operator: %w", err)
	}
	kubeconfig, err := s.kubeconfig(ctx, dir)
	if err != nil {
		return s, errors.Join(err, os.RemoveAll(dir))
	}
	if s.operator, err = startOperator(p, kubeconfig, dir, o); err != nil {
		return s, err
	}
	return s, s.awaitModules(ctx)
}

func (s *site) close() {
	if s.operator != nil {
		s.operator.stop()
	}
	if s.cluster != nil {
		s.cluster.Stop()
	}
}

// catalogue creates the Modules and the Application.
func (s *site) catalogue(ctx context.Context, shelf *shelf) error {
	names := []string{moduleHangs, moduleCrashes, moduleWaits}
	for i := range moduleCount {
		names = append(names, moduleName(i))
	}
	for _, name := range names {
		module := &v1alpha1.Module{ObjectMeta: metav1.ObjectMeta{Name: name}}
		module.Spec = v1alpha1.ModuleSpec{Reference: shelf.reference(name), AllowedNamespaces: []string{"*"}, Grant: v1alpha1.Grant{Capabilities: []string{}}}
		if name == moduleCrashes {
			most := int64(tableOfTheModule)
			module.Spec.Limits = &v1alpha1.ModuleLimits{TableElements: &most}
		}
		if name == moduleName(goModule) {
			module.Spec.Grant = v1alpha1.Grant{
				Capabilities: []string{"secret_read"},
				Secrets:      []v1alpha1.SecretGrant{{Namespace: "$(owner)", Names: []string{"token"}}},
			}
		}
		if err := s.admin.Create(ctx, module); err != nil {
			return fmt.Errorf("create module %s: %w", name, err)
		}
	}
	application := &v1alpha1.Application{ObjectMeta: metav1.ObjectMeta{Name: chartName}}
	application.Spec.Versions = []v1alpha1.ApplicationVersion{{Version: chartVersion, Repo: "oci://" + shelf.host + "/charts", Chart: chartName}}
	if err := s.admin.Create(ctx, application); err != nil {
		return fmt.Errorf("create the application: %w", err)
	}
	return nil
}

// awaitModules waits until all are loaded.
func (s *site) awaitModules(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	for {
		list := &v1alpha1.ModuleList{}
		if err := s.admin.List(ctx, list); err != nil {
			return fmt.Errorf("list modules: %w", err)
		}
		waiting := ""
		for _, m := range list.Items {
			if !meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ModuleReady) {
				waiting = fmt.Sprintf("%s: %+v", m.Name, m.Status.Conditions)
			}
		}
		if waiting == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("module %s did not become ready: %w", waiting, context.Cause(ctx))
		case <-s.operator.exited:
			return fmt.Errorf("the operator has ended; its log is %s", s.operator.log)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// kubeconfig writes one with the operator's own token.
func (s *site) kubeconfig(ctx context.Context, dir string) (string, error) {
	account := &corev1.ServiceAccount{}
	account.Namespace, account.Name = operatorNamespace, operatorAccount
	seconds := int64((24 * time.Hour).Seconds())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	if err := s.admin.SubResource("token").Create(ctx, account, request); err != nil {
		return "", fmt.Errorf("mint the operator's token: %w", err)
	}
	config, err := clientcmd.Load(s.cluster.Kubeconfig)
	if err != nil {
		return "", errors.New("the kubeconfig of the control plane cannot be read")
	}
	for user := range config.AuthInfos {
		config.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: request.Status.Token}
	}
	path := filepath.Join(dir, "kubeconfig")
	return path, clientcmd.WriteToFile(*config, path)
}

// operator is the operator as a process.
type operator struct {
	command *exec.Cmd
	metrics string
	profile string
	dir     string
	log     string
	exited  chan struct{}
}

// startOperator runs one without a leader election, whose requests are not those of
// Stacks, and with a resync so late that none comes between two measurements.
func startOperator(p programs, kubeconfig, dir string, o options) (*operator, error) {
	addresses, err := freeAddresses(2)
	if err != nil {
		return nil, err
	}
	started := &operator{metrics: "http://" + addresses[0] + "/metrics", dir: dir, log: filepath.Join(os.TempDir(), "caisson-scale-operator.log"), exited: make(chan struct{})}
	output, err := os.Create(started.log)
	if err != nil {
		return nil, fmt.Errorf("open the operator's log: %w", err)
	}
	defer func() { _ = output.Close() }()
	args := []string{
		"--kubeconfig=" + kubeconfig, "--namespace=" + operatorNamespace, "--worker=" + p.worker, "--cache-dir=" + filepath.Join(dir, "cache"),
		"--metrics-bind-address=" + addresses[0], "--health-probe-bind-address=0", "--leader-elect=false", "--resync=24h",
	}
	if o.profiles != "" {
		args = append(args, "--pprof-bind-address="+addresses[1])
		started.profile = "http://" + addresses[1] + "/debug/pprof/"
	}
	started.command = exec.Command(p.operator, args...) //nolint:noctx // It ends by stop.
	started.command.Stdout, started.command.Stderr = output, output
	if err := started.command.Start(); err != nil {
		return nil, fmt.Errorf("start the operator: %w", err)
	}
	go func() {
		_ = started.command.Wait()
		close(started.exited)
	}()
	return started, nil
}

// stop ends it as a pod is ended.
func (o *operator) stop() {
	_ = o.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-o.exited:
	case <-time.After(30 * time.Second):
		_ = o.command.Process.Kill()
		<-o.exited
	}
	_ = os.RemoveAll(o.dir)
}
