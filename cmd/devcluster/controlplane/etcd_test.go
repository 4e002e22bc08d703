package controlplane

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"k8s.io/client-go/util/keyutil"
)

// TestEtcd runs a real etcd twice on the same directory. Not parallel: it sets TMPDIR, for a path that sockets can have.
func TestEtcd(t *testing.T) {
	t.Setenv("TMPDIR", "/tmp")
	dir, err := os.MkdirTemp("", "etcd-") //nolint:usetesting // Its paths are too long for sockets.
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })

	first, err := startEtcd(t.Context(), dir)
	require.NoError(t, err)
	require.Equal(t, "unix://"+filepath.Join(dir, "run", "etcd.sock"), first.endpoint)
	info, err := os.Stat(filepath.Join(dir, "run"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm(), "nobody else may connect")
	_, err = first.server.Server.Put(t.Context(), &etcdserverpb.PutRequest{Key: []byte("k"), Value: []byte("v")})
	require.NoError(t, err)
	first.stop()
	require.NoDirExists(t, filepath.Join(dir, "run"))

	second, err := startEtcd(t.Context(), dir)
	require.NoError(t, err)
	defer second.stop()
	answer, err := second.server.Server.Range(t.Context(), &etcdserverpb.RangeRequest{Key: []byte("k")})
	require.NoError(t, err)
	require.Len(t, answer.Kvs, 1, "what was written is there again")
}

// TestStartFails covers what can be wrong with a directory before kube-apiserver, which exists once a process, is involved.
func TestStartFails(t *testing.T) {
	t.Parallel()

	cases := map[string]struct {
		reason  string
		prepare func(t *testing.T, dir string)
		want    string
	}{
		"NoDirectory": {"the caller makes it", func(t *testing.T, dir string) { t.Helper(); require.NoError(t, os.Remove(dir)) }, "write token file"},
		"BrokenKey":   {"a key that cannot be read is not replaced", func(t *testing.T, dir string) { t.Helper(); write(t, dir, "serviceaccount.key", "no key") }, "read ServiceAccount key"},
		"RSAKey":      {"nor is one of another kind", func(t *testing.T, dir string) { t.Helper(); write(t, dir, "serviceaccount.key", rsaKey(t)) }, "holds a *rsa.PrivateKey"},
		"EtcdIsAFile": {"no place for the data", func(t *testing.T, dir string) { t.Helper(); write(t, dir, "etcd", "") }, "start etcd"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			dir := t.TempDir()
			c.prepare(t, dir)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := Start(ctx, Options{Dir: dir, Node: "node"})
			require.ErrorContains(t, err, c.want, c.reason)
		})
	}
}

// rsaKey makes a key of the kind that other control planes use.
func rsaKey(t *testing.T) string {
	t.Helper()

	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	data, err := keyutil.MarshalPrivateKeyToPEM(key)
	require.NoError(t, err)

	return string(data)
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()

	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
}
