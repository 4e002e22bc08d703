package faults

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/internal/testenv"
)

const (
	operatorNamespace = "caisson-system"
	operatorAccount   = "caisson-operator"
	// patience is how long a phase may take. It is not what a phase takes: that is printed.
	patience = 3 * time.Minute
	// parkedFor is how long a Stack may be seen parked before it counts as stuck: what
	// revives it by itself comes after minutes.
	parkedFor = 15 * time.Second
	// staysFor is how long an end that is not as wanted is looked at before it counts.
	staysFor  = 20 * time.Second
	pollEvery = 25 * time.Millisecond
)

// lane is a home with an operator, which runs one Stack after the other. Lanes share the
// workload cluster, where each has namespaces of its own.
type lane struct {
	bench    *bench
	name     string
	dir      string
	token    string
	relay    string
	home     *testenv.Cluster
	admin    client.Client
	workload *proxy
	replicas [2]*replica
	script   script
	work     sync.WaitGroup
	cleanups []func()
	// mode is what the operators were started for, round counts the namespaces that were
	// used up by runs that went wrong.
	mode  mode
	round int

	mu      sync.Mutex
	leader  *replica
	leaders int
}

// mode is how many operators there are: one without a lease, which is quicker to start
// again, or two.
type mode string

const (
	modeSolo mode = "one operator"
	modePair mode = "two replicas"
)

func modeOf(f fault) mode {
	if f == faultLeader {
		return modePair
	}
	return modeSolo
}

func newLane(b *bench, number int) (*lane, error) {
	l := &lane{bench: b, name: fmt.Sprintf("lane-%c", 'a'+number)}
	var err error
	// A socket's path must be short, so that it is not in a test's own directory.
	if l.dir, err = os.MkdirTemp("", "faults-"); err != nil {
		return l, err
	}
	l.cleanups = append(l.cleanups, func() { _ = os.RemoveAll(l.dir) })
	if l.home, err = testenv.StartMain(); err != nil {
		return l, err
	}
	l.cleanups = append(l.cleanups, l.home.Stop)
	if l.admin, err = l.home.Client(b.scheme); err != nil {
		return l, err
	}
	ctx := context.Background()
	for _, path := range []string{"deploy/crds", "deploy/rbac.yaml"} {
		if _, err := testenv.ApplyPath(ctx, l.admin, filepath.Join(b.root, path)); err != nil {
			return l, err
		}
	}
	// All of the runs take longer than the hour for which a token is good by default.
	lifetime := int64(24 * time.Hour / time.Second)
	account, request := &corev1.ServiceAccount{}, &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &lifetime}}
	account.Namespace, account.Name = operatorNamespace, operatorAccount
	if err := l.admin.SubResource("token").Create(ctx, account, request); err != nil {
		return l, fmt.Errorf("mint the operator's token: %w", err)
	}
	l.token = request.Status.Token
	listener, err := net.Listen("unix", filepath.Join(l.dir, "relay")) // It is closed.
	if err != nil {
		return l, err
	}
	l.cleanups = append(l.cleanups, func() { _ = listener.Close() })
	l.work.Go(func() { l.answerRelays(listener) })
	if l.relay, err = writeRelay(l.dir, listener.Addr().String(), b.worker); err != nil {
		return l, err
	}
	if l.workload, err = newProxy(l, "workload", b.workload, nil); err != nil {
		return l, err
	}
	for i := range l.replicas {
		if l.replicas[i], err = newReplica(l, fmt.Sprintf("replica-%d", i+1)); err != nil {
			return l, err
		}
		l.cleanups = append(l.cleanups, l.replicas[i].stop)
	}
	if _, err := testenv.Apply(ctx, l.admin, b.fill(modulesYAML, l)); err != nil {
		return l, err
	}
	return l, l.furnish(ctx)
}

// close ends everything of the lane.
func (l *lane) close() {
	for i := len(l.cleanups) - 1; i >= 0; i-- {
		l.cleanups[i]()
	}
}

// tenant and place are the namespaces of the Stack: at home and on the workload cluster.
func (l *lane) tenant() string { return fmt.Sprintf("%s-%d", l.name, l.round) }
func (l *lane) place() string  { return fmt.Sprintf("%s-%d", l.name, l.round) }

func (l *lane) key() client.ObjectKey {
	return client.ObjectKey{Namespace: l.tenant(), Name: "platform"}
}

// furnish makes what has to be there before a Stack.
func (l *lane) furnish(ctx context.Context) error {
	if _, err := testenv.Apply(ctx, l.admin, l.bench.fill(tenantYAML, l)); err != nil {
		return err
	}
	kubeconfig, err := l.workload.kubeconfig(l.bench.workload.Kubeconfig, "")
	if err != nil {
		return err
	}
	for name, value := range map[string][]byte{"workload-kubeconfig": kubeconfig, "cloud": []byte("a-secret-of-the-cloud")} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: l.tenant(), Name: name}, Data: map[string][]byte{"key": value}}
		if err := l.admin.Create(ctx, secret); err != nil {
			return err
		}
	}
	_, err = testenv.Apply(ctx, l.bench.admin, "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+l.place()+"}\n")
	return err
}

// ensure starts the operators that a run needs.
func (l *lane) ensure(ctx context.Context, m mode) error {
	if l.mode == m {
		return nil
	}
	for _, r := range l.replicas {
		r.stop()
	}
	l.mode = m
	first := l.replicas[0]
	if m == modeSolo {
		l.leads(first)
		if err := first.start("false"); err != nil {
			return err
		}
	} else {
		l.mu.Lock()
		l.leader = nil
		l.mu.Unlock()
		for _, r := range l.replicas {
			if err := r.start("true"); err != nil {
				return err
			}
		}
	}
	return await(ctx, "the module is loaded", func() (bool, string) {
		if l.currentLeader() == nil {
			return false, "nobody leads"
		}
		module := &v1alpha1.Module{}
		err := l.admin.Get(ctx, client.ObjectKey{Name: "keeper"}, module)
		return err == nil && meta.IsStatusConditionTrue(module.Status.Conditions, v1alpha1.ConditionReady), fmt.Sprint(err, module.Status.Conditions)
	})
}

// enter makes the change that a phase begins with.
func (l *lane) enter(ctx context.Context, p phase) error {
	stack := &v1alpha1.Stack{}
	stack.Namespace, stack.Name = l.key().Namespace, l.key().Name
	if p == phaseDown {
		return l.admin.Delete(ctx, stack)
	}
	text := l.bench.fill(stackYAML, l)
	if p == phaseUp {
		if err := yaml.UnmarshalStrict([]byte(text), &stack.Spec); err != nil {
			return err
		}
		return l.admin.Create(ctx, stack)
	}
	for _, edit := range changes() {
		if !strings.Contains(text, edit[0]) {
			return fmt.Errorf("the Stack has no %q to change", edit[0])
		}
		text = strings.ReplaceAll(text, edit[0], edit[1])
	}
	for {
		if err := l.admin.Get(ctx, l.key(), stack); err != nil {
			return err
		}
		stack.Spec = v1alpha1.StackSpec{}
		if err := yaml.UnmarshalStrict([]byte(text), &stack.Spec); err != nil {
			return err
		}
		if err := l.admin.Update(ctx, stack); !apierrors.IsConflict(err) {
			return err
		}
	}
}

// errStuck says that a phase did not end.
var errStuck = errors.New("it does not converge")

// settled waits until the phase has ended, and reports what there is then. It goes on
// until that is what is wanted, because some things follow a moment after the status; nil
// takes whatever stays the same for a second.
func (l *lane) settled(ctx context.Context, p phase, want []string) ([]string, error) {
	var parked, same time.Time
	var last []string
	why := ""
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(pollEvery) {
		done, isParked, seen, err := l.ended(ctx, p)
		if err != nil {
			return nil, err
		}
		why = seen
		if isParked {
			if parked.IsZero() {
				parked = time.Now()
			}
			if time.Since(parked) > parkedFor {
				return nil, fmt.Errorf("%w: it is parked: %s", errStuck, seen)
			}
		} else {
			parked = time.Time{}
		}
		if !done {
			last = nil
			continue
		}
		now, err := l.fingerprint(ctx)
		if err != nil {
			return nil, err
		}
		if want != nil && len(difference(want, now)) == 0 {
			return now, nil
		}
		if len(last) == 0 || len(difference(last, now)) > 0 {
			last, same = now, time.Now()
		}
		settle := time.Second
		if want != nil {
			settle = staysFor
		}
		if time.Since(same) > settle {
			return now, nil
		}
	}
	if last != nil {
		return last, nil
	}
	return nil, fmt.Errorf("%w: %s", errStuck, why)
}

// ended looks at the Stack.
func (l *lane) ended(ctx context.Context, p phase) (done, parked bool, seen string, err error) {
	stack := &v1alpha1.Stack{}
	err = l.admin.Get(ctx, l.key(), stack)
	if p == phaseDown && apierrors.IsNotFound(err) {
		return true, false, "", nil
	}
	if err != nil {
		return false, false, "", err
	}
	for _, c := range stack.Status.Conditions {
		seen += fmt.Sprintf("%s=%s %s: %s; ", c.Type, c.Status, c.Reason, c.Message)
	}
	current := stack.Status.ObservedGeneration == stack.Generation
	available := meta.FindStatusCondition(stack.Status.Conditions, v1alpha1.ConditionAvailable)
	done = p != phaseDown && current && available != nil && available.Status == metav1.ConditionTrue && available.ObservedGeneration == stack.Generation
	return done, stack.Status.Parked != nil && current, seen, nil
}

// abandon gives the Stack up after a run that went wrong, and moves to other namespaces.
func (l *lane) abandon(ctx context.Context) error {
	l.script.begin(nil)
	for _, r := range l.replicas {
		r.signal(syscall.SIGCONT)
	}
	stack := &v1alpha1.Stack{}
	if err := l.admin.Get(ctx, l.key(), stack); err == nil {
		_ = l.admin.Delete(ctx, stack)
		gone := await(ctx, "the Stack is gone", func() (bool, string) {
			return apierrors.IsNotFound(l.admin.Get(ctx, l.key(), stack)), "it is there"
		})
		if gone != nil && l.admin.Get(ctx, l.key(), stack) == nil {
			stack.Finalizers = nil
			if err := l.admin.Update(ctx, stack); err != nil {
				return err
			}
		}
	}
	// What it left is not to be taken for a leftover of the next.
	err := l.admin.DeleteAllOf(ctx, &corev1.Secret{}, client.InNamespace(operatorNamespace), client.HasLabels{ownerLabel})
	l.round++
	return errors.Join(err, l.furnish(ctx))
}

// await polls until something is so.
func await(ctx context.Context, what string, look func() (bool, string)) error {
	deadline := time.Now().Add(patience)
	for {
		done, seen := look()
		if done {
			return nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return fmt.Errorf("waited in vain until %s: %s", what, seen)
		}
		time.Sleep(pollEvery)
	}
}
