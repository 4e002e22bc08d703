package abitest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/abi/abitest"
)

// recorder stands in for a *testing.T, so that failing checks can be looked at.
type recorder struct{ errors []string }

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}
func (r *recorder) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func vectors(t *testing.T) *abitest.Set {
	t.Helper()
	set, err := abitest.Vectors()
	require.NoError(t, err)
	return set
}

func TestVectorsAreComplete(t *testing.T) {
	set := vectors(t)
	require.NoError(t, set.Manifest.Validate())

	names := map[string]bool{}
	for _, v := range set.Inputs {
		names["input "+v.Name] = true
		require.NotEmpty(t, v.Reason)
	}
	dispositions := map[abi.Disposition]bool{}
	for _, v := range set.Answers {
		names["answer "+v.Name] = true
		require.NotEmpty(t, v.Reason)
		if v.Canonical {
			dispositions[v.Want.Disposition] = true
		}
		if v.Want.Disposition == abi.OK {
			require.Empty(t, v.Want.Reason)
			continue
		}
		sentence, own := abi.HostSentence(v.Want.Reason)
		if !own {
			sentence, own = set.Manifest.Sentence(v.Want.Reason)
		}
		require.True(t, own, "%s: users are only shown what is declared", v.Name)
		require.Equal(t, sentence, v.Want.Sentence, v.Name)
	}
	require.Len(t, dispositions, 5, "every disposition can be written")
	functions := map[abi.Function]bool{}
	for _, v := range set.Exchanges {
		names["exchange "+v.Name] = true
		require.NotEmpty(t, v.Reason)
		functions[v.Function] = true
	}
	require.Len(t, functions, len(abi.Functions()), "every host function has an exchange")
	require.Len(t, names, len(set.Inputs)+len(set.Answers)+len(set.Exchanges), "names are unique")
}

// wireTypes are the request and the result of each host function.
func wireTypes(f abi.Function) (request, result any) {
	switch f {
	case abi.AppEnsure:
		return &abi.AppSpec{}, &abi.AppStatus{}
	case abi.AppRemove:
		return &abi.AppRef{}, &abi.AppStatus{}
	case abi.AppList:
		return &abi.AppListRequest{}, &abi.AppListResult{}
	case abi.KubeGet:
		return &abi.KubeGetRequest{}, &abi.KubeGetResult{}
	case abi.KubeList:
		return &abi.KubeListRequest{}, &abi.KubeListResult{}
	case abi.KubeApply:
		return &abi.KubeApplyRequest{}, &abi.KubeApplyResult{}
	case abi.KubeDelete:
		return &abi.KubeDeleteRequest{}, &abi.KubeDeleteResult{}
	case abi.SecretRead:
		return &abi.SecretReadRequest{}, &abi.SecretReadResult{}
	case abi.Event:
		return &abi.EventRequest{}, &abi.EventResult{}
	default:
		return nil, nil
	}
}

// strict decodes and encodes again; nothing may be lost or unknown.
func strict(t *testing.T, name string, raw json.RawMessage, into any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(into), name)
	again, err := json.Marshal(into)
	require.NoError(t, err)
	require.JSONEq(t, string(raw), string(again), name)
}

func TestExchangesAreOfTheWireTypes(t *testing.T) {
	for _, v := range vectors(t).Exchanges {
		request, result := wireTypes(v.Function)
		require.NotNil(t, request, "%s: %s is no host function", v.Name, v.Function)
		strict(t, v.Name, v.Request, request)
		var response abi.Response
		strict(t, v.Name, v.Response, &response)
		require.NotEqual(t, response.Result == nil, response.Error == nil, "%s: a response is a result or an error", v.Name)
		if response.Result != nil {
			strict(t, v.Name, response.Result, result)
		}
	}
}

// conclude is SPEC.md's section on answers, word by word, to prove that the vectors
// agree with each other and with the text.
func conclude(m *abi.Manifest, code int32, output []byte) abitest.Conclusion {
	fail := func(reason, why string) abitest.Conclusion {
		sentence, _ := abi.HostSentence(reason)
		return abitest.Conclusion{Disposition: abi.Retry, Reason: reason, Sentence: sentence, Why: why}
	}
	d := abi.Disposition(code)
	if !d.Valid() {
		return fail(abi.ReasonModuleBadCode, "code "+strconv.Itoa(int(code)))
	}
	var out abi.Output
	output = bytes.TrimSpace(output)
	if len(output) > 0 {
		if output[0] != '{' {
			return fail(abi.ReasonModuleBadOutput, "not an object")
		}
		if err := json.Unmarshal(output, &out); err != nil {
			return fail(abi.ReasonModuleBadOutput, err.Error())
		}
	}
	c := abitest.Conclusion{Disposition: d, Facts: out.Facts, State: out.State, GenerationState: out.GenerationState, StickyState: out.StickyState, Why: out.Why, RetryAfterSeconds: max(out.RetryAfterSeconds, 0)}
	if d == abi.OK {
		return c
	}
	if out.Reason == "" {
		return fail(abi.ReasonUnspecified, out.Why)
	}
	c.Reason = out.Reason
	sentence, known := m.Sentence(out.Reason)
	if !known {
		sentence, known = abi.GivenSentence(out.Reason)
	}
	if !known {
		c.Why = "undeclared reason " + out.Reason + " " + out.Why
		c.Reason = abi.ReasonUnspecified
		sentence, _ = abi.HostSentence(c.Reason)
	}
	c.Sentence = sentence
	return c
}

func read(envelope []byte) (abi.Input, error) {
	var in abi.Input
	err := json.Unmarshal(envelope, &in)
	return in, err
}

func write(c abitest.Conclusion) (int32, []byte) {
	out, err := json.Marshal(abi.Output{Reason: c.Reason, Why: c.Why, RetryAfterSeconds: c.RetryAfterSeconds, Facts: c.Facts, State: c.State, GenerationState: c.GenerationState, StickyState: c.StickyState})
	if err != nil {
		return -1, nil
	}
	return int32(c.Disposition), out
}

// ask makes the call of a vector by copying its request.
func ask(set *abitest.Set) func(string, func(abi.Function, []byte) []byte) bool {
	return func(name string, answer func(abi.Function, []byte) []byte) bool {
		for _, v := range set.Exchanges {
			if v.Name == name {
				answer(v.Function, v.Request)
				return true
			}
		}
		return false
	}
}

func TestAgreement(t *testing.T) {
	abitest.CheckRead(t, read)
	abitest.CheckWrite(t, write)
	abitest.CheckConclude(t, conclude)
	abitest.CheckExchanges(t, ask(vectors(t)))
}

func TestChecksFail(t *testing.T) {
	set := vectors(t)
	cases := map[string]struct {
		reason string
		check  func(tb abitest.TB)
		want   string
	}{
		"StrictReader": {reason: "an SDK that refuses what it does not know", want: "fields of a later minor version", check: func(tb abitest.TB) {
			abitest.CheckRead(tb, func(envelope []byte) (abi.Input, error) {
				var in abi.Input
				d := json.NewDecoder(bytes.NewReader(envelope))
				d.DisallowUnknownFields()
				return in, d.Decode(&in)
			})
		}},
		"FloatReader": {reason: "an SDK that reads numbers as floats", want: "deprovision on a remote", check: func(tb abitest.TB) {
			abitest.CheckRead(tb, func(envelope []byte) (abi.Input, error) {
				in, err := read(envelope)
				var config any
				if err == nil {
					err = json.Unmarshal(in.Config, &config)
				}
				if err == nil {
					in.Config, err = json.Marshal(config)
				}
				return in, err
			})
		}},
		"Writer": {reason: "an SDK that forgets that null drops the state", want: "state dropped", check: func(tb abitest.TB) {
			abitest.CheckWrite(tb, func(c abitest.Conclusion) (int32, []byte) {
				if string(c.State) == "null" {
					c.State = nil
				}
				return write(c)
			})
		}},
		"WriterCode": {reason: "an SDK with other numbers", want: "answer terminal", check: func(tb abitest.TB) {
			abitest.CheckWrite(tb, func(c abitest.Conclusion) (int32, []byte) {
				code, out := write(c)
				return min(code, 3), out
			})
		}},
		"WriterGarbage": {reason: "an SDK that does not write JSON", want: "answer ok", check: func(tb abitest.TB) {
			abitest.CheckWrite(tb, func(abitest.Conclusion) (int32, []byte) { return 0, []byte("done") })
		}},
		"Trusting": {reason: "a host that shows what a guest says", want: "reason malformed", check: func(tb abitest.TB) {
			abitest.CheckConclude(tb, func(m *abi.Manifest, code int32, output []byte) abitest.Conclusion {
				c := conclude(m, code, output)
				if _, shown, ok := strings.Cut(string(output), `"reason":"Please`); ok {
					c.Sentence = "Please" + shown
				}
				return c
			})
		}},
		"Silent": {reason: "a host that does not log what it replaced", want: `does not contain "made_up"`, check: func(tb abitest.TB) {
			abitest.CheckConclude(tb, func(m *abi.Manifest, code int32, output []byte) abitest.Conclusion {
				c := conclude(m, code, output)
				c.Why = ""
				return c
			})
		}},
		"Asker": {reason: "an SDK that asks for something else", want: "exchange app_list", check: func(tb abitest.TB) {
			abitest.CheckExchanges(tb, func(name string, answer func(abi.Function, []byte) []byte) bool {
				if name == "app_list" {
					answer(abi.AppList, []byte(`{"all":true}`))
					return true
				}
				return ask(set)(name, answer)
			})
		}},
		"Unknown": {reason: "an SDK that skips a vector", want: "known false", check: func(tb abitest.TB) {
			abitest.CheckExchanges(tb, func(string, func(abi.Function, []byte) []byte) bool { return false })
		}},
		"Twice": {reason: "an SDK that asks twice", want: "calls 2", check: func(tb abitest.TB) {
			abitest.CheckExchanges(tb, func(name string, answer func(abi.Function, []byte) []byte) bool {
				ask(set)(name, answer)
				return ask(set)(name, answer)
			})
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := &recorder{}
			c.check(r)
			require.NotEmpty(t, r.errors, c.reason)
			require.Contains(t, strings.Join(r.errors, "\n"), c.want, c.reason)
		})
	}
}
