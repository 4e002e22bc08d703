package devenv

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMain lets this test program play the programs of an environment.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") {
		if err := play(os.Args[1:]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// play is what this program does in a part.
func play(args []string) error {
	flags := map[string]string{}
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		flags[name] = value
	}
	switch {
	case args[0] == "maker":
		return playMaker(args[1], args[2])
	case flags["--listen"] != "":
		return playServer(flags["--listen"])
	case flags["--health-probe-bind-address"] != "":
		fmt.Println("environment:", os.Environ())
		fmt.Println("arguments:", args)
		if err := playServer(flags["--health-probe-bind-address"], flags["--metrics-bind-address"]); err != nil {
			return err
		}
		// An operator takes a while to end; whoever ends at the same time ends before it.
		time.Sleep(200 * time.Millisecond)
		return end(os.Getenv("HOME"), "operator")
	default:
		return playCluster(flags["--name"], flags["--kubeconfig"])
	}
}

// playMaker makes an environment with one cluster, for a life of its own or with this
// process.
func playMaker(dir, life string) error {
	lifetime := WithParent
	if life == "detached" {
		lifetime = Detached
	}
	env, err := New(dir, lifetime)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for _, name := range []string{"home", "stubborn"} {
		if _, err := env.StartCluster(context.Background(), name, self); err != nil {
			return err
		}
	}
	if lifetime == Detached {
		return nil
	}
	select {} // until it is killed
}

func playServer(addresses ...string) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	for _, address := range addresses {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		go func() {
			server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
			_ = server.Serve(listener)
		}()
	}
	<-signals
	return nil
}

// playCluster plays the control plane that its name says.
func playCluster(name, kubeconfig string) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	switch name {
	case "broken":
		for i := range 20 {
			fmt.Println("line", i)
		}
		return fmt.Errorf("the port is taken")
	case "silent":
		<-signals
		return nil
	}
	if err := os.WriteFile(kubeconfig, []byte(name), 0o600); err != nil {
		return err
	}
	<-signals
	if name == "stubborn" {
		select {}
	}
	fmt.Println("ended in order")
	return end(filepath.Dir(kubeconfig), name)
}

// endsFile is where programs write that they end, beside the directory of the
// environment.
func endsFile(dir string) string { return dir + ".ends" }

func end(dir, name string) error {
	file, err := os.OpenFile(endsFile(dir), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	_, err = fmt.Fprintln(file, name)
	return err
}

// self is the path of this program.
func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	require.NoError(t, err)
	return path
}

// newEnv makes an environment that ends with the test.
func newEnv(t *testing.T, lifetime Lifetime) *Env {
	t.Helper()
	dir := t.TempDir()
	env, err := New(dir, lifetime)
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, p := range env.State().Processes {
			require.NoError(t, p.Kill())
		}
	})
	return env
}

// patience is how long something that must happen may take.
const patience = 20 * time.Second

// requireGone waits until a process is not there any more.
func requireGone(t *testing.T, p *Process) {
	t.Helper()
	require.Eventually(t, func() bool { return !p.running() }, patience, 10*time.Millisecond, "%s still runs", p.Name)
}
