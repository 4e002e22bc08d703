package module_test

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/application"
	"github.com/caisson-dev/caisson/host/provisioner/module"
	"github.com/caisson-dev/caisson/host/scope"
)

func TestAppStatus(t *testing.T) {
	cases := map[string]struct {
		reason         string
		err            error
		ensure, remove abi.AppStatus
	}{
		"Nil":      {"done", nil, abi.AppStatus{Phase: abi.AppReady}, abi.AppStatus{Phase: abi.AppGone}},
		"Yield":    {"on its way", provisioner.Yield(abi.ReasonApplicationInstalling, "").WithRetryAfter(1500 * time.Millisecond), abi.AppStatus{Phase: abi.AppProgressing, Disposition: abi.Yield, Reason: "application_installing", RetryAfterSeconds: 2}, abi.AppStatus{Phase: abi.AppDeleting, Disposition: abi.Yield, Reason: "application_installing", RetryAfterSeconds: 2}},
		"Deleting": {"an ensure can meet a removal (case 47)", provisioner.Yield(abi.ReasonApplicationDeleting, ""), abi.AppStatus{Phase: abi.AppDeleting, Disposition: abi.Yield, Reason: "application_deleting"}, abi.AppStatus{Phase: abi.AppDeleting, Disposition: abi.Yield, Reason: "application_deleting"}},
		"Retry":    {"may work next time", provisioner.Retry(abi.ReasonChartUnavailable, ""), abi.AppStatus{Phase: abi.AppProgressing, Disposition: abi.Retry, Reason: "chart_unavailable"}, abi.AppStatus{Phase: abi.AppDeleting, Disposition: abi.Retry, Reason: "chart_unavailable"}},
		"Blocked":  {"somebody must act", provisioner.UserActionRequired(abi.ReasonForbidden, ""), abi.AppStatus{Phase: abi.AppBlocked, Disposition: abi.UserActionRequired, Reason: "forbidden"}, abi.AppStatus{Phase: abi.AppBlocked, Disposition: abi.UserActionRequired, Reason: "forbidden"}},
		"Failed":   {"cannot succeed", provisioner.Terminal(abi.ReasonRenderFailed, ""), abi.AppStatus{Phase: abi.AppFailed, Disposition: abi.Terminal, Reason: "render_failed"}, abi.AppStatus{Phase: abi.AppFailed, Disposition: abi.Terminal, Reason: "render_failed"}},
		"Untyped":  {"text of errors is not for guests", errDial, abi.AppStatus{Phase: abi.AppProgressing, Disposition: abi.Retry, Reason: "unexpected"}, abi.AppStatus{Phase: abi.AppDeleting, Disposition: abi.Retry, Reason: "unexpected"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(nil)
			w.driver.ensure, w.driver.remove = tc.err, tc.err
			w.once(t, func(ctx context.Context, host hostFunc) {
				var status abi.AppStatus
				require.Nil(t, ask(t, ctx, host, abi.AppEnsure, demoApp(), &status))
				require.Equal(t, tc.ensure, status, tc.reason)
				status = abi.AppStatus{}
				require.Nil(t, ask(t, ctx, host, abi.AppRemove, abi.AppRef{}, &status))
				require.Equal(t, tc.remove, status, tc.reason)
			})
		})
	}
	t.Run("Shutdown", func(t *testing.T) {
		w := newWorld(nil)
		w.driver.ensure = provisioner.ErrShutdown
		w.once(t, func(ctx context.Context, host hostFunc) {
			require.Equal(t, abi.CodeUnavailable, ask(t, ctx, host, abi.AppEnsure, demoApp(), nil).Code)
		})
	})
}

func TestAppIdentity(t *testing.T) {
	w := newWorld(nil)
	w.driver.installed = []cd.Installed{
		{ID: scope.ResourceIdentifier{Path: nodePath + "x"}, ScopeID: "home"},
		{ID: scope.ResourceIdentifier{Path: nodePath + "/deep/er"}, ScopeID: "home"},
		{ID: scope.ResourceIdentifier{Path: nodePath}, ScopeID: "elsewhere"},
	}
	w.once(t, func(ctx context.Context, host hostFunc) {
		require.Nil(t, ask(t, ctx, host, abi.AppEnsure, demoApp(), nil))
		named := demoApp()
		named.Name, named.Release = "agent", "fixed"
		require.Nil(t, ask(t, ctx, host, abi.AppEnsure, named, nil))
		var list abi.AppListResult
		require.Nil(t, ask(t, ctx, host, abi.AppList, abi.AppListRequest{}, &list))
		require.Equal(t, []abi.AppEntry{
			{Release: "cni-" + w.options.ID.Hash()[:8], Namespace: "kube-system", Version: "1.16.0"},
			{Name: "agent", Release: "fixed", Namespace: "kube-system", Version: "1.16.0"},
		}, list.Applications, "a node sees its own applications in its own scope, and no other")
	})
	require.Equal(t, nodePath, w.driver.apps[0].ID.Path)
	require.Equal(t, nodePath+"/agent", w.driver.apps[1].ID.Path)
	require.Equal(t, owner(), w.driver.apps[1].ID.Owner)
	require.NotEqual(t, w.driver.apps[0].ID.Hash(), w.driver.apps[1].ID.Hash())
}

func TestAppListFailureIsNotEmpty(t *testing.T) {
	w := newWorld(nil)
	w.once(t, func(ctx context.Context, host hostFunc) {
		w.driver.list = errDial
		callError := ask(t, ctx, host, abi.AppList, abi.AppListRequest{}, nil)
		require.Equal(t, abi.CodeUnavailable, callError.Code)
		require.NotContains(t, callError.Message, "10.0.0.7")
	})
}

func TestAppEnsureRefusesHostileSpecs(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(s *abi.AppSpec)
		code   abi.ErrorCode
	}{
		"NameCase":        {"names end up in identities", func(s *abi.AppSpec) { s.Name = "Agent" }, abi.CodeInvalid},
		"NamePath":        {"a name must not climb out of the node", func(s *abi.AppSpec) { s.Name = "../other" }, abi.CodeInvalid},
		"NameSlash":       {"nor into another", func(s *abi.AppSpec) { s.Name = "a/b" }, abi.CodeInvalid},
		"NameLong":        {"a label has 63 characters", func(s *abi.AppSpec) { s.Name = strings.Repeat("a", 64) }, abi.CodeInvalid},
		"Namespace":       {"a namespace is a label", func(s *abi.AppSpec) { s.Namespace = "kube system" }, abi.CodeInvalid},
		"NoRepo":          {"without a catalogue all three are needed", func(s *abi.AppSpec) { s.Repo = "" }, abi.CodeInvalid},
		"NoChart":         {"without a catalogue all three are needed", func(s *abi.AppSpec) { s.Chart = "" }, abi.CodeInvalid},
		"NoVersion":       {"without a catalogue all three are needed", func(s *abi.AppSpec) { s.Version = "" }, abi.CodeInvalid},
		"RepoFile":        {"charts do not come from the operator's disk", func(s *abi.AppSpec) { s.Repo = "file:///etc" }, abi.CodeInvalid},
		"RepoNoHost":      {"a repository has a host", func(s *abi.AppSpec) { s.Repo = "oci:///x" }, abi.CodeInvalid},
		"RepoCredentials": {"credentials would be logged", func(s *abi.AppSpec) { s.Repo = "https://u:p@example.com" }, abi.CodeInvalid},
		"RepoQuery":       {"a repository has no query", func(s *abi.AppSpec) { s.Repo = "https://example.com?x=1" }, abi.CodeInvalid},
		"RepoBroken":      {"a repository is a URL", func(s *abi.AppSpec) { s.Repo = "oci://[" }, abi.CodeInvalid},
		"ChartClimbs":     {"a chart must not climb", func(s *abi.AppSpec) { s.Chart = "a/../../b" }, abi.CodeInvalid},
		"ChartAbsolute":   {"nor be absolute", func(s *abi.AppSpec) { s.Chart = "/etc/passwd" }, abi.CodeInvalid},
		"VersionControl":  {"a version is text", func(s *abi.AppSpec) { s.Version = "1.0\n" }, abi.CodeInvalid},
		"VersionLong":     {"a version is short", func(s *abi.AppSpec) { s.Version = strings.Repeat("1", 65) }, abi.CodeInvalid},
		"ReleaseHandle":   {"no secrets in names", func(s *abi.AppSpec) { s.Release = "caisson-secret:" + strings.Repeat("0", 32) + ":" }, abi.CodeInvalid},
		"ValuesList":      {"values are an object", func(s *abi.AppSpec) { s.Values = json.RawMessage(`[1]`) }, abi.CodeInvalid},
		"ValuesLarge":     {"values fit a release", func(s *abi.AppSpec) { s.Values = json.RawMessage(`{"a":"` + strings.Repeat("x", 1<<20) + `"}`) }, abi.CodeTooLarge},
		"ParametersMany":  {"lists are bounded", func(s *abi.AppSpec) { s.Parameters = make([]abi.AppParameter, 257) }, abi.CodeTooLarge},
		"ParameterNoName": {"a parameter has a name", func(s *abi.AppSpec) { s.Parameters = []abi.AppParameter{{Value: "x"}} }, abi.CodeInvalid},
		"ParameterLarge": {"values are bounded", func(s *abi.AppSpec) {
			s.Parameters = []abi.AppParameter{{Name: "a", Value: strings.Repeat("x", 65537)}}
		}, abi.CodeTooLarge},
		"CatalogueName": {"an object name", func(s *abi.AppSpec) { s.Catalogue = "../x" }, abi.CodeInvalid},
		"NoCatalogue":   {"a host without one says so", func(s *abi.AppSpec) { s.Catalogue = "metrics-server" }, abi.CodeUnsupported},
		"VoidHandle": {"a handle of another call is void", func(s *abi.AppSpec) {
			s.Values = json.RawMessage(`{"a":["x caisson-secret:` + strings.Repeat("0", 32) + `:"]}`)
		}, abi.CodeInvalid},
		"VoidHandleEscaped": {"also in disguise", func(s *abi.AppSpec) {
			s.Values = json.RawMessage(`{"a":"\u0063aisson-secret:` + strings.Repeat("0", 32) + `:"}`)
		}, abi.CodeInvalid},
		"VoidHandleParam": {"also in a parameter", func(s *abi.AppSpec) {
			s.Parameters = []abi.AppParameter{{Name: "a", Value: "caisson-secret:" + strings.Repeat("0", 32) + ":"}}
		}, abi.CodeInvalid},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(nil)
			w.once(t, func(ctx context.Context, host hostFunc) {
				spec := demoApp()
				tc.change(&spec)
				callError := ask(t, ctx, host, abi.AppEnsure, spec, nil)
				require.NotNil(t, callError, tc.reason)
				require.Equal(t, tc.code, callError.Code, tc.reason)
				require.Less(t, len(callError.Message), 1100)
			})
			require.Empty(t, w.driver.calls(), "the driver never sees it")
		})
	}
	t.Run("RemoveName", func(t *testing.T) {
		w := newWorld(nil)
		w.once(t, func(ctx context.Context, host hostFunc) {
			require.Equal(t, abi.CodeInvalid, ask(t, ctx, host, abi.AppRemove, abi.AppRef{Name: "../other"}, nil).Code)
		})
		require.Empty(t, w.driver.calls())
	})
}

func TestCase088ReleaseOfModule(t *testing.T) {
	w := newWorld(passOn(t, func() abi.AppSpec {
		s := demoApp()
		s.Release = strings.Repeat("a", 54)
		return s
	}))
	outcome := provisioner.OutcomeOf(w.provision(t))
	require.Equal(t, abi.Terminal, outcome.Class)
	require.Equal(t, abi.ReasonInvalidRelease, outcome.Headline.Reason)
	require.Empty(t, w.driver.calls())
}

func TestCase099ValuesKeepNull(t *testing.T) {
	w := newWorld(nil)
	w.once(t, func(ctx context.Context, host hostFunc) {
		spec := demoApp()
		spec.Values = json.RawMessage(`{"affinity":null,"n":1000000,"list":[null]}`)
		spec.Parameters = []abi.AppParameter{{Name: "b", Value: "1"}, {Name: "a", Value: "2"}}
		require.Nil(t, ask(t, ctx, host, abi.AppEnsure, spec, nil))
	})
	app := w.driver.apps[0]
	require.Equal(t, map[string]any{"affinity": nil, "n": int64(1000000), "list": []any{nil}}, app.Values)
	require.Equal(t, []cd.Parameter{{Name: "b", Value: "1"}, {Name: "a", Value: "2"}}, app.Parameters, "in the module's order")
	require.Nil(t, app.Secrets)
	require.Empty(t, app.ValuesDigest, "without secrets the driver computes one")
}

func TestCatalogueDefaults(t *testing.T) {
	entry := &application.Entry{Name: "cilium", ResourceVersion: "9", Versions: []application.Version{
		{Version: "v1.16.1", Repo: "oci://r/charts", Chart: "cilium", Namespace: "kube-system", CreateNamespace: true, Values: map[string]any{"a": "catalogue", "b": "catalogue"}, Parameters: []cd.Parameter{{Name: "p", Value: "catalogue"}}},
		{Version: "1.17.0", Repo: "oci://r/charts", Chart: "cilium"},
	}}
	w := newWorld(nil)
	w.options.Catalogue = application.CatalogueFunc(func(_ context.Context, name string) (*application.Entry, error) {
		if name == "cilium" {
			return entry, nil
		}
		return nil, provisioner.ErrNotFound
	})
	w.once(t, func(ctx context.Context, host hostFunc) {
		var status abi.AppStatus
		require.Nil(t, ask(t, ctx, host, abi.AppEnsure, abi.AppSpec{Catalogue: "cilium", Version: "1.16.x", Values: json.RawMessage(`{"b":"module"}`), Parameters: []abi.AppParameter{{Name: "p", Value: "module"}}}, &status))
		require.Equal(t, abi.AppReady, status.Phase)
		require.Nil(t, ask(t, ctx, host, abi.AppEnsure, abi.AppSpec{Catalogue: "cilium", Name: "own", Repo: "https://mirror.example.com", Chart: "fork/cilium", Namespace: "x"}, &status))
		require.Nil(t, ask(t, ctx, host, abi.AppEnsure, abi.AppSpec{Catalogue: "nope"}, &status))
		require.Equal(t, abi.AppStatus{Phase: abi.AppBlocked, Disposition: abi.UserActionRequired, Reason: abi.ReasonApplicationNotFound}, status)
		require.Nil(t, ask(t, ctx, host, abi.AppEnsure, abi.AppSpec{Catalogue: "cilium", Version: "9.x"}, &status))
		require.Equal(t, abi.AppStatus{Phase: abi.AppFailed, Disposition: abi.Terminal, Reason: abi.ReasonVersionNotFound}, status)
	})
	first, second := w.driver.apps[0], w.driver.apps[1]
	require.Equal(t, "v1.16.1", first.Version, "the catalogue's own spelling")
	require.Equal(t, "kube-system", first.Namespace)
	require.True(t, first.CreateNamespace)
	require.Equal(t, map[string]any{"a": "catalogue", "b": "module"}, first.Values)
	require.Equal(t, []cd.Parameter{{Name: "p", Value: "catalogue"}, {Name: "p", Value: "module"}}, first.Parameters)
	require.Equal(t, "https://mirror.example.com fork/cilium 1.17.0 x", strings.Join([]string{second.Repo, second.Chart, second.Version, second.Namespace}, " "))
	require.Contains(t, w.inputs, provisioner.Input{ScopeID: "home", Kind: "Application", Name: "cilium", Version: "9"})
	require.Contains(t, w.inputs, provisioner.Input{ScopeID: "home", Kind: "Application", Name: "nope", Absent: true})
}

// What the driver knows beyond the reason reaches the operator, although the guest never
// saw it.
func TestDriverVerdictComesAlong(t *testing.T) {
	w := newWorld(passOn(t, demoApp))
	w.driver.ensure = provisioner.Yield(abi.ReasonApplicationWaiting, "Deployment cilium has 1 of 3 replicas").WithRetryAfter(7 * time.Second)
	outcome := provisioner.OutcomeOf(w.provision(t))
	require.Equal(t, abi.Yield, outcome.Class)
	require.Equal(t, 7*time.Second, outcome.RetryAfter)
	require.Contains(t, outcome.Headline.Why, "1 of 3 replicas")
	require.Contains(t, outcome.Headline.Why, "application progressing", "the guest's own why stays")

	w.driver.ensure = provisioner.Yield(abi.ReasonApplicationWaiting, "").WithRetryAfter(time.Hour)
	require.Equal(t, 10*time.Minute, provisioner.OutcomeOf(w.provision(t)).RetryAfter, "clamped like any hint")

	w.guest = func(ctx context.Context, _ string, _ []byte, host hostFunc) (int32, []byte, error) {
		require.Nil(t, ask(t, ctx, host, abi.AppEnsure, demoApp(), nil))
		return 1, []byte(`{"reason":"awaiting_dependency","why":"something else"}`), nil
	}
	w.driver.ensure = provisioner.Yield(abi.ReasonApplicationWaiting, "driver detail")
	require.NotContains(t, provisioner.OutcomeOf(w.provision(t)).Headline.Why, "driver detail", "another reason is another matter")
}

func TestEnsureInScopeThatIsNotReady(t *testing.T) {
	for _, state := range []abi.ScopeState{abi.ScopePending, abi.ScopeGone} {
		w := newWorld(nil).remote(nil, state, abi.Drain)
		w.once(t, func(ctx context.Context, host hostFunc) {
			require.Equal(t, abi.CodeUnavailable, ask(t, ctx, host, abi.AppEnsure, demoApp(), nil).Code)
			require.Nil(t, ask(t, ctx, host, abi.AppRemove, abi.AppRef{}, nil), "a removal needs the identity only")
		})
		require.Equal(t, []string{"remove " + nodePath + " Drain"}, w.driver.calls())
	}
}

func TestDeprovisionSweeps(t *testing.T) {
	install := func(w *world, paths ...string) {
		for _, p := range paths {
			w.driver.installed = append(w.driver.installed, cd.Installed{ID: scope.ResourceIdentifier{Owner: owner(), Path: p}, ScopeID: w.scope.ID()})
		}
	}
	notReady := provisioner.Retry(abi.ReasonModuleNotReady, "")
	cases := map[string]struct {
		reason   string
		instance error
		memo     bool
		wait     time.Duration
		class    abi.Disposition
		trace    []string
	}{
		"Forgotten":     {reason: "what a module leaves behind is removed, last first", trace: []string{"remove " + nodePath + "/b Drain", "remove " + nodePath + "/a Drain", "remove " + nodePath + " Drain"}},
		"NotFound":      {reason: "a deleted Module must not block a removal", instance: provisioner.UserActionRequired(abi.ReasonModuleNotFound, ""), memo: true, trace: []string{"remove " + nodePath + "/b Drain", "remove " + nodePath + "/a Drain", "remove " + nodePath + " Drain"}},
		"FailedForGood": {reason: "nor one that somebody must repair", instance: provisioner.UserActionRequired(abi.ReasonModuleNotReady, ""), memo: true, trace: []string{"remove " + nodePath + "/b Drain", "remove " + nodePath + "/a Drain", "remove " + nodePath + " Drain"}},
		"Loading":       {reason: "one that is being loaded may have things to free", instance: notReady, memo: true, wait: 9 * time.Minute, class: abi.Retry},
		"NeverLoaded":   {reason: "one that could never be called has nothing to free", instance: notReady.WithCause(module.ErrNeverLoaded), memo: true, trace: []string{"remove " + nodePath + "/b Drain", "remove " + nodePath + "/a Drain", "remove " + nodePath + " Drain"}},
		"LoadingLong":   {reason: "but not for ever", instance: notReady, memo: true, wait: 10 * time.Minute, trace: []string{"remove " + nodePath + "/b Drain", "remove " + nodePath + "/a Drain", "remove " + nodePath + " Drain"}},
		"Faulted":       {reason: "a quarantined one neither", instance: provisioner.Retry(abi.ReasonModuleFaulted, ""), memo: true, wait: time.Hour, trace: []string{"remove " + nodePath + "/b Drain", "remove " + nodePath + "/a Drain", "remove " + nodePath + " Drain"}},
		"NoMemory":      {reason: "without a memo nothing can wait", instance: notReady, trace: []string{"remove " + nodePath + "/b Drain", "remove " + nodePath + "/a Drain", "remove " + nodePath + " Drain"}},
		"APIDown":       {reason: "a failure to find out says nothing about the module", instance: errDial, memo: true, wait: time.Hour, class: abi.Retry},
		"Shutdown":      {reason: "nor does a shutdown", instance: provisioner.ErrShutdown, memo: true, wait: time.Hour, class: abi.Retry},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(answers(0, ""))
			if tc.memo {
				w.memo = module.NewMemo(8)
			}
			w.instance = tc.instance
			install(w, nodePath, nodePath+"/a", nodePath+"/b", "all/other", nodePath+"x")
			if tc.wait > 0 {
				require.Error(t, w.deprovision(t), "the clock starts with the first pass")
				w.driver.calls()
				w.now = w.now.Add(tc.wait)
			}
			outcome := provisioner.OutcomeOf(w.deprovision(t))
			require.Equal(t, tc.class, outcome.Class, tc.reason)
			require.Equal(t, tc.trace, w.driver.calls(), tc.reason)
		})
	}
}

func TestSweepIsGating(t *testing.T) {
	w := newWorld(answers(0, ""))
	w.driver.installed = []cd.Installed{{ID: w.options.ID, ScopeID: "home"}}
	w.driver.remove = provisioner.Terminal(abi.ReasonApplicationStuck, "")
	outcome := provisioner.OutcomeOf(w.deprovision(t))
	require.Equal(t, abi.Retry, outcome.Class, "not gone is not OK, and never parks")
	require.Equal(t, abi.ReasonApplicationStuck, outcome.Headline.Reason)
	w.driver.remove = nil
	require.NoError(t, w.deprovision(t))
	w.driver.calls()
	require.NoError(t, w.deprovision(t))
	require.Empty(t, w.driver.calls(), "what is gone is not removed again")
	w.driver.list = errors.New("secrets is forbidden")
	require.Error(t, w.deprovision(t), "a failure to list is not an empty list")
}

// An application that only this pass made must be swept too.
func TestSweepSeesWhatTheDeprovisionMade(t *testing.T) {
	w := newWorld(func(ctx context.Context, _ string, _ []byte, host hostFunc) (int32, []byte, error) {
		require.Nil(t, ask(t, ctx, host, abi.AppEnsure, demoApp(), nil))
		return 0, nil, nil
	})
	require.NoError(t, w.deprovision(t))
	require.Equal(t, []string{"ensure " + nodePath + " cilium@1.16.0", "remove " + nodePath + " Drain"}, w.driver.calls())
}

func TestInstalledReachesTheModule(t *testing.T) {
	var seen []string
	w := newWorld(func(_ context.Context, _ string, input []byte, _ hostFunc) (int32, []byte, error) {
		var in abi.Input
		require.NoError(t, json.Unmarshal(input, &in))
		seen = append(seen, strconv.FormatBool(in.Installed))
		return 1, []byte(`{"reason":"unexpected"}`), nil
	})
	require.Error(t, w.deprovision(t))
	w.driver.installed = []cd.Installed{{ID: scope.ResourceIdentifier{Path: nodePath + "/a"}, ScopeID: "home"}}
	require.Error(t, w.deprovision(t))
	require.Equal(t, []string{"false", "true"}, seen)
}
