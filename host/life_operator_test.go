package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/internal/testenv"
	"github.com/caisson-dev/caisson/host/sandbox"
)

// replica is an operator as a process of its own.
type replica struct {
	command *exec.Cmd
	log     *syncBuffer
	exited  chan struct{}
}

// replicas are those of a test. They end after everything that needs one to go.
type replicas struct {
	under string
	all   []*replica
}

func (o *replicas) end(t *testing.T) {
	for _, r := range o.all {
		r.kill()
		if t.Failed() {
			t.Logf("the end of an operator's log:\n%s", r.log.tail(4<<10))
		}
	}
}

// lifeOperator: an operator that is killed in the middle of its work loses nothing and
// doubles nothing, be it restarted or replaced; the same holds for its workers.
func lifeOperator(t *testing.T, r *rig) {
	site := newSite(t, r)
	l, replicas := site.life(t, "operator"), &replicas{under: t.TempDir()}
	t.Cleanup(func() { replicas.end(t) })
	first := replicas.start(t, site, "first")
	site.lifeCatalogue(t, "life", r.registry)
	key, trace := l.start(t, "web", conditionalStack)
	site.awaitStack(t, key, "True/Provisioned")
	before := l.standing(t)
	require.Len(t, before, 7, "two applications: an entry, a release and a Deployment of each, and a registration\n%s", strings.Join(before, "\n"))

	l.killInMiddle(t, key, trace, first)
	trace.mark(t, "the operator is started again")
	second := replicas.start(t, site, "first")
	site.awaitStack(t, key, "True/Provisioned")
	require.Equal(t, before, l.standing(t), "nothing is doubled, lost or orphaned")

	standby := replicas.start(t, site, "standby")
	leader := site.leader(t)
	l.killInMiddle(t, key, trace, second)
	eventually(t, "another leader", func() (bool, string) {
		now := site.leader(t)
		return now != leader && now != "", now
	})
	site.awaitStack(t, key, "True/Provisioned")
	require.Equal(t, before, l.standing(t), "nothing is doubled, lost or orphaned")

	l.killWorker(t, standby)
	trace.mark(t, "it is deleted")
	l.end(t, key)
	l.requireEmptyPlace(t)
	trace.compare(t, "operator-killed")
}

// killWorker kills the process that a module runs in, during a call.
func (l *life) killWorker(t *testing.T, operator *replica) {
	t.Helper()
	l.guestModule(t, "lingers", "")
	lingering, trace := l.start(t, "lingers", hostileStack("lingers", "linger"))
	eventually(t, "a worker at work", func() (bool, string) {
		busy := operator.busyWorkers()
		for _, pid := range busy {
			require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		}
		return len(busy) > 0, "none"
	})
	l.awaitStack(t, lingering, "True/Provisioned")
	trace.compare(t, "worker-killed")
	l.end(t, lingering)
}

// newSite is a home of its own, for operators that are processes, with the registry and
// the workload cluster of the rig.
func newSite(t *testing.T, r *rig) *rig {
	t.Helper()
	home, err := testenv.StartMain()
	require.NoError(t, err)
	t.Cleanup(home.Stop)
	site := *r
	site.home = home
	// Nothing of the operator in this process is to be taken for one of those.
	site.requests, site.log, site.collectors, site.stopped = &requestLog{}, nil, nil, nil
	site.admin, err = client.NewWithWatch(home.Config, client.Options{Scheme: r.admin.Scheme()})
	require.NoError(t, err)
	root, err := testenv.ModuleRoot()
	require.NoError(t, err)
	for _, path := range []string{"deploy/crds", "deploy/rbac.yaml"} {
		_, err := testenv.ApplyPath(t.Context(), site.admin, filepath.Join(root, path))
		require.NoError(t, err)
	}
	return &site
}

// start runs an operator with the identity that we ship. Operators of one name
// below a directory have one cache, as a container that is restarted has.
func (o *replicas) start(t *testing.T, r *rig, name string) *replica {
	t.Helper()
	program := testenv.BuildBinary(t, "./cmd/caisson-operator", "caisson-operator")
	access, err := r.operatorConfig(t.Context())
	require.NoError(t, err)
	config, err := clientcmd.Load(r.home.Kubeconfig)
	require.NoError(t, err)
	for user := range config.AuthInfos {
		config.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: access.BearerToken}
	}
	dir := filepath.Join(o.under, name)
	require.NoError(t, os.MkdirAll(dir, 0o700))
	kubeconfig := filepath.Join(dir, "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*config, kubeconfig))

	started := &replica{log: &syncBuffer{}, exited: make(chan struct{})}
	started.command = exec.CommandContext(context.WithoutCancel(t.Context()), program,
		"--kubeconfig="+kubeconfig, "--namespace="+operatorNamespace, "--worker="+r.worker, "--cache-dir="+filepath.Join(dir, "cache"),
		"--metrics-bind-address=0", "--health-probe-bind-address=0", "--leader-elect-lease=2s", "--verbose")
	started.command.Stdout, started.command.Stderr = started.log, started.log
	require.NoError(t, started.command.Start())
	go func() {
		_ = started.command.Wait()
		close(started.exited)
	}()
	o.all = append(o.all, started)
	return started
}

// kill ends it as a crash would.
func (o *replica) kill() {
	_ = o.command.Process.Kill()
	<-o.exited
}

// leader is who holds the lease.
func (r *rig) leader(t *testing.T) string {
	t.Helper()
	lease := &coordinationv1.Lease{}
	key := client.ObjectKey{Namespace: operatorNamespace, Name: "caisson-operator"}
	if err := r.admin.Get(t.Context(), key, lease); err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// killInMiddle switches the GPUs off and on, and kills the operator as soon as Helm has
// written down that it installs them, and is about to make the objects.
func (l *life) killInMiddle(t *testing.T, key client.ObjectKey, trace *timeline, operator *replica) {
	t.Helper()
	trace.mark(t, "gpu is switched off")
	l.edit(t, key, l.fill(changed(t, conditionalStack, "gpu: true", "gpu: false")))
	l.awaitStack(t, key, "True/Provisioned")
	trace.mark(t, "gpu is switched on, and the operator is killed meanwhile")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	watcher, err := l.workloadAdmin.Watch(ctx, &corev1.SecretList{}, client.InNamespace(l.place), client.MatchingLabels{"owner": "helm", "status": "pending-install"})
	require.NoError(t, err)
	defer watcher.Stop()
	l.edit(t, key, l.fill(conditionalStack))
	for event := range watcher.ResultChan() {
		if event.Type == watch.Added {
			operator.kill()
			return
		}
	}
	t.Fatal("the installation was not seen to begin")
}

// standing is what there is because of the Stacks of a place, in words: entries of
// inventories, registrations, releases and Deployments.
func (l *life) standing(t *testing.T) []string {
	t.Helper()
	var found []string
	secrets := &corev1.SecretList{}
	require.NoError(t, l.admin.List(t.Context(), secrets, client.InNamespace(operatorNamespace), client.HasLabels{"caisson.dev/owner-uid"}))
	for _, s := range secrets.Items {
		entries := 0
		for name, raw := range s.Data {
			if !strings.HasPrefix(name, "application.") {
				continue
			}
			var entry struct {
				Path, Release, Namespace, Version string
				Action                            any
			}
			require.NoError(t, json.Unmarshal(raw, &entry))
			require.Nil(t, entry.Action, "every action is finished")
			found = append(found, fmt.Sprintf("entry %s: release %s/%s %s", entry.Path, entry.Namespace, entry.Release, entry.Version))
			entries++
		}
		if entries == 0 {
			found = append(found, "Secret "+s.Name)
		}
	}
	for _, release := range l.releases(t) {
		fields := strings.Fields(release)
		if fields[2] == "deployed" {
			found = append(found, "release "+fields[0])
		}
	}
	deployments := &appsv1.DeploymentList{}
	require.NoError(t, l.workloadAdmin.List(t.Context(), deployments, client.InNamespace(l.place)))
	for _, d := range deployments.Items {
		require.Equal(t, *d.Spec.Replicas, d.Status.ReadyReplicas, d.Name)
		found = append(found, "Deployment "+d.Name)
	}
	slices.Sort(found)
	return found
}

// busyWorkers lists the workers of an operator that compute: those with a thread that
// runs. The state of the process itself is that of its first thread only.
func (o *replica) busyWorkers() []int {
	return slices.DeleteFunc(workersOf(o.command.Process.Pid), func(pid int) bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/[0-9]*/stat", pid))
		return err != nil || !slices.ContainsFunc(threads, func(path string) bool {
			stat, err := os.ReadFile(path)
			return err == nil && bytes.Contains(stat, []byte(") R "))
		})
	})
}

// workersOf lists the workers of an operator: its descendants that have the argument of
// one. The process that starts them has another.
func workersOf(operator int) []int {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", operator))
	if err != nil {
		return nil
	}
	var found []int
	for _, list := range lists {
		raw, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		for _, field := range strings.Fields(string(raw)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				continue
			}
			if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && bytes.HasSuffix(line, []byte("\x00"+sandbox.WorkerArgument+"\x00")) {
				found = append(found, pid)
			}
			found = append(found, workersOf(pid)...)
		}
	}
	return found
}
