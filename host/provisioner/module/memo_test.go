package module_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/application"
	"github.com/caisson-dev/caisson/host/provisioner/module"
	"github.com/caisson-dev/caisson/host/scope"
)

// settled returns a world whose module has been called, with an installed application,
// until nothing changes any more.
func settled(t *testing.T, guest runtimeFunc) *world {
	t.Helper()
	w := newWorld(guest)
	w.memo = module.NewMemo(16)
	for range 3 {
		require.NoError(t, w.provision(t))
	}
	w.calls = 0
	w.driver.calls()
	return w
}

func TestMemoSavesCalls(t *testing.T) {
	w := settled(t, passOn(t, demoApp))
	for range 10 {
		require.NoError(t, w.provision(t))
	}
	require.Zero(t, w.calls, "a converged node is left alone")
	require.Len(t, w.driver.calls(), 10, "but the driver is asked each time, or drift would go unseen")
}

func TestMemoMisses(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(w *world)
		calls  int
	}{
		"Nothing": {"the reference", func(*world) {}, 0},
		"Time":    {"time alone is no input", func(w *world) { w.now = w.now.Add(time.Hour) }, 0},
		"Answer":  {"the driver says something else", func(w *world) { w.driver.ensure = provisioner.Yield(abi.ReasonApplicationWaiting, "") }, 1},
		"Hint":    {"a hint counts down by itself", func(w *world) { w.driver.ensure = nil }, 0},
		"Config": {"the config", func(w *world) {
			w.options.Config = func(context.Context) (json.RawMessage, error) { return json.RawMessage(`{"a":1}`), nil }
		}, 1},
		"Facts":      {"a fact of another node", func(w *world) { w.facts.values = map[string]json.RawMessage{"x": json.RawMessage(`1`)} }, 1},
		"State":      {"the state", func(w *world) { w.state.values = map[string]string{nodePath: `1`} }, 1},
		"Generation": {"another generation", func(w *world) { o := owner(); o.Generation++; w.scope = scope.NewHome(o, nil, nil) }, 1},
		"Grant":      {"a wider grant", func(w *world) { w.grant.Capabilities = []abi.Function{abi.AppEnsure} }, 1},
		"Manifest":   {"another module", func(w *world) { w.manifest.Version = "1.0.1" }, 1},
		"Scope":      {"another cluster", func(w *world) { w.remote(nil, abi.ScopeReady, abi.Drain) }, 1},
		"Installed":  {"somebody removed the release", func(w *world) { w.driver.installed = nil }, 1},
		"Forgotten":  {"an input changed, or a resync came", func(w *world) { w.memo.Forget("u1") }, 1},
		"Stranger":   {"another owner's inputs are not ours", func(w *world) { w.memo.Forget("u2") }, 0},
		"NodePath":   {"another node", func(w *world) { w.options.Node.Path += "x" }, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := settled(t, passOn(t, demoApp))
			tc.change(w)
			_ = w.provision(t)
			require.Equal(t, tc.calls, w.calls, tc.reason)
		})
	}
}

// What is remembered must be what a call would have said.
func TestMemoKeepsOutcomes(t *testing.T) {
	cases := map[string]struct {
		reason string
		guest  runtimeFunc
		saved  bool
	}{
		"OK":         {"done", answers(0, ""), true},
		"Yield":      {"a yield on nothing that the clock brings", answers(1, `{"reason":"awaiting_dependency"}`), true},
		"UserAction": {"somebody must act", answers(3, `{"reason":"pool_exhausted"}`), true},
		"Terminal":   {"the input must change", answers(4, `{"reason":"invalid_config"}`), true},
		"Retry":      {"a failure of its own may pass by itself", answers(2, `{"reason":"unexpected"}`), false},
		"BadCode":    {"a fault is never remembered", answers(7, ""), false},
		"BadOutput":  {"a fault is never remembered", answers(0, "x"), false},
		"Trap": {"a fault is never remembered", func(context.Context, string, []byte, hostFunc) (int32, []byte, error) {
			return 0, nil, fault{reason: "module_trap"}
		}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(tc.guest)
			w.memo = module.NewMemo(16)
			first := provisioner.OutcomeOf(w.provision(t))
			second := provisioner.OutcomeOf(w.provision(t))
			require.Equal(t, first, second, tc.reason)
			require.Equal(t, tc.saved, w.calls == 1, tc.reason)
		})
	}
}

func TestMemoOfDriverVerdicts(t *testing.T) {
	w := newWorld(passOn(t, demoApp))
	w.memo = module.NewMemo(16)
	answer := func(hint time.Duration, why string) provisioner.Outcome {
		w.driver.ensure = provisioner.Yield(abi.ReasonApplicationWaiting, why).WithRetryAfter(hint)
		return provisioner.OutcomeOf(w.provision(t))
	}
	answer(9*time.Second, "0 of 3")
	answer(9*time.Second, "0 of 3") // installed is part of the envelope and has changed
	w.calls = 0
	outcome := answer(4*time.Second, "2 of 3")
	require.Zero(t, w.calls, "progress of an application needs no module")
	require.Equal(t, 4*time.Second, outcome.RetryAfter, "the hint is the driver's newest")
	require.Contains(t, outcome.Headline.Why, "2 of 3", "so is the detail")

	w.driver.ensure = provisioner.Retry(abi.ReasonChartUnavailable, "")
	require.Error(t, w.provision(t))
	require.Equal(t, 1, w.calls, "another verdict is for the module to judge")
	require.Error(t, w.provision(t))
	require.Equal(t, 1, w.calls, "a retry that is the driver's own is looked at by the driver")
	w.driver.ensure = nil
	require.NoError(t, w.provision(t))
	require.Equal(t, 2, w.calls)
}

func TestMemoBelievesTheModulesOwnHint(t *testing.T) {
	w := newWorld(answers(1, `{"reason":"awaiting_dependency","retryAfterSeconds":30}`))
	w.memo = module.NewMemo(16)
	step := func(d time.Duration, calls int) {
		w.now = w.now.Add(d)
		require.Error(t, w.provision(t))
		require.Equal(t, calls, w.calls)
	}
	step(0, 1)
	step(29*time.Second, 1)
	step(time.Second, 2)
	step(29*time.Second, 2)
}

func TestMemoAndUnwatchedObjects(t *testing.T) {
	look := func(code int32) runtimeFunc {
		return func(ctx context.Context, _ string, _ []byte, host hostFunc) (int32, []byte, error) {
			var result abi.KubeListResult
			require.Nil(t, ask(t, ctx, host, abi.KubeList, abi.KubeListRequest{ObjectRef: cmRef("", "")}, &result))
			return code, []byte(`{"reason":"awaiting_dependency"}`), nil
		}
	}
	for code, calls := range map[int32]int{0: 1, 1: 3, 3: 3, 4: 3} {
		w := kubeWorld(cluster(nil), nil)
		w.memo = module.NewMemo(16)
		w.guest = look(code)
		for range 3 {
			_ = w.provision(t)
		}
		require.Equal(t, calls, w.calls, "code %d: a module that waits for objects must look; one that is done waits for the resync", code)
	}
	t.Run("Unavailable", func(t *testing.T) {
		w := secretWorld(cluster(errDial), nil)
		w.memo = module.NewMemo(16)
		w.guest = func(ctx context.Context, _ string, _ []byte, host hostFunc) (int32, []byte, error) {
			require.Equal(t, abi.CodeUnavailable, ask(t, ctx, host, abi.SecretRead, fromHome("password"), nil).Code)
			return 1, []byte(`{"reason":"awaiting_dependency"}`), nil
		}
		require.Error(t, w.provision(t))
		require.Error(t, w.provision(t))
		require.Equal(t, 2, w.calls, "nothing wakes the owner when a cluster answers again")
	})
}

func TestMemoRestoresEverything(t *testing.T) {
	w := secretWorld(cluster(nil, cloudSecret("team", password)), nil)
	w.memo = module.NewMemo(16)
	w.options.Catalogue = application.CatalogueFunc(func(context.Context, string) (*application.Entry, error) {
		return &application.Entry{Name: "c", ResourceVersion: "1", Versions: []application.Version{{Version: "1.0.0", Repo: "oci://r", Chart: "c"}}}, nil
	})
	w.guest = func(ctx context.Context, _ string, _ []byte, host hostFunc) (int32, []byte, error) {
		handle := read(t, ctx, host, fromHome("password")).Handle
		spec := abi.AppSpec{Catalogue: "c", Parameters: []abi.AppParameter{{Name: "p", Value: handle}}}
		require.Nil(t, ask(t, ctx, host, abi.AppEnsure, spec, nil))
		return 0, []byte(`{"facts":{"a":1}}`), nil
	}
	for range 3 {
		require.NoError(t, w.provision(t))
	}
	w.calls, w.inputs = 0, nil
	published := w.facts.published
	require.NoError(t, w.provision(t))
	require.Zero(t, w.calls)
	require.Equal(t, published+1, w.facts.published, "a pass without the call publishes the same facts")
	require.ElementsMatch(t, []provisioner.Input{
		{ScopeID: "home", Kind: "Application", Name: "c", Version: "1"},
		{ScopeID: "home", Kind: "Secret", Namespace: "team", Name: "cloud", Version: "8"},
	}, w.inputs, "and depends on the same inputs")
	apps := w.driver.apps
	last, before := apps[len(apps)-1], apps[len(apps)-2]
	require.Equal(t, before.ValuesDigest, last.ValuesDigest)
	text, err := last.Secrets(last.Parameters[0].Value)
	require.NoError(t, err)
	require.Equal(t, password, text, "the handles of the remembered call still stand for the secret")
}

func TestMemoOfDeprovision(t *testing.T) {
	w := settled(t, passOn(t, demoApp))
	w.driver.remove = provisioner.Yield(abi.ReasonApplicationDeleting, "")
	require.Error(t, w.deprovision(t))
	require.Equal(t, 1, w.calls)
	require.Error(t, w.deprovision(t))
	require.Equal(t, 1, w.calls, "waiting for a removal needs no module")
	w.driver.remove = nil
	require.NoError(t, w.deprovision(t))
	require.Equal(t, 2, w.calls)
	require.NoError(t, w.provision(t))
	require.Equal(t, 3, w.calls, "the way up is another operation")
}

// What a pass learned before a Forget must not be stored after it.
func TestForgetDuringAPass(t *testing.T) {
	w := newWorld(nil)
	w.memo = module.NewMemo(16)
	w.guest = func(context.Context, string, []byte, hostFunc) (int32, []byte, error) {
		if w.calls == 1 {
			w.memo.Forget("u1")
		}
		return 0, nil, nil
	}
	for range 3 {
		require.NoError(t, w.provision(t))
	}
	require.Equal(t, 2, w.calls, "called in the pass of the Forget and in the next")
}

func TestMemoIsBounded(t *testing.T) {
	w := newWorld(answers(0, ""))
	w.memo = module.NewMemo(2)
	visit := func(path string) int {
		w.options.Node.Path = path
		before := w.calls
		require.NoError(t, w.provision(t))
		return w.calls - before
	}
	visit("a")
	visit("b")
	require.Zero(t, visit("a"), "both fit")
	visit("c")
	require.Zero(t, visit("a"), "the one that was used lately stays")
	require.Equal(t, 1, visit("b"), "the other one is forgotten")
}

func TestLargeCallsAreNotRemembered(t *testing.T) {
	spec := demoApp()
	spec.Values = json.RawMessage(`{"a":"` + strings.Repeat("x", 600<<10) + `"}`)
	for name, tc := range map[string]struct {
		times int
		spec  abi.AppSpec
	}{"Bytes": {2, spec}, "Calls": {65, demoApp()}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(func(ctx context.Context, _ string, _ []byte, host hostFunc) (int32, []byte, error) {
				for range tc.times {
					require.Nil(t, ask(t, ctx, host, abi.AppEnsure, tc.spec, nil))
				}
				return 0, nil, nil
			})
			w.memo = module.NewMemo(16)
			for range 3 {
				require.NoError(t, w.provision(t))
			}
			require.Equal(t, 3, w.calls, "it is called again, and memory stays bounded")
		})
	}
}

// TestMemoHammer runs many owners at once through one Memo, while others forget them. What
// a node is told must always be what its own module said.
func TestMemoHammer(t *testing.T) {
	memo := module.NewMemo(24)
	var group sync.WaitGroup
	stop := make(chan struct{})
	for worker := range 8 {
		group.Go(func() {
			w := newWorld(nil)
			w.memo = memo
			o := owner()
			o.UID = fmt.Sprintf("u%d", worker%4)
			w.options.ID.Owner = o
			w.scope = scope.NewHome(o, nil, nil)
			w.options.Node.Path = fmt.Sprintf("node-%d", worker)
			w.guest = answers(int32(worker%4)+1, fmt.Sprintf(`{"reason":"unexpected","why":"I am %d"}`, worker))
			for range 300 {
				outcome := provisioner.OutcomeOf(w.provision(t))
				if outcome.Class != abi.Disposition(worker%4+1) || !strings.Contains(outcome.Headline.Why, fmt.Sprintf("I am %d", worker)) {
					t.Errorf("worker %d was told %v %q", worker, outcome.Class, outcome.Headline.Why)
					return
				}
			}
		})
	}
	var forgetters sync.WaitGroup
	forgetters.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				memo.Forget(fmt.Sprintf("u%d", i%4))
			}
		}
	})
	group.Wait()
	close(stop)
	forgetters.Wait()
}

// TestSecretsHammer expands handles, as a driver's workers do, while the module goes on
// reading and installing.
func TestSecretsHammer(t *testing.T) {
	w := secretWorld(cluster(nil, cloudSecret("team", password)), nil)
	var workers sync.WaitGroup
	w.driver.hook = func() {
		for _, app := range w.driver.apps {
			workers.Go(func() {
				if text, err := app.Secrets(app.Parameters[0].Value); err != nil || text != password {
					t.Errorf("expanded to %q, %v", text, err)
				}
			})
		}
	}
	w.once(t, func(ctx context.Context, host hostFunc) {
		for i := range 40 {
			handle := read(t, ctx, host, fromHome("password")).Handle
			spec := demoApp()
			spec.Name = fmt.Sprintf("a%d", i)
			spec.Parameters = []abi.AppParameter{{Name: "p", Value: handle}}
			require.Nil(t, ask(t, ctx, host, abi.AppEnsure, spec, nil))
		}
	})
	workers.Wait()
	require.Len(t, w.driver.apps, 40)
}

// TestTrace plays the life of a node and compares what happened with a golden file. Set
// UPDATE_GOLDEN to write it anew.
func TestTrace(t *testing.T) {
	var trace strings.Builder
	w := newWorld(passOn(t, demoApp)).remote(nil, abi.ScopeReady, abi.Drain)
	w.memo = module.NewMemo(16)
	step := func(what string, err error) {
		outcome := provisioner.OutcomeOf(err)
		fmt.Fprintf(&trace, "%s\n  module calls: %d\n", what, w.calls)
		for _, call := range w.driver.calls() {
			fmt.Fprintf(&trace, "  driver: %s\n", call)
		}
		fmt.Fprintf(&trace, "  outcome: %s %s\n", outcome.Class, outcome.Headline.Reason)
		w.calls = 0
	}
	w.driver.ensure = provisioner.Yield(abi.ReasonApplicationInstalling, "")
	step("the first pass installs", w.provision(t))
	step("the second sees the release, and so does the module", w.provision(t))
	step("the third has nothing new", w.provision(t))
	w.driver.ensure = provisioner.Yield(abi.ReasonApplicationWaiting, "")
	step("the release is installed", w.provision(t))
	w.driver.ensure = nil
	step("its workloads are ready", w.provision(t))
	step("converged", w.provision(t))
	w.now = w.now.Add(time.Hour)
	step("converged, an hour later", w.provision(t))
	w.memo.Forget("u1")
	step("resync", w.provision(t))
	w.options.Config = func(context.Context) (json.RawMessage, error) {
		return json.RawMessage(`{"podCIDR":"10.1.0.0/16"}`), nil
	}
	step("the config changes", w.provision(t))
	w.driver.remove = provisioner.Yield(abi.ReasonApplicationDeleting, "")
	step("deletion", w.deprovision(t))
	step("deletion goes on", w.deprovision(t))
	w.driver.remove = provisioner.UserActionRequired(abi.ReasonApplicationStuck, "")
	step("a finalizer is stuck", w.deprovision(t))
	w.instance = provisioner.UserActionRequired(abi.ReasonModuleNotFound, "")
	step("the Module is deleted meanwhile", w.deprovision(t))
	w.driver.remove = nil
	step("and it is gone", w.deprovision(t))
	step("removing what is gone", w.deprovision(t))

	golden := filepath.Join("testdata", "life.golden")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(golden, []byte(trace.String()), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), trace.String())
}
