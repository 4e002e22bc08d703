package testenv

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// startDeadline is how long a cluster may take to be ready. Alone it takes 3 seconds; several at once on two cores that
	// also compile have taken more than a minute and a half. A cluster that cannot start ends by itself, and is not waited for.
	startDeadline = 4 * time.Minute

	// clientQPS and clientBurst lift client-go's 5 requests a second, which make tests slow and prove nothing.
	clientQPS   = 200
	clientBurst = 400
)

// Cluster is a running local control plane. The fields must not be changed; copy Config before changing it.
type Cluster struct {
	// Kubeconfig is the administrator's kubeconfig, with CA and token inline. It is a secret while the cluster runs.
	Kubeconfig []byte
	// Path is the file that holds Kubeconfig. It goes when the cluster ends.
	Path string
	// Config is the administrator's access.
	Config *rest.Config

	process *process
}

// Start runs a cluster of its own for a test, and ends it with the test. The test fails if the cluster is not ready in time.
// Starting costs seconds and a third of a gigabyte: a package with many tests starts one in TestMain, by StartMain, and keeps
// tests apart by Namespace.
func Start(t testing.TB) *Cluster {
	t.Helper()

	cluster, err := StartMain()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Stop)

	return cluster
}

// StartMain runs a cluster for a whole test binary. The caller must call Stop before it exits; should the process die instead,
// the cluster ends by itself. The error says why a cluster could not be built or started.
func StartMain() (*Cluster, error) {
	binary, err := devclusterBinary()
	if err != nil {
		return nil, err
	}

	return startBinary(binary, startDeadline)
}

func startBinary(binary string, deadline time.Duration) (*Cluster, error) {
	started, err := spawn(binary)
	if err != nil {
		return nil, err
	}

	select {
	case <-started.output.line:
	case <-started.exited:
		return nil, fmt.Errorf("devcluster ended before it was ready: %s\n%s", started.command.ProcessState, started.errors)
	case <-time.After(deadline):
		started.stop()

		return nil, fmt.Errorf("devcluster was not ready after %s\n%s", deadline, started.errors)
	}

	cluster, err := newCluster(started)
	if err != nil {
		started.stop()

		return nil, err
	}

	return cluster, nil
}

// newCluster reads what a devcluster announced.
func newCluster(started *process) (*Cluster, error) {
	var announced struct {
		Kubeconfig string `json:"kubeconfig"`
	}
	if err := json.Unmarshal(started.output.firstLine(), &announced); err != nil {
		return nil, fmt.Errorf("read devcluster's announcement: %w", err)
	}
	data, err := os.ReadFile(announced.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read devcluster's kubeconfig: %w", err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		// The parser's error could quote the file.
		return nil, errors.New("devcluster's kubeconfig is not usable")
	}
	config.QPS, config.Burst = clientQPS, clientBurst

	return &Cluster{Kubeconfig: data, Path: announced.Kubeconfig, Config: config, process: started}, nil
}

// Client returns a client of the administrator for the types of a scheme; nil means those of Kubernetes itself.
func (c *Cluster) Client(scheme *runtime.Scheme) (client.Client, error) {
	made, err := client.New(c.Config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}

	return made, nil
}

// Stop ends the cluster, paused or not, and removes its state. Calling it again does nothing.
func (c *Cluster) Stop() {
	c.process.stop()
	c.removeState()
}

// Kill ends the cluster by force, as a crash would: connections break, and the address stays dead.
func (c *Cluster) Kill() {
	c.process.kill()
	c.removeState()
}

// removeState removes what a killed cluster could not. The kubeconfig is in the state directory, which the cluster made for
// itself.
func (c *Cluster) removeState() { _ = os.RemoveAll(filepath.Dir(c.Path)) }

// Pause freezes the cluster: connections stay open and are accepted, and nothing is answered, as from a machine that hangs.
// It returns when the last thread has come to rest, and fails if the cluster has ended.
func (c *Cluster) Pause() error {
	if err := c.send(syscall.SIGSTOP); err != nil {
		return err
	}
	if err := awaitStopped(c.process.command.Process.Pid); err != nil {
		return fmt.Errorf("wait for devcluster to stop: %w", err)
	}

	return nil
}

// Resume lets a paused cluster go on. It fails if the cluster has ended.
func (c *Cluster) Resume() error { return c.send(syscall.SIGCONT) }

func (c *Cluster) send(signal syscall.Signal) error {
	if err := c.process.signal(signal); err != nil {
		return fmt.Errorf("send %s to devcluster: %w", signal, err)
	}

	return nil
}
