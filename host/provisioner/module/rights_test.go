package module_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/capability"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

// asked is a cluster that counts what it is asked, the kinds included. What it is told to
// refuse, it refuses before it looks, as RBAC does.
type asked struct {
	client.Client

	requests int
	refuses  bool
}

func (a *asked) request(doing, name string) error {
	a.requests++
	if !a.refuses {
		return nil
	}
	return apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, name, errors.New("cannot "+doing))
}

func (a *asked) IsObjectNamespaced(o runtime.Object) (bool, error) {
	a.requests++
	return a.Client.IsObjectNamespaced(o)
}

func (a *asked) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if err := a.request("get", key.Name); err != nil {
		return err
	}
	return a.Client.Get(ctx, key, o, opts...)
}

func (a *asked) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := a.request("list", ""); err != nil {
		return err
	}
	return a.Client.List(ctx, list, opts...)
}

func (a *asked) Apply(ctx context.Context, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	if err := a.request("patch", applied(o)); err != nil {
		return err
	}
	return a.Client.Apply(ctx, o, opts...)
}

func (a *asked) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	if err := a.request("delete", o.GetName()); err != nil {
		return err
	}
	return a.Client.Delete(ctx, o, opts...)
}

func applied(o runtime.ApplyConfiguration) string {
	if named, ok := o.(interface{ GetName() *string }); ok && named.GetName() != nil {
		return *named.GetName()
	}
	return ""
}

// plea is what a guest asks for, in one place for all functions.
type plea struct {
	object    abi.ObjectRef
	secret    abi.SecretReadRequest
	app       abi.AppSpec
	eventName string
	// before runs within the call, ahead of the request.
	before func(t *testing.T, ctx context.Context, host hostFunc)
	// after makes the request once the call is over.
	after bool
}

// of is the request of one function.
func (p *plea) of(f abi.Function) any {
	switch f {
	case abi.AppEnsure:
		return p.app
	case abi.AppRemove:
		return abi.AppRef{Name: p.app.Name}
	case abi.AppList:
		return abi.AppListRequest{}
	case abi.KubeGet:
		return abi.KubeGetRequest{ObjectRef: p.object}
	case abi.KubeList:
		ref := p.object
		ref.Name = ""
		return abi.KubeListRequest{ObjectRef: ref}
	case abi.KubeApply:
		metadata := map[string]any{"name": p.object.Name}
		if p.object.Namespace != "" {
			metadata["namespace"] = p.object.Namespace
		}
		object, _ := json.Marshal(map[string]any{"apiVersion": p.object.APIVersion, "kind": p.object.Kind, "metadata": metadata})
		return abi.KubeApplyRequest{Scope: p.object.Scope, Object: object}
	case abi.KubeDelete:
		return abi.KubeDeleteRequest{ObjectRef: p.object}
	case abi.SecretRead:
		return p.secret
	case abi.Event:
		return abi.EventRequest{Type: "Normal", Reason: p.eventName}
	default:
		return nil
	}
}

// court is a world in which every function may be called, on a remote and at home.
type court struct {
	*world

	home, away *asked
	plea       plea
}

func newCourt() *court {
	return courtOf(
		cluster(nil, cloudSecret("team", password), cloudSecret("other", password), configMap("team", "who", "home")),
		cluster(nil, cloudSecret("team", password), configMap("kube-system", "who", "away")),
	)
}

func courtOf(home, away client.Client) *court {
	c := &court{home: &asked{Client: home}, away: &asked{Client: away}}
	c.world = kubeWorld(c.home, c.away)
	c.grant.Kube[0].Scopes = nil
	c.grant.Kube[0].Namespaces = []string{"kube-system"}
	c.grant.Secrets = []capability.SecretRule{{Namespace: capability.OwnerNamespace, Names: []string{"cloud"}}}
	c.plea = plea{object: cmRef("", "who"), secret: fromHome("password"), app: demoApp(), eventName: "pool_exhausted"}
	return c
}

// ask runs a call of an export that asks for one thing, and returns the answer: ok, the
// code of the error, or the phase and reason of an application.
func (c *court) ask(t *testing.T, export string, f abi.Function) (answer, message string) {
	t.Helper()
	var host hostFunc
	var callError *abi.CallError
	var status abi.AppStatus
	request := func(ctx context.Context) {
		callError = ask(t, ctx, host, f, c.plea.of(f), &status)
	}
	c.guest = func(ctx context.Context, _ string, _ []byte, given hostFunc) (int32, []byte, error) {
		host = given
		if c.plea.before != nil {
			c.plea.before(t, ctx, host)
		}
		if !c.plea.after {
			request(ctx)
		}
		return 0, nil, nil
	}
	if export == abi.ExportProvision {
		require.NoError(t, c.provision(t))
	} else if err := c.deprovision(t); c.driver.remove == nil {
		require.NoError(t, err) // Otherwise what the call has made cannot be swept up.
	}
	if c.plea.after {
		request(t.Context())
	}
	switch {
	case callError != nil:
		return string(callError.Code), callError.Message
	case status.Reason != "":
		return string(status.Phase) + " " + status.Reason, ""
	default:
		return "ok", ""
	}
}

func kubeFunctions() []abi.Function {
	return []abi.Function{abi.KubeGet, abi.KubeList, abi.KubeApply, abi.KubeDelete}
}

// everyone gives one answer to all of the functions.
func everyone(answer string, functions ...abi.Function) map[abi.Function]string {
	answers := map[abi.Function]string{}
	for _, f := range functions {
		answers[f] = answer
	}
	return answers
}

func with(answers map[abi.Function]string, f abi.Function, answer string) map[abi.Function]string {
	answers[f] = answer
	return answers
}

// lacks are the ways of lacking a right. Each names every function: with its answer, or
// with the words why it cannot lack it.
func lacks() map[string]struct {
	change  func(c *court)
	answers map[abi.Function]string
	// exempt says why the functions without an answer have none.
	exempt string
	// touches says that the cluster or the driver is asked, and refuses.
	touches bool
} {
	const noRules = "its grant has no rules"
	objects := append(kubeFunctions(), abi.SecretRead)
	rule := func(change func(k *capability.KubeRule, s *capability.SecretRule)) func(c *court) {
		return func(c *court) { change(&c.grant.Kube[0], &c.grant.Secrets[0]) }
	}
	return map[string]struct {
		change  func(c *court)
		answers map[abi.Function]string
		exempt  string
		touches bool
	}{
		"the manifest does not declare the function": {
			change: func(c *court) { c.manifest.Capabilities = nil }, answers: everyone("denied", abi.Functions()...)},
		"the manifest declares the others only": {
			change: nil, answers: everyone("denied", abi.Functions()...)},
		"the grant does not name the function": {
			change: func(c *court) { c.grant.Capabilities = nil }, answers: everyone("denied", abi.Functions()...)},
		"the grant is unset": {
			change: func(c *court) { c.grant = capability.Grant{} }, answers: everyone("denied", abi.Functions()...)},
		"the grant is empty": {
			change: func(c *court) {
				c.grant = capability.Grant{Capabilities: []abi.Function{}, Kube: []capability.KubeRule{}, Secrets: []capability.SecretRule{}}
			}, answers: everyone("denied", abi.Functions()...)},
		"the grant has an asterisk for the function": {
			change: func(c *court) { c.grant.Capabilities = []abi.Function{"*", "kube_*", ""} }, answers: everyone("denied", abi.Functions()...)},
		"the grant has no rules": {
			change: func(c *court) { c.grant.Kube, c.grant.Secrets = nil, nil }, answers: everyone("denied", objects...), exempt: noRules},
		"the rules are empty": {
			change:  func(c *court) { c.grant.Kube, c.grant.Secrets = []capability.KubeRule{{}}, []capability.SecretRule{{}} },
			answers: everyone("denied", objects...), exempt: noRules},
		"the manifest has no rules": {
			change: func(c *court) { c.manifest.Kube = nil }, answers: everyone("denied", kubeFunctions()...), exempt: "a manifest has no rules for it"},
		"a rule without namespaces or names": {
			change:  rule(func(k *capability.KubeRule, s *capability.SecretRule) { k.Namespaces, s.Names = nil, nil }),
			answers: everyone("denied", objects...), exempt: noRules},
		"a rule for another group": {
			change:  rule(func(k *capability.KubeRule, _ *capability.SecretRule) { k.APIGroup = "apps" }),
			answers: everyone("denied", kubeFunctions()...), exempt: "it names no kinds"},
		"a rule for another kind": {
			change:  rule(func(k *capability.KubeRule, _ *capability.SecretRule) { k.Kinds = []string{"Node", "configmap", "*"} }),
			answers: everyone("denied", kubeFunctions()...), exempt: "it names no kinds"},
		"a rule for other verbs": {
			change:  rule(func(k *capability.KubeRule, _ *capability.SecretRule) { k.Verbs = []string{"watch", "*", ""} }),
			answers: everyone("denied", kubeFunctions()...), exempt: "it has one verb"},
		"a rule for another namespace": {
			change: rule(func(k *capability.KubeRule, s *capability.SecretRule) {
				k.Namespaces, s.Namespace = []string{"team", ""}, "other"
			}), answers: everyone("denied", objects...), exempt: noRules},
		"a rule for another name": {
			change:  rule(func(_ *capability.KubeRule, s *capability.SecretRule) { s.Names = []string{"clou", "cloud2", ""} }),
			answers: everyone("denied", abi.SecretRead), exempt: "its rules have no names"},
		"a rule for the other cluster": {
			change: rule(func(k *capability.KubeRule, s *capability.SecretRule) {
				k.Scopes, s.Scopes = []abi.KubeScope{abi.ScopeHome}, []abi.KubeScope{abi.ScopeCurrent}
			}), answers: everyone("denied", objects...), exempt: noRules},
		"home is not granted by the default": {
			change: func(c *court) {
				c.grant.Kube[0].Namespaces, c.plea.object = []string{"team"}, cmRef(abi.ScopeHome, "who")
				c.plea.object.Namespace, c.plea.secret.Scope, c.plea.secret.Namespace = "team", "", "team"
			}, answers: everyone("denied", objects...), exempt: noRules},
		"a cluster that does not exist": {
			change:  func(c *court) { c.plea.object.Scope, c.plea.secret.Scope = "*", "elsewhere" },
			answers: everyone("invalid", objects...), exempt: "it acts where the node does"},
		"another namespace of the same tenant's cluster": {
			change:  func(c *court) { c.plea.object.Namespace, c.plea.secret.Namespace = "default", "other" },
			answers: everyone("denied", objects...), exempt: "its namespace is for the API server to judge"},
		"all namespaces, or a kind without one": {
			change: func(c *court) { c.plea.object.Kind, c.plea.object.Namespace = "Node", "" }, answers: everyone("denied", kubeFunctions()...), exempt: "it names no kinds"},
		"a namespace for a kind without one": {
			change: func(c *court) { c.plea.object.Kind = "Node" }, answers: everyone("invalid", kubeFunctions()...), exempt: "it names no kinds", touches: true},
		"a Secret by way of kube_*": {
			change: func(c *court) { c.plea.object.Kind, c.plea.object.Name = "Secret", "cloud" }, answers: everyone("denied", kubeFunctions()...), exempt: "it is for Secrets, or names no kinds"},
		"the bytes of a secret": {
			change: func(c *court) { c.plea.secret.Raw = true }, answers: everyone("denied", abi.SecretRead), exempt: "it has no bytes to give"},
		"RBAC refuses": {
			change: func(c *court) {
				c.home.refuses, c.away.refuses = true, true
				c.driver.ensure = provisioner.UserActionRequired(abi.ReasonForbidden, "rbac")
				c.driver.remove = c.driver.ensure
			},
			answers: with(with(everyone("forbidden", objects...), abi.AppEnsure, "blocked forbidden"), abi.AppRemove, "blocked forbidden"),
			exempt:  "it acts on what is the host's own", touches: true},
		"the cluster is pending": {
			change: func(c *court) {
				c.remote(nil, abi.ScopePending, abi.Drain)
				c.current()
			},
			answers: with(everyone("unavailable", objects...), abi.AppEnsure, "unavailable"), exempt: "the driver's records are at home"},
		"the cluster is gone": {
			change: func(c *court) {
				c.remote(c.away, abi.ScopeGone, abi.Discard)
				c.current()
			},
			answers: with(everyone("unavailable", objects...), abi.AppEnsure, "unavailable"), exempt: "the driver's records are at home"},
		"the call has ended": {
			change: func(c *court) { c.plea.after = true }, answers: everyone("unavailable", abi.Functions()...)},
		"the calls are used up": {
			change: func(c *court) {
				c.plea.before = func(t *testing.T, ctx context.Context, host hostFunc) {
					for range 1000 {
						host(ctx, "none", nil)
					}
				}
			}, answers: everyone("too_large", abi.Functions()...)},
		"a handle that another call was given": {
			change: func(c *court) {
				c.plea.app.Values = json.RawMessage(`{"password":"caisson-secret:0123456789abcdef0123456789abcdef:"}`)
			}, answers: everyone("invalid", abi.AppEnsure), exempt: "handles mean nothing to it"},
		"words that nobody has declared": {
			change: func(c *court) { c.plea.eventName = "made_up" }, answers: everyone("invalid", abi.Event), exempt: "it says nothing to users"},
	}
}

// current makes the secret one of the current cluster, with a grant for it.
func (c *court) current() {
	c.plea.secret.Scope, c.plea.secret.Namespace = abi.ScopeCurrent, "team"
	c.grant.Secrets[0].Scopes = []abi.KubeScope{abi.ScopeCurrent}
}

// TestEveryFunctionWithEveryLack crosses the host functions with the ways of lacking a
// right, while a Stack is provisioned and while it is removed. The error has its code,
// nothing is done, nothing is recorded, and a module is told by no answer whether what it
// may not see exists.
func TestEveryFunctionWithEveryLack(t *testing.T) {
	exports := []string{abi.ExportProvision, abi.ExportDeprovision}
	for _, export := range exports {
		for _, f := range abi.Functions() {
			c := newCourt()
			answer, message := c.ask(t, export, f)
			require.Equal(t, "ok", answer, "%s may be called in a %s when nothing is lacking: %s", f, export, message)
		}
	}
	still := newCourt() // Nothing changes in its clusters, so one of each is enough.
	for name, lack := range lacks() {
		for _, f := range abi.Functions() {
			want, crossed := lack.answers[f]
			if !crossed {
				require.NotEmpty(t, lack.exempt, "%s is crossed with %q, or it is said why not", f, name)
				continue
			}
			t.Run(string(f)+"/"+name, func(t *testing.T) {
				for _, export := range exports {
					messages := map[string]string{}
					for _, object := range []string{"who", "cloud", "nobody"} {
						c := courtOf(still.home.Client, still.away.Client)
						if lack.change == nil {
							c.manifest.Capabilities = without(f)
						} else {
							lack.change(c)
						}
						if c.plea.object.Name != "" {
							c.plea.object.Name = object
						}
						if name != "a rule for another name" && object == "nobody" {
							c.plea.secret.Name = object
							for i := range c.grant.Secrets {
								if slices.Equal(c.grant.Secrets[i].Names, []string{"cloud"}) {
									c.grant.Secrets[i].Names = []string{object}
								}
							}
						}
						answer, message := c.ask(t, export, f)
						require.Equal(t, want, answer, message)
						c.requireNothing(t, lack.touches)
						require.NotContains(t, message, password)
						messages[object] = strings.NewReplacer("cloud", "X", "who", "X", "nobody", "X").Replace(message)
					}
					require.Equal(t, messages["who"], messages["nobody"], "what exists looks like what does not")
					require.Equal(t, messages["cloud"], messages["nobody"], "what exists looks like what does not")
				}
			})
		}
	}
}

// requireNothing checks that a refused request has left no trace.
func (c *court) requireNothing(t *testing.T, touches bool) {
	t.Helper()
	require.Empty(t, c.events)
	require.Empty(t, c.inputs, "what may not be read does not wake anybody")
	if touches {
		return
	}
	require.Empty(t, c.driver.calls())
	require.Zero(t, c.home.requests+c.away.requests, "a refused request is not even asked")
}

// What is allowed and is not there may be known; of a Secret that includes its keys.
func TestAbsenceIsForThoseWhoMayRead(t *testing.T) {
	c := newCourt()
	c.plea.object.Name, c.plea.secret.Key = "nobody", "nope"
	for f, want := range map[abi.Function]string{abi.KubeGet: "absent", abi.KubeDelete: "ok", abi.SecretRead: "absent"} {
		answer, message := c.ask(t, abi.ExportProvision, f)
		require.Equal(t, want, answer, message)
	}
}

// TestEventsAreRationed: a call that talks is cut short, and its next request of another
// kind is still answered.
func TestEventsAreRationed(t *testing.T) {
	c := newCourt()
	c.plea.before = func(t *testing.T, ctx context.Context, host hostFunc) {
		for range 16 {
			require.Nil(t, ask(t, ctx, host, abi.Event, abi.EventRequest{Type: "Normal", Reason: "pool_exhausted"}, nil))
		}
	}
	for f, want := range map[abi.Function]string{abi.Event: "too_large", abi.KubeGet: "ok"} {
		c.events = nil
		answer, message := c.ask(t, abi.ExportProvision, f)
		require.Equal(t, want, answer, message)
		require.Len(t, c.events, 16)
	}
}

// TestHandlesOfOthers: a handle is worth something in its own call only, for its own
// owner, and wherever it is put, its secret does not come back to a guest.
func TestHandlesOfOthers(t *testing.T) {
	mine := newCourt()
	var stolen string
	mine.plea.before = func(t *testing.T, ctx context.Context, host hostFunc) {
		stolen = read(t, ctx, host, fromHome("password")).Handle
		require.NotEmpty(t, stolen)
		request, err := json.Marshal(abi.KubeApplyRequest{Object: json.RawMessage(fmt.Sprintf(
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"mirror","namespace":"kube-system"},"data":{"k":%q}}`, stolen))})
		require.NoError(t, err)
		require.NotContains(t, string(host(ctx, string(abi.KubeApply), request)), password, "an object keeps the handle")
	}
	answer, _ := mine.ask(t, abi.ExportProvision, abi.KubeGet)
	require.Equal(t, "ok", answer)

	theirs := newCourt()
	o := owner()
	o.Namespace, o.UID = "other", "u2"
	theirs.scope = scope.NewHome(o, nil, theirs.home)
	for reason, change := range map[string]func(spec *abi.AppSpec){
		"in a value":           func(s *abi.AppSpec) { s.Values = json.RawMessage(fmt.Sprintf(`{"a":[{"b":"x %s y"}]}`, stolen)) },
		"in a parameter":       func(s *abi.AppSpec) { s.Parameters = []abi.AppParameter{{Name: "a", Value: stolen}} },
		"in a key":             func(s *abi.AppSpec) { s.Values = json.RawMessage(fmt.Sprintf(`{%q:1}`, stolen)) },
		"in a parameter's key": func(s *abi.AppSpec) { s.Parameters = []abi.AppParameter{{Name: stolen, Value: "a"}} },
		"in a release":         func(s *abi.AppSpec) { s.Release = stolen },
		"in a namespace":       func(s *abi.AppSpec) { s.Namespace = stolen },
		"in a repository":      func(s *abi.AppSpec) { s.Repo = "https://" + stolen + "example.com" },
	} {
		theirs.plea.app = demoApp()
		change(&theirs.plea.app)
		answer, message := theirs.ask(t, abi.ExportProvision, abi.AppEnsure)
		require.Equal(t, "invalid", answer, "%s: %s", reason, message)
		require.NotContains(t, message, password)
	}
	require.Empty(t, theirs.driver.calls())
}
