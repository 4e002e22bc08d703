package module_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/abi/abitest"
	"github.com/caisson-dev/caisson/host/capability"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/application"
	"github.com/caisson-dev/caisson/host/provisioner/module"
)

// The vectors of the ABI: what a host concludes from an answer.
func TestConformanceOfConclusions(t *testing.T) {
	abitest.CheckConclude(t, func(manifest *abi.Manifest, code int32, output []byte) abitest.Conclusion {
		w := newWorld(answers(code, string(output)))
		w.manifest = *manifest
		const before = `"before"`
		w.state.values, w.state.generation, w.state.sticky = map[string]string{nodePath: before}, map[string]string{nodePath: before}, map[string]string{nodePath: before}
		found := provisioner.OutcomeOf(w.provision(t))
		conclusion := abitest.Conclusion{
			Disposition: found.Headline.Disposition, Reason: found.Headline.Reason, Sentence: found.Headline.Sentence,
			Why: found.Headline.Why, RetryAfterSeconds: int(found.RetryAfter / time.Second), Facts: w.facts.values,
		}
		left := func(kind map[string]string) json.RawMessage {
			switch state, kept := kind[nodePath]; {
			case !kept:
				return json.RawMessage("null")
			case state != before:
				return json.RawMessage(state)
			default:
				return nil
			}
		}
		conclusion.State, conclusion.GenerationState, conclusion.StickyState = left(w.state.values), left(w.state.generation), left(w.state.sticky)
		return conclusion
	})
}

// The vectors of the ABI: every request that an SDK writes is one that the dispatcher
// understands, and its answer has the shape of the vector's.
func TestConformanceOfExchanges(t *testing.T) {
	set, err := abitest.Vectors()
	require.NoError(t, err)
	for _, vector := range set.Exchanges {
		t.Run(vector.Name, func(t *testing.T) {
			w := kubeWorld(cluster(nil,
				&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "ingress", UID: "u1"}},
				&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "cloud"}, Data: map[string][]byte{"cloud.conf": []byte("x"), "token": []byte("hello")}},
			), nil)
			w.manifest = set.Manifest
			w.grant.Kube = []capability.KubeRule{{Kinds: []string{"ConfigMap", "Service"}, Verbs: []string{"get", "list", "apply", "delete"}, Namespaces: []string{"*"}}}
			w.grant.Secrets = []capability.SecretRule{{Namespace: capability.OwnerNamespace, Names: []string{"cloud"}, Raw: true}}
			w.options.Catalogue = application.CatalogueFunc(func(context.Context, string) (*application.Entry, error) {
				return &application.Entry{Name: "postgres", Versions: []application.Version{{Version: "16.4.1", Repo: "oci://r/c", Chart: "postgres"}}}, nil
			})
			w.once(t, func(ctx context.Context, host hostFunc) {
				var want, got abi.Response
				require.NoError(t, json.Unmarshal(vector.Response, &want))
				require.NoError(t, json.Unmarshal(host(ctx, string(vector.Function), vector.Request), &got))
				if want.Error == nil {
					require.Nil(t, got.Error, vector.Reason)
					return
				}
				if got.Error != nil {
					require.Equal(t, want.Error.Code, got.Error.Code, vector.Reason)
				}
			})
		})
	}
}

// What a host writes is what a module must be able to read: every field of the envelope
// that the vectors know, spelled like that.
func TestConformanceOfEnvelopes(t *testing.T) {
	set, err := abitest.Vectors()
	require.NoError(t, err)
	known := map[string]bool{}
	for _, vector := range set.Inputs {
		want, err := json.Marshal(vector.Want)
		require.NoError(t, err)
		var fields map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(want, &fields))
		for name := range fields {
			known[name] = true
		}
	}
	w := newWorld(func(_ context.Context, _ string, input []byte, _ hostFunc) (int32, []byte, error) {
		var fields map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(input, &fields))
		for name, value := range fields {
			require.True(t, known[name], "field %s", name)
			require.NotEqual(t, "null", string(value), "optional fields are absent, never null")
		}
		for _, needed := range []string{"abi", "operation", "node", "owner", "config", "scope", "teardown", "installed", "now", "deadlineMillis"} {
			require.Contains(t, fields, needed)
		}
		return 0, nil, nil
	})
	require.NoError(t, w.provision(t))
	w.facts.values = map[string]json.RawMessage{"big": json.RawMessage(`9007199254740993`), "none": json.RawMessage(`null`)}
	w.state.values = map[string]string{nodePath: `{"price":1.10}`}
	w.guest = func(_ context.Context, _ string, input []byte, _ hostFunc) (int32, []byte, error) {
		require.Contains(t, string(input), `"big":9007199254740993`, "numbers keep every digit")
		require.Contains(t, string(input), `"none":null`, "null is a fact like any other")
		require.Contains(t, string(input), `{"price":1.10}`, "and their spelling")
		return 0, nil, nil
	}
	require.NoError(t, w.provision(t))
	require.NoError(t, w.deprovision(t))
}

// The budget of the pass and the module's own limit: the guest is told the shorter one.
func TestDeadline(t *testing.T) {
	for name, tc := range map[string]struct {
		timeout, pass, most time.Duration
	}{
		"Default": {0, 0, 30 * time.Second},
		"Own":     {2 * time.Second, 0, 2 * time.Second},
		"Pass":    {time.Hour, 5 * time.Second, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(nil)
			w.limits.Timeout = tc.timeout
			w.guest = func(ctx context.Context, _ string, input []byte, _ hostFunc) (int32, []byte, error) {
				var in abi.Input
				require.NoError(t, json.Unmarshal(input, &in))
				told := time.Duration(in.DeadlineMillis) * time.Millisecond
				require.Positive(t, told)
				require.LessOrEqual(t, told, tc.most)
				_, bounded := ctx.Deadline()
				require.Equal(t, tc.pass > 0, bounded, "the time of the call runs from when the runtime begins it, not while it waits")
				return 0, nil, nil
			}
			ctx := w.context(t)
			if tc.pass > 0 {
				bounded, cancel := context.WithTimeout(ctx, tc.pass)
				defer cancel()
				ctx = bounded
			}
			require.NoError(t, w.node().Provision(ctx))
		})
	}
}

// A guest that is told nothing but "timeout" by the end of its own deadline has had a
// fault, and the pass goes on.
func TestOwnDeadlineIsAFault(t *testing.T) {
	w := newWorld(func(context.Context, string, []byte, hostFunc) (int32, []byte, error) {
		return 0, nil, fault{reason: abi.ReasonTimeout, text: context.DeadlineExceeded.Error()}
	})
	found := provisioner.OutcomeOf(w.provision(t))
	require.Equal(t, abi.Retry, found.Class)
	require.Equal(t, abi.ReasonTimeout, found.Headline.Reason)
}

// The sentences of the host's own reasons cannot be changed by a manifest, even by one
// that should not have passed its validation.
func TestManifestCannotRewordTheHost(t *testing.T) {
	for _, own := range abi.HostReasons() {
		w := newWorld(answers(3, `{"reason":"`+own.Code+`"}`))
		w.manifest.Reasons = []abi.ReasonText{{Code: own.Code, Sentence: "Call this number."}}
		want := own.Sentence
		if _, given := abi.GivenSentence(own.Code); !given {
			want, _ = abi.HostSentence(abi.ReasonUnspecified)
		}
		require.Equal(t, want, provisioner.OutcomeOf(w.provision(t)).Headline.Sentence, own.Code)
	}
}

// What a guest says is bounded before anything keeps it, whatever the disposition.
func TestHugeAnswers(t *testing.T) {
	long := strings.Repeat("é", 1<<20)
	for name, tc := range map[string]struct {
		reason string
		output abi.Output
		code   string
	}{
		"Why":    {"the rest is cut off", abi.Output{Reason: abi.ReasonUnexpected, Why: long}, abi.ReasonUnexpected},
		"Reason": {"a reason is short, or none", abi.Output{Reason: long}, abi.ReasonUnspecified},
		"Fact":   {"a fact name is short", abi.Output{Facts: map[string]json.RawMessage{long: json.RawMessage("1")}}, abi.ReasonModuleBadOutput},
		"All":    {"the whole is bounded", abi.Output{Reason: long, Why: long + long}, abi.ReasonOutputTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := json.Marshal(tc.output)
			require.NoError(t, err)
			w := newWorld(answers(1, string(raw)))
			w.memo = module.NewMemo(1)
			for range 2 {
				found := provisioner.OutcomeOf(w.provision(t))
				require.Equal(t, tc.code, found.Headline.Reason, tc.reason)
				require.Less(t, len(found.Headline.Why), 9000, tc.reason)
			}
		})
	}
}
