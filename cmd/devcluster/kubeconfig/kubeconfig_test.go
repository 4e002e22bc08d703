package kubeconfig

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"
)

func access() Access {
	return Access{Name: "home", Server: "https://127.0.0.1:1", CA: []byte("-----BEGIN CERTIFICATE-----\n"), Token: "secret"}
}

func TestEncode(t *testing.T) {
	t.Parallel()

	data, err := Encode(access())
	require.NoError(t, err)
	config, err := clientcmd.Load(data)
	require.NoError(t, err)
	require.Equal(t, "devcluster-home", config.CurrentContext)
	used := config.Contexts[config.CurrentContext]
	require.Equal(t, "https://127.0.0.1:1", config.Clusters[used.Cluster].Server)
	require.Equal(t, access().CA, config.Clusters[used.Cluster].CertificateAuthorityData)
	require.Empty(t, config.Clusters[used.Cluster].CertificateAuthority, "no path")
	require.Equal(t, "secret", config.AuthInfos[used.AuthInfo].Token)
	require.Nil(t, config.AuthInfos[used.AuthInfo].Exec, "no command")
}

func TestPrepare(t *testing.T) {
	t.Parallel()

	ours, err := Encode(access())
	require.NoError(t, err)
	cases := map[string]struct {
		reason string
		before []byte
		want   error
	}{
		"Nothing":    {"the usual case", nil, nil},
		"Ours":       {"a killed run left it", ours, nil},
		"Foreign":    {"someone's own kubeconfig", []byte("apiVersion: v1\nkind: Config\ncurrent-context: production\n"), ErrForeign},
		"NoContext":  {"not ours either", []byte("apiVersion: v1\nkind: Config\n"), ErrForeign},
		"Unreadable": {"not even a kubeconfig", []byte("token: [secret"), ErrForeign},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			path := filepath.Join(t.TempDir(), "sub", "kubeconfig")
			if c.before != nil {
				require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))
				require.NoError(t, os.WriteFile(path, c.before, 0o600))
			}
			err := Prepare(path)
			require.ErrorIs(t, err, c.want, c.reason)
			if c.want == nil {
				require.DirExists(t, filepath.Dir(path), c.reason)
				require.NoFileExists(t, path, c.reason)

				return
			}
			require.NotContains(t, err.Error(), "secret", c.reason)
			after, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, c.before, after, c.reason)
		})
	}
}

func TestPrepareFails(t *testing.T) {
	t.Parallel()

	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.ErrorContains(t, Prepare(filepath.Join(file, "kubeconfig")), "create directory of kubeconfig")
	require.ErrorContains(t, Prepare(t.TempDir()), "read existing kubeconfig")
}

func TestWrite(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	path := filepath.Join(dir, "kubeconfig")
	require.NoError(t, Write(path, []byte("data")))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode(), "it holds a token")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1, "no temporary file stays")

	require.ErrorContains(t, Write(filepath.Join(dir, "absent", "kubeconfig"), nil), "create kubeconfig")
	require.ErrorContains(t, Write(dir, nil), "put kubeconfig in place")
	left, err = os.ReadDir(filepath.Dir(dir))
	require.NoError(t, err)
	require.Len(t, left, 1, "not even after a failure")
}

// TestWriteHammer reads while others write: a reader never sees a part.
func TestWriteHammer(t *testing.T) {
	t.Parallel()

	path := filepath.Join(t.TempDir(), "kubeconfig")
	whole := make([]byte, 64<<10)
	require.NoError(t, Write(path, whole))
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 50 {
				if err := Write(path, whole); err != nil {
					t.Error(err)
				}
			}
		})
		group.Go(func() {
			for range 50 {
				if data, err := os.ReadFile(path); err != nil || len(data) != len(whole) {
					t.Errorf("read %d bytes: %v", len(data), err)
				}
			}
		})
	}
	group.Wait()
}
