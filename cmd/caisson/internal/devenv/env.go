package devenv

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Lifetime says when the processes of an environment end.
type Lifetime int

const (
	// WithParent ends them with the process that made the environment.
	WithParent Lifetime = iota
	// Detached keeps them until somebody stops the environment.
	Detached
)

// startTimeout is how long a program may take to come up: control planes need 5 s on an
// idle machine, and much more on a small one that compiles at the same time.
const startTimeout = 3 * time.Minute

// Env is a local environment that is being made. Its parts may be started concurrently.
type Env struct {
	dir      string
	lifetime Lifetime

	mu    sync.Mutex // guards state and its file
	state State
}

// New makes an environment in a directory, which is made if it does not exist, and must
// be empty: the end of the environment is the end of the directory. The error Is ErrInUse
// if an environment is there already.
func New(dir string, lifetime Lifetime) (*Env, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("make environment: %w", err)
	}
	if err := claim(dir); err != nil {
		return nil, err
	}
	if err := os.Mkdir(filepath.Join(dir, "logs"), 0o700); err != nil {
		return nil, fmt.Errorf("make environment: %w", err)
	}
	return &Env{dir: dir, lifetime: lifetime, state: State{Kubeconfigs: map[string]string{}}}, nil
}

// Dir is the directory of the environment.
func (e *Env) Dir() string { return e.dir }

// State returns a copy of what runs now.
func (e *Env) State() *State {
	e.mu.Lock()
	defer e.mu.Unlock()
	return &State{Processes: slices.Clone(e.state.Processes), Kubeconfigs: maps.Clone(e.state.Kubeconfigs), Registry: e.state.Registry}
}

// Process returns what runs under a name, the last that was started if there were several,
// or nil. Whoever stops it with a signal lets it go on before [Env.Stop]: a stopped process
// does not hear that it shall end.
func (e *Env) Process(name string) *Process {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range slices.Backward(e.state.Processes) {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// Stop ends everything and removes the directory. Nothing may be started meanwhile.
func (e *Env) Stop() error { return e.State().Stop(e.dir) }

// record changes the state and writes it down.
func (e *Env) record(change func(*State)) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	change(&e.state)
	return e.state.save(e.dir)
}

// StartCluster starts a control plane and returns the path of its admin kubeconfig once
// it is ready.
func (e *Env) StartCluster(ctx context.Context, name, program string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	kubeconfig := filepath.Join(e.dir, name+".kubeconfig")
	args := []string{"--name=" + name, "--dir=" + filepath.Join(e.dir, name), "--kubeconfig=" + kubeconfig}
	if e.lifetime == WithParent {
		args = append(args, "--parent-pid="+strconv.Itoa(os.Getpid()))
	}
	p, err := e.start(command{name: name, program: program, args: args, env: os.Environ(), stage: stageServer})
	if err != nil {
		return "", err
	}
	// The kubeconfig appears when the control plane is ready, and not before.
	err = p.await(ctx, "its kubeconfig", func(context.Context) bool {
		_, err := os.Stat(kubeconfig)
		return err == nil
	})
	if err != nil {
		return "", err
	}
	return kubeconfig, e.record(func(s *State) { s.Kubeconfigs[name] = kubeconfig })
}

// StartRegistry starts a registry, which is a command of the CLI itself, and returns its
// host and port.
func (e *Env) StartRegistry(ctx context.Context, cli string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	address, err := freeAddress()
	if err != nil {
		return "", err
	}
	args := []string{"dev", "registry", "--listen=" + address, "--dir=" + filepath.Join(e.dir, "registry")}
	p, err := e.start(command{name: "registry", program: cli, args: args, env: os.Environ(), stage: stageServer})
	if err != nil {
		return "", err
	}
	if err := p.await(ctx, "its first answer", answers("http://"+address+"/v2/")); err != nil {
		return "", err
	}
	return address, e.record(func(s *State) { s.Registry = address })
}

// OperatorOptions says how to run an operator.
type OperatorOptions struct {
	// Name of the process; "operator" if empty.
	Name string
	// Program and Worker are the paths of the operator and of its worker.
	Program, Worker string
	// Kubeconfig is what it reaches home with, as its own ServiceAccount.
	Kubeconfig string
	// Namespace is the operator's own.
	Namespace string
	// Args are further flags.
	Args []string
}

// Operator is a running operator.
type Operator struct {
	*Process
	// Metrics and Health are base URLs.
	Metrics, Health string
}

// StartOperator starts an operator and returns once it is ready and serves its metrics.
func (e *Env) StartOperator(ctx context.Context, o OperatorOptions) (*Operator, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	metrics, err := freeAddress()
	if err != nil {
		return nil, err
	}
	health, err := freeAddress()
	if err != nil {
		return nil, err
	}
	if o.Name == "" {
		o.Name = "operator"
	}
	args := append([]string{
		"--kubeconfig=" + o.Kubeconfig, "--namespace=" + o.Namespace, "--worker=" + o.Worker,
		"--cache-dir=" + filepath.Join(e.dir, o.Name+"-cache"),
		"--metrics-bind-address=" + metrics, "--health-probe-bind-address=" + health,
	}, o.Args...)
	// PATH and HOME are all that the operator inherits: no proxy, no KUBECONFIG.
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + e.dir}
	p, err := e.start(command{name: o.Name, program: o.Program, args: args, env: env, stage: stageUser})
	if err != nil {
		return nil, err
	}
	if err := p.await(ctx, "readiness", answers("http://"+health+"/readyz")); err != nil {
		return nil, err
	}
	// It may be ready before its metrics are served.
	if err := p.await(ctx, "metrics", answers("http://"+metrics+"/metrics")); err != nil {
		return nil, err
	}
	return &Operator{Process: p, Metrics: "http://" + metrics, Health: "http://" + health}, nil
}

func (e *Env) start(c command) (*Process, error) {
	c.logDir, c.lifetime = filepath.Join(e.dir, "logs"), e.lifetime
	p, err := start(c)
	if err != nil {
		return nil, err
	}
	return p, e.record(func(s *State) { s.Processes = append(s.Processes, p) })
}

// freeAddress returns a loopback address with a port that was free a moment ago.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // Listening on loopback does not block.
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close() //nolint:errcheck // It was only held to learn its port.
	return l.Addr().String(), nil
}

// answers reports whether a URL answers with a success.
func answers(url string) func(context.Context) bool {
	return func(ctx context.Context) bool {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return false
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		defer res.Body.Close() //nolint:errcheck // Only the status counts.
		return res.StatusCode < http.StatusMultipleChoices
	}
}
