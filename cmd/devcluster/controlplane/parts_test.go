package controlplane

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
)

func TestCredentials(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	first, err := newCredentials(dir)
	require.NoError(t, err)
	second, err := newCredentials(dir)
	require.NoError(t, err)
	require.NotEqual(t, first.adminToken, second.adminToken, "one for each start")
	require.Len(t, first.adminToken, 2*tokenBytes)
	require.True(t, first.accountKey.Equal(second.accountKey), "tokens in the state stay valid")

	for _, path := range []string{second.tokenFile, second.accountKeyFile} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode(), path)
	}
	data, err := os.ReadFile(second.tokenFile)
	require.NoError(t, err)
	require.Equal(t, second.adminToken+",devcluster-admin,devcluster-admin,system:masters\n", string(data))

	require.NoError(t, os.WriteFile(second.accountKeyFile, []byte("no key"), 0o600))
	_, err = newCredentials(dir)
	require.ErrorContains(t, err, "read ServiceAccount key")
	_, err = newCredentials(filepath.Join(dir, "absent"))
	require.ErrorContains(t, err, "write token file")
}

func TestSocketDir(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())

	short, err := os.MkdirTemp("", "s") //nolint:usetesting // It is about short paths.
	require.NoError(t, err)
	sockets, err := socketDir(short)
	require.NoError(t, err)
	require.Equal(t, short, filepath.Dir(sockets))
	require.NoError(t, os.WriteFile(filepath.Join(sockets, "etcd.sock"), nil, 0o600))
	again, err := socketDir(short)
	require.NoError(t, err)
	require.NoFileExists(t, filepath.Join(again, "etcd.sock"), "a killed run's socket would be in the way")

	long := filepath.Join(t.TempDir(), strings.Repeat("x", maxSocketPath))
	require.NoError(t, os.Mkdir(long, 0o700))
	elsewhere, err := socketDir(long)
	require.NoError(t, err)
	require.NotContains(t, elsewhere, "xxx")
	require.DirExists(t, elsewhere)

	_, err = socketDir(filepath.Join(short, "absent"))
	require.ErrorContains(t, err, "create directory for sockets")
}

func TestAwait(t *testing.T) {
	t.Parallel()

	broken := errors.New("server broke")
	cases := map[string]struct {
		reason string
		tries  int
		failed error
		limit  time.Duration
		want   string
	}{
		"AtOnce":  {"no waiting without need", 1, nil, time.Minute, ""},
		"Later":   {"it is tried again", 3, nil, time.Minute, ""},
		"Failed":  {"a dead server will never be ready", 1 << 30, broken, time.Minute, "server broke"},
		"TooLate": {"the error says what was missing, and why", 1 << 30, nil, 10 * time.Millisecond, "waiting for rain: context deadline exceeded (last: not yet)"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			failed := make(chan error, 1)
			if c.failed != nil {
				failed <- c.failed
			}
			ctx, cancel := context.WithTimeout(t.Context(), c.limit)
			defer cancel()
			tries := 0
			err := await(ctx, failed, check{what: "rain", try: func(context.Context) error {
				if tries++; tries < c.tries {
					return errNotYet
				}

				return nil
			}})
			if c.want == "" {
				require.NoError(t, err, c.reason)
				require.Equal(t, c.tries, tries, c.reason)

				return
			}
			require.EqualError(t, err, c.want, c.reason)
		})
	}
}

func TestUsable(t *testing.T) {
	t.Parallel()

	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "default"}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
	tainted := node.DeepCopy()
	tainted.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}
	admin := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "admin"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}}}}
	empty := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "admin"}}
	cases := map[string]struct {
		reason  string
		objects []runtime.Object
		synced  bool
		missing []string
	}{
		"Everything":  {"a cluster to use", []runtime.Object{account, node, admin}, true, nil},
		"Nothing":     {"the API alone is no cluster", nil, false, []string{"the default ServiceAccount", "node node", "aggregated ClusterRoles", "the garbage collector"}},
		"Tainted":     {"no pod could be bound", []runtime.Object{account, tainted, admin}, true, []string{"node node"}},
		"EmptyRole":   {"binding it would grant nothing", []runtime.Object{account, node, empty}, true, []string{"aggregated ClusterRoles"}},
		"NoCollector": {"owned objects would stay", []runtime.Object{account, node, admin}, false, []string{"the garbage collector"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var missing []string
			for _, wanted := range usable(fake.NewClientset(c.objects...), "node", func() bool { return c.synced }) {
				if wanted.try(t.Context()) != nil {
					missing = append(missing, wanted.what)
				}
			}
			require.Equal(t, c.missing, missing, c.reason)
		})
	}
}
