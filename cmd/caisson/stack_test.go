package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/caisson-dev/caisson/cmd/caisson/internal/follow"
	"github.com/caisson-dev/caisson/cmd/caisson/internal/tree"
	"github.com/caisson-dev/caisson/cmd/caisson/internal/tree/treetest"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// scene is the Stack of the example at a moment.
func scene(name string) *v1alpha1.Stack {
	for _, s := range treetest.Life() {
		if s.Name == name {
			return s.Stack
		}
	}
	return nil
}

// connectTo makes commands talk to a cluster with objects and, if they are given, other
// manners. It returns the client and where the flags of the last command are.
func (s *session) connectTo(manners interceptor.Funcs, objects ...client.Object) (client.WithWatch, *clusterFlags) {
	s.t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(s.t, v1alpha1.AddToScheme(scheme))
	inner := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.Stack{}).Build()
	c := interceptor.NewClient(inner, manners)
	used := &clusterFlags{}
	s.env.connect = func(f clusterFlags) (client.WithWatch, string, error) {
		*used = f
		return c, "platform", nil
	}
	return c, used
}

// ageless takes ages out of what is shown.
func ageless(text string) string {
	text = regexp.MustCompile(`(sinceSeconds"?: )\d+`).ReplaceAllString(text, "${1}0")
	text = regexp.MustCompile(`(?m)^ +\d+\.\ds  `).ReplaceAllString(text, "   0.0s  ")
	return regexp.MustCompile(` \d+d `).ReplaceAllString(text, " 0d ")
}

func TestStackTree(t *testing.T) {
	for name, args := range map[string][]string{
		"tree":      {"stack", "tree", "platform"},
		"tree-json": {"stack", "tree", "platform", "-o", "json"},
		"tree-yaml": {"stack", "tree", "platform", "-o", "yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSession(t)
			s.connectTo(interceptor.Funcs{}, scene("secret"))
			s.golden(name, ageless(s.ok(args...)))
		})
	}
}

func TestStackTreeFlagsOfTheCluster(t *testing.T) {
	s := newSession(t)
	_, used := s.connectTo(interceptor.Funcs{}, scene("available"))
	s.ok("stack", "tree", "platform", "-n", "ns", "--context", "c", "--kubeconfig", "/k")
	require.Equal(t, clusterFlags{kubeconfig: "/k", context: "c", namespace: "ns"}, *used)
}

func TestStackTreeUntil(t *testing.T) {
	s := newSession(t)
	watching := make(chan struct{})
	c, _ := s.connectTo(interceptor.Funcs{
		Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
			w, err := c.Watch(ctx, list, opts...)
			close(watching)
			return w, err
		},
	}, treetest.Stack())
	go func() {
		<-watching
		for _, name := range []string{"first", "secret", "available"} {
			stack := &v1alpha1.Stack{}
			_ = c.Get(t.Context(), types.NamespacedName{Namespace: "platform", Name: "platform"}, stack)
			stack.Status = scene(name).Status
			_ = c.Status().Update(t.Context(), stack)
		}
	}()
	s.golden("tree-until", ageless(s.ok("stack", "tree", "platform", "--until", "available", "--timeout", "1m")))
}

func TestStackTreeUntilGone(t *testing.T) {
	s := newSession(t)
	s.connectTo(interceptor.Funcs{})
	require.Contains(t, s.ok("stack", "tree", "platform", "--until", "gone"), "Stack platform/platform  Gone")
}

func TestStackTreeTimeout(t *testing.T) {
	s := newSession(t)
	s.connectTo(interceptor.Funcs{}, scene("secret"))
	require.Contains(t, s.fails("stack", "tree", "platform", "--until", "available", "--timeout", "50ms"),
		"stack platform/platform is not available after 50ms: it is UserActionRequired; ")
	s.ok("stack", "tree", "platform", "--watch", "--timeout", "50ms")
}

func TestStackTreeInterrupted(t *testing.T) {
	cases := map[string]struct {
		reason string
		args   []string
		code   int
		want   string
	}{
		"Watch": {reason: "that is how one stops to watch", args: []string{"--watch"}, code: 0},
		"Until": {reason: "a script must not take it for available", args: []string{"--until", "available"}, code: 1, want: "Interrupted.\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newSession(t)
			ctx, interrupt := context.WithCancel(t.Context())
			s.connectTo(interceptor.Funcs{
				Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
					defer interrupt()
					return c.Watch(ctx, list, opts...)
				},
			}, scene("secret"))
			require.Equal(t, tc.code, run(ctx, s.env, append([]string{"stack", "tree", "platform"}, tc.args...)), tc.reason)
			require.Equal(t, tc.want, s.errOut.String(), tc.reason)
		})
	}
}

func TestStackTreeErrors(t *testing.T) {
	stacks := schema.GroupResource{Group: "caisson.dev", Resource: "stacks"}
	cases := map[string]struct {
		reason  string
		args    []string
		failure error
		want    string
	}{
		"NoName":       {reason: "what is missing is named", want: "takes 1 arguments ([NAME]) and got 0; see 'caisson stack tree --help'"},
		"Until":        {reason: "the choices are named", args: []string{"x", "--until", "ready"}, want: `--until "ready" is nothing that can be waited for; give available or gone`},
		"FollowAsJSON": {reason: "a tree that is redrawn is no JSON", args: []string{"x", "--watch", "-o", "json"}, want: "can be followed as a table only; leave out -o, or --watch and --until"},
		"NotFound":     {reason: "the namespace is in the name", args: []string{"x"}, want: "there is no stack platform/x; list them with: kubectl get stacks -A"},
		"NotFoundYet":  {reason: "when following, too", args: []string{"x", "--watch"}, want: "there is no stack platform/x; "},
		"NoCRD":        {reason: "Caisson is not installed", args: []string{"x"}, failure: &meta.NoKindMatchError{}, want: "the cluster does not know Stacks; install them with: kubectl apply -k deploy"},
		"Forbidden":    {reason: "who can help is an admin", args: []string{"x"}, failure: apierrors.NewForbidden(stacks, "x", nil), want: "you may not read stack platform/x; ask for the right"},
		"Expired":      {reason: "a login has expired", args: []string{"x", "-w"}, failure: apierrors.NewUnauthorized("no"), want: "the cluster does not accept these credentials; log in again"},
		"Away":         {reason: "the cluster does not run", args: []string{"x"}, failure: errors.New("connection refused"), want: "cannot read stack platform/x: connection refused; check that the cluster runs"},
		"AwayYet":      {reason: "when following, too", args: []string{"x", "-w"}, failure: errors.New("connection refused"), want: "connection refused; check that the cluster runs"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newSession(t)
			manners := interceptor.Funcs{}
			if tc.failure != nil {
				manners.Get = func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
					return tc.failure
				}
			}
			s.connectTo(manners)
			require.Contains(t, s.fails(append([]string{"stack", "tree"}, tc.args...)...), tc.want, tc.reason)
			require.Empty(t, s.out.String())
		})
	}
}

func TestReadFailureOfADeletedStack(t *testing.T) {
	err := readFailure(follow.ErrDeleted, types.NamespacedName{Namespace: "a", Name: "b"})
	require.EqualError(t, err, "stack a/b was deleted; apply it again")
}

const kubeconfigText = `
clusters: [{name: one, cluster: {server: "https://127.0.0.1:1"}}]
contexts:
- {name: one, context: {cluster: one, user: u, namespace: from-the-context}}
- {name: two, context: {cluster: one, user: u}}
users: [{name: u, user: {token: secret-token}}]
current-context: one
`

func TestConnect(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(path, []byte(kubeconfigText), 0o600))
	cases := map[string]struct {
		reason    string
		flags     clusterFlags
		namespace string
		want      string
	}{
		"Current":      {reason: "as kubectl does it", flags: clusterFlags{kubeconfig: path}, namespace: "from-the-context"},
		"Context":      {reason: "a context without a namespace has the default one", flags: clusterFlags{kubeconfig: path, context: "two"}, namespace: "default"},
		"Namespace":    {reason: "the flag wins", flags: clusterFlags{kubeconfig: path, namespace: "mine"}, namespace: "mine"},
		"NoFile":       {reason: "the file is named", flags: clusterFlags{kubeconfig: path + "x"}, want: path + "x: no such file or directory; name a cluster with --kubeconfig or $KUBECONFIG"},
		"WrongContext": {reason: "the context is named", flags: clusterFlags{kubeconfig: path, context: "three"}, want: `context "three" does not exist; name a cluster`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c, namespace, err := connect(tc.flags)
			if tc.want != "" {
				require.ErrorContains(t, err, tc.want, tc.reason)
				require.NotContains(t, err.Error(), "secret-token")
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.namespace, namespace, tc.reason)
			require.NotNil(t, c)
		})
	}
}

// Without any kubeconfig there is no cluster; what a library would take instead is not
// what the person meant.
func TestNoKubeconfig(t *testing.T) {
	s := newSession(t)
	s.env.connect = connect
	t.Setenv("KUBECONFIG", "")
	t.Setenv("HOME", t.TempDir())
	require.Contains(t, s.fails("stack", "tree", "x"), "there is no usable kubeconfig: ")

	require.NoError(t, os.WriteFile("kubeconfig", []byte(kubeconfigText), 0o600))
	require.Contains(t, s.fails("stack", "tree", "x", "--kubeconfig", "kubeconfig"), "cannot read stack from-the-context/x: ", "a cluster that does not run")
}

func TestPipesAreNoTerminals(t *testing.T) {
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer func() { _ = errors.Join(read.Close(), write.Close()) }()
	for _, out := range []io.Writer{io.Discard, write} {
		require.Equal(t, tree.Style{}, styleOf(out))
		require.IsType(t, &follow.LineScreen{}, newScreen(out, time.Now()))
	}
}
