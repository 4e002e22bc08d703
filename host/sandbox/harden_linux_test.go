package sandbox_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/host/sandbox"
	"github.com/caisson-dev/caisson/host/sandbox/internal/wasmtest"
)

// TestRealWorker runs the program that is shipped, and proves what it has given up.
func TestRealWorker(t *testing.T) {
	s := open(t, sandbox.Options{Worker: []string{realWorker(t)}})
	m := load(t, s, wasmtest.Asks("event", 1), sandbox.Limits{MemoryBytes: 1 << 20})
	var status, limits, environment string
	_, _, err := m.Call(t.Context(), "tenant", "provision", []byte("x"), func(context.Context, string, []byte) []byte {
		pids := sandbox.PIDs(s)
		require.Len(t, pids, 1)
		proc := filepath.Join("/proc", strconv.Itoa(pids[0]))
		for name, text := range map[string]*string{"status": &status, "limits": &limits, "environ": &environment} {
			content, err := os.ReadFile(filepath.Join(proc, name))
			require.NoError(t, err)
			*text = string(content)
		}
		group, err := unix.Getpgid(pids[0])
		require.NoError(t, err)
		require.Equal(t, pids[0], group, "it has a process group of its own")
		return []byte("{}")
	})
	require.NoError(t, err)
	require.Contains(t, status, "NoNewPrivs:\t1")
	require.Regexp(t, `CapPrm:\t0+\nCapEff:\t0+\n`, status)
	requireAnotherUser(t, s, status)
	require.Regexp(t, `Max core file size +0 +0`, limits)
	require.Regexp(t, `Max open files +32 +32`, limits)
	require.NotRegexp(t, `Max address space +unlimited`, limits)
	require.Empty(t, environment)
}

// requireAnotherUser: a worker of root is somebody else, for whom the layer is there.
func requireAnotherUser(t *testing.T, s *sandbox.Sandbox, status string) {
	t.Helper()
	layer := slices.IndexFunc(s.Layers(), func(l sandbox.Layer) bool { return l.Name == sandbox.LayerUser })
	if os.Geteuid() != 0 {
		require.Negative(t, layer, "the operator's user is nobody special")
		return
	}
	require.GreaterOrEqual(t, layer, 0)
	if missing := s.Layers()[layer].Missing; missing != "" {
		t.Skipf("root may not change the user here: %s", missing)
	}
	require.Regexp(t, `\nUid:\t65533\t65533\t65533\t65533\nGid:\t65533\t65533\t65533\t65533\n`, status)
	require.Regexp(t, `\nGroups:\t *\n`, status)
}

// TestWorkerDiesWithItsStarter: the kernel forgets who is to die with whom when a process
// becomes somebody else.
func TestWorkerDiesWithItsStarter(t *testing.T) {
	s := open(t, sandbox.Options{})
	if !sandbox.KillForkServer(s) {
		t.Skip("this system does not let us make namespaces")
	}
	m := load(t, s, wasmtest.Asks("event", 1), sandbox.Limits{})
	_, _, err := m.Call(t.Context(), "tenant", "provision", []byte("x"), func(context.Context, string, []byte) []byte {
		pids := sandbox.PIDs(s)
		require.Len(t, pids, 1)
		require.True(t, sandbox.KillForkServer(s))
		require.Eventually(t, func() bool {
			stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pids[0]), "stat"))
			return err != nil || strings.Contains(string(stat), ") Z ")
		}, 10*time.Second, time.Millisecond)
		return []byte("{}")
	})
	faultOf(t, err, sandbox.FaultCrash)
	_, _, err = m.Call(t.Context(), "tenant", "provision", []byte("x"), answerConfigMap)
	require.NoError(t, err, "the next call has another one")
}

// TestConfinementByAttempt tries what a worker must not be able to do, in both of its
// stages.
func TestConfinementByAttempt(t *testing.T) {
	program := attemptProgram(t)
	const refused, denied = "operation not permitted", "permission denied"
	cases := map[string]struct{ reason, loading, loaded string }{
		"socket":             {"no network", refused, refused},
		"unix":               {"no local sockets", refused, refused},
		"netlink":            {"no talk with the kernel", refused, refused},
		"io_uring":           {"nothing around the filter", refused, refused},
		"bpf":                {"no programs for the kernel", refused, refused},
		"perf":               {"no watching of others", refused, refused},
		"keyctl":             {"no keys of the user", refused, refused},
		"userfaultfd":        {"no help for attacks on the kernel", refused, refused},
		"ptrace":             {"not the operator's memory", refused, refused},
		"peek":               {"nor in another way", refused, refused},
		"mount":              {"no file systems", refused, refused},
		"unshare":            {"no new namespaces", refused, refused},
		"chroot":             {"no other root", refused, refused},
		"setuid":             {"no other user", refused, refused},
		"root":               {"and never root again", refused, refused},
		"groups":             {"no groups", refused, refused},
		"kill":               {"no signals to others", refused, refused},
		"tgkill":             {"nor to their threads", refused, refused},
		"execve":             {"it stays the program that it is", refused, refused},
		"start":              {"and starts none", denied, refused},
		"fork":               {"nor itself again", refused, refused},
		"clone3":             {"nor with the newer call", "function not implemented", "function not implemented"},
		"raise":              {"its limits stay", refused, refused},
		"dumpable":           {"and its memory closed", refused, refused},
		"read":               {"no files", denied, refused},
		"self":               {"not even about itself", denied, refused},
		"list":               {"nor about others", denied, refused},
		"cache-read":         {"its native code, while it loads", "<nil>", refused},
		"cache-write":        {"which it may not change", denied, refused},
		"elsewhere":          {"nor read that of others", denied, refused},
		"compiler-writes":    {"the compiler may", "<nil>", refused},
		"compiler-elsewhere": {"where it was told to", denied, refused},
		"image":              {"an image of a memory is as large as it may be", "file too large", "file too large"},
		"memory":             {"no more address space", "cannot allocate memory", "cannot allocate memory"},
		"many-files":         {"no more files than it needs", "too many open files", "too many open files"},
		"open-before":        {"what was open is closed", "bad file descriptor", "bad file descriptor"},
		"environment":        {"there is no environment", "none", "none"},
		"nothing":            {"a Go program works", "all is well", "all is well"},
	}
	list, err := exec.CommandContext(t.Context(), program, "list").Output()
	require.NoError(t, err)
	require.ElementsMatch(t, append(slices.Collect(maps.Keys(cases)), "compute"), strings.Fields(string(list)), "each is tried; computing has a test of its own")
	missing := `missing ""`
	if !sandbox.KernelRestrictsFiles() {
		missing = `missing "` + sandbox.LayerFiles
	}
	dir := filepath.Join(t.TempDir(), "module")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "native"), []byte("code"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(dir), "other"), []byte("secret"), 0o600))
	for name, c := range cases {
		for stage, want := range map[string]string{"loading": c.loading, "loaded": c.loaded} {
			t.Run(name+"/"+stage, func(t *testing.T) {
				t.Parallel()
				said, _ := sandbox.Attempt(t, program, name, stage, dir)
				require.True(t, strings.HasPrefix(said, missing), said)
				if missing != `missing ""` && (want == denied || want == refused) {
					// One layer alone refuses in other words.
					require.NotRegexp(t, "<nil>$", said, c.reason)
					return
				}
				require.True(t, strings.HasSuffix(said, want), "%s: %s", c.reason, said)
			})
		}
	}
}

func TestComputingIsLimited(t *testing.T) {
	_, state := sandbox.Attempt(t, attemptProgram(t), "compute", "loaded", t.TempDir())
	status, ok := state.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	require.Equal(t, syscall.SIGKILL, status.Signal(), "%s after %s", state, state.UserTime())
	require.Less(t, state.UserTime()+state.SystemTime(), 4*time.Second, "the limit is one second")
}

// attemptProgram builds testdata/attempt once and returns its path.
func attemptProgram(t *testing.T) string {
	t.Helper()
	path, err := buildAttempt("attempt")
	require.NoError(t, err)
	return string(path)
}

var buildAttempt = onceByKey(func(name string) ([]byte, error) {
	out := filepath.Join(sharedCache, name)
	cmd := exec.Command("go", "build", "-tags=attempts", "-o", out, "./testdata/attempt")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the attempts: %w: %s", err, text)
	}
	return []byte(out), nil
})

// A program that links C cannot put every layer on, and says which and what to do.
func TestMissingLayersAreLoggedOnce(t *testing.T) {
	var logs logBuffer
	s := open(t, sandbox.Options{Worker: fakeCommand(t, "ok"), Logger: logs.logger()})
	require.Equal(t, []sandbox.Layer{{Name: "landlock", Missing: "it is.[2J a fake"}, {Name: sandbox.LayerProcessorTime}}, s.Layers()[:2])
	require.Len(t, s.Layers(), 3)
	require.Equal(t, sandbox.LayerProcessorPriority, s.Layers()[2].Name, "which only some may do")
	m := load(t, s, wasmtest.Echo(), sandbox.Limits{})
	_, _, err := provision(t, m, nil)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(logs.String(), `"layer":"landlock","why":"it is.[2J a fake"`), logs.String())
}

// The program that is shipped puts on every layer that the kernel has.
func TestLayersOfTheWorker(t *testing.T) {
	var names []string
	for _, layer := range open(t, sandbox.Options{Worker: []string{realWorker(t)}}).Layers() {
		names = append(names, layer.Name)
		switch layer.Name {
		case sandbox.LayerFiles:
			require.Equal(t, sandbox.KernelRestrictsFiles(), layer.Missing == "", layer.Missing)
		case sandbox.LayerNamespaces, sandbox.LayerUser, sandbox.LayerCalls, sandbox.LayerProcessorPriority:
			// A container may forbid them.
		default:
			require.Empty(t, layer.Missing, layer.Name)
		}
	}
	want := []string{
		sandbox.LayerNamespaces, sandbox.LayerDescriptors, sandbox.LayerLimits, sandbox.LayerMemoryPriority, sandbox.LayerPrivileges,
		sandbox.LayerDump, sandbox.LayerUser, sandbox.LayerCapabilities, sandbox.LayerFiles, sandbox.LayerCalls, sandbox.LayerProcessorTime, sandbox.LayerProcessorPriority,
	}
	if os.Geteuid() != 0 {
		want = slices.DeleteFunc(want, func(name string) bool { return name == sandbox.LayerUser })
	}
	require.Equal(t, want, names)
}

// TestFilterTakesPrivileges: with capabilities the kernel takes a filter from a thread that
// may gain privileges. One without them could then not take the next filter, which was the
// end of a worker that linked C whenever its Go code had moved to another thread.
func TestFilterTakesPrivileges(t *testing.T) {
	command := fakeCommand(t, "filtered")
	out, err := exec.Command(command[0], append(command[1:], "-")...).CombinedOutput()
	require.NoError(t, err)
	if strings.Contains(string(out), "no seccomp filters") {
		t.Skip(string(out))
	}
	require.Equal(t, "true 0\n", string(out))
}

// Workers that cannot confine themselves are of no use.
func TestNewRefusesUnconfinedWorkers(t *testing.T) {
	for name, text := range map[string]string{"layers": "instead of the layers", "mute": "could not confine itself", "unsetup": "could not confine itself"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := sandbox.New(sandbox.Options{Worker: fakeCommand(t, name), CacheDir: t.TempDir(), StartTimeout: time.Second})
			require.ErrorIs(t, err, sandbox.ErrWorkerUnusable)
			require.ErrorContains(t, err, text)
		})
	}
}
