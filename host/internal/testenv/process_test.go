package testenv

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHead(t *testing.T) {
	t.Parallel()

	h := newHead()
	_, err := h.Write([]byte("one"))
	require.NoError(t, err)
	select {
	case <-h.line:
		require.Fail(t, "half a line is no line")
	default:
	}
	for _, text := range []string{" line\nand", " more\n", "third\n"} {
		written, err := h.Write([]byte(text))
		require.NoError(t, err)
		require.Equal(t, len(text), written)
	}
	<-h.line
	require.Equal(t, "one line", string(h.firstLine()))
	require.Equal(t, "one line\nand more\nthird\n", h.String())
}

// TestHeadHammer writes and reads from many goroutines: nothing is lost up to the bound, and nothing is kept above it.
func TestHeadHammer(t *testing.T) {
	t.Parallel()

	h := newHead()
	text := strings.Repeat("x", 1023) + "\n"
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 16 {
				if written, err := h.Write([]byte(text)); err != nil || written != len(text) {
					t.Errorf("wrote %d: %v", written, err)
				}
				_ = h.String()
				_ = h.firstLine()
			}
		})
	}
	group.Wait()
	<-h.line
	require.Equal(t, strings.Repeat(text, keptBytes/len(text)), h.String())
}

// script returns an executable that stands in for a devcluster gone wrong.
func script(t *testing.T, body string) string {
	t.Helper()

	path := filepath.Join(t.TempDir(), "devcluster")
	writeFile(t, path, "#!/bin/sh\n"+body+"\n")

	return path
}

func TestFailedStart(t *testing.T) {
	t.Parallel()

	cases := map[string]struct {
		reason string
		body   string
		want   []string
	}{
		"Ends":            {"its last words are what helps", "echo no space left >&2; exit 3", []string{"exit status 3", "no space left"}},
		"NeverReady":      {"a start must not hang a test run", "echo slow disk >&2; exec sleep 600", []string{"was not ready after 1s", "slow disk"}},
		"Gibberish":       {"only an announcement is one", "echo hello; exec sleep 600", []string{"read devcluster's announcement"}},
		"NoKubeconfig":    {"an announced file must be there", `echo '{"kubeconfig": "/nonexistent/kubeconfig"}'; exec sleep 600`, []string{"read devcluster's kubeconfig"}},
		"WrongKubeconfig": {"contents must not get into the error", `echo '{"kubeconfig": "'$0'"}'; exec sleep 600 # secret`, []string{"not usable"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			_, err := startBinary(script(t, c.body), time.Second)
			require.Error(t, err, c.reason)
			for _, want := range c.want {
				require.ErrorContains(t, err, want, c.reason)
			}
			require.NotContains(t, err.Error(), "secret", c.reason)
		})
	}

	_, err := startBinary(filepath.Join(t.TempDir(), "absent"), time.Second)
	require.ErrorContains(t, err, "start ")
}
