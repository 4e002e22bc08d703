package module_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/capability"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

const password = "hunter2-correct-horse"

func cloudSecret(namespace, text string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cloud", ResourceVersion: "8"},
		Data:       map[string][]byte{"password": []byte(text), "binary": {0xff, 0xfe}, "empty": {}},
	}
}

func secretWorld(home, away client.Client) *world {
	w := newWorld(nil)
	w.scope = scope.NewHome(owner(), nil, home)
	if away != nil {
		w.remote(away, abi.ScopeReady, abi.Drain)
	}
	w.grant.Secrets = []capability.SecretRule{{Namespace: capability.OwnerNamespace, Names: []string{"*"}}}
	return w
}

var handlePattern = regexp.MustCompile(`^caisson-secret:[0-9a-f]{32}:$`)

func fromHome(key string) abi.SecretReadRequest {
	return abi.SecretReadRequest{Scope: abi.ScopeHome, Name: "cloud", Key: key}
}

func TestSecretRead(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "cloud", nil)
	raw := func(w *world) { w.grant.Secrets[0].Raw = true }
	cases := map[string]struct {
		reason  string
		request abi.SecretReadRequest
		change  func(w *world)
		failure error
		code    abi.ErrorCode
		inputs  []provisioner.Input
	}{
		"Handle":        {reason: "the owner's namespace is the default at home", request: fromHome("password"), inputs: []provisioner.Input{{ScopeID: "home", Kind: "Secret", Namespace: "team", Name: "cloud", Version: "8"}}},
		"Empty":         {reason: "an empty value is a value", request: fromHome("empty"), inputs: []provisioner.Input{{ScopeID: "home", Kind: "Secret", Namespace: "team", Name: "cloud", Version: "8"}}},
		"Raw":           {reason: "the bytes, if granted", request: abi.SecretReadRequest{Scope: abi.ScopeHome, Name: "cloud", Key: "password", Raw: true}, change: raw, inputs: []provisioner.Input{{ScopeID: "home", Kind: "Secret", Namespace: "team", Name: "cloud", Version: "8"}}},
		"RawDenied":     {reason: "only if granted", request: abi.SecretReadRequest{Scope: abi.ScopeHome, Name: "cloud", Key: "password", Raw: true}, code: abi.CodeDenied},
		"Denied":        {reason: "no rule", request: fromHome("password"), change: func(w *world) { w.grant.Secrets = nil }, code: abi.CodeDenied},
		"NotGranted":    {reason: "no function", request: fromHome("password"), change: func(w *world) { w.grant.Capabilities = nil }, code: abi.CodeDenied},
		"NotDeclared":   {reason: "no declaration", request: fromHome("password"), change: func(w *world) { w.manifest.Capabilities = nil }, code: abi.CodeDenied},
		"OtherTenant":   {reason: "another namespace", request: abi.SecretReadRequest{Scope: abi.ScopeHome, Namespace: "other", Name: "cloud", Key: "password"}, code: abi.CodeDenied},
		"Current":       {reason: "the default rule is for home, and the default scope is current", request: abi.SecretReadRequest{Namespace: "team", Name: "cloud", Key: "password"}, code: abi.CodeDenied},
		"CurrentNoNS":   {reason: "a remote has no default namespace", request: abi.SecretReadRequest{Name: "cloud", Key: "password"}, code: abi.CodeInvalid},
		"Scope":         {reason: "two scopes", request: abi.SecretReadRequest{Scope: "moon", Name: "cloud", Key: "password"}, code: abi.CodeInvalid},
		"Name":          {reason: "a name must not climb", request: abi.SecretReadRequest{Scope: abi.ScopeHome, Name: "../cloud", Key: "password"}, code: abi.CodeInvalid},
		"Namespace":     {reason: "a namespace neither", request: abi.SecretReadRequest{Scope: abi.ScopeHome, Namespace: "$(owner)", Name: "cloud", Key: "password"}, code: abi.CodeInvalid},
		"Key":           {reason: "a key has a shape", request: fromHome("a/b"), code: abi.CodeInvalid},
		"NoKey":         {reason: "and is not empty", request: fromHome(""), code: abi.CodeInvalid},
		"Encoding":      {reason: "two encodings", request: abi.SecretReadRequest{Scope: abi.ScopeHome, Name: "cloud", Key: "password", Encoding: "hex"}, code: abi.CodeInvalid},
		"Binary":        {reason: "text is UTF-8", request: fromHome("binary"), code: abi.CodeInvalid, inputs: []provisioner.Input{{ScopeID: "home", Kind: "Secret", Namespace: "team", Name: "cloud", Version: "8"}}},
		"BinaryEncoded": {reason: "base64 takes everything", request: abi.SecretReadRequest{Scope: abi.ScopeHome, Name: "cloud", Key: "binary", Encoding: abi.EncodingBase64}, inputs: []provisioner.Input{{ScopeID: "home", Kind: "Secret", Namespace: "team", Name: "cloud", Version: "8"}}},
		"AbsentKey":     {reason: "a change of the Secret wakes", request: fromHome("nope"), code: abi.CodeAbsent, inputs: []provisioner.Input{{ScopeID: "home", Kind: "Secret", Namespace: "team", Name: "cloud", Version: "8"}}},
		"Absent":        {reason: "its creation wakes", request: abi.SecretReadRequest{Scope: abi.ScopeHome, Name: "nope", Key: "k"}, code: abi.CodeAbsent, inputs: []provisioner.Input{{ScopeID: "home", Kind: "Secret", Namespace: "team", Name: "nope", Absent: true}}},
		"Forbidden":     {reason: "the tenant lacks a right", request: fromHome("password"), failure: forbidden, code: abi.CodeForbidden},
		"Unreachable":   {reason: "no answer is no absence", request: fromHome("password"), failure: errDial, code: abi.CodeUnavailable},
		"NoSecretKey":   {reason: "without a key there are no digests", request: fromHome("password"), change: func(w *world) { w.options.SecretKey = []byte("short") }, code: abi.CodeUnsupported},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := secretWorld(cluster(tc.failure, cloudSecret("team", password), cloudSecret("other", "x")), cluster(nil, cloudSecret("team", "away")))
			if tc.change != nil {
				tc.change(w)
			}
			w.once(t, func(ctx context.Context, host hostFunc) {
				var result abi.SecretReadResult
				callError := ask(t, ctx, host, abi.SecretRead, tc.request, &result)
				if tc.code != "" {
					require.NotNil(t, callError, tc.reason)
					require.Equal(t, tc.code, callError.Code, tc.reason)
					require.NotContains(t, callError.Message, password)
					return
				}
				require.Nil(t, callError, tc.reason)
				require.Regexp(t, `^[0-9a-f]{64}$`, result.Digest)
				if tc.request.Raw {
					require.Equal(t, password, string(result.Value), tc.reason)
					require.Empty(t, result.Handle)
					return
				}
				require.Regexp(t, handlePattern, result.Handle)
				require.Empty(t, result.Value, "no bytes without raw")
			})
			require.Equal(t, tc.inputs, w.inputs, tc.reason)
		})
	}
}

// read reads the password and returns its handle and digest.
func read(t *testing.T, ctx context.Context, host hostFunc, request abi.SecretReadRequest) abi.SecretReadResult {
	t.Helper()
	var result abi.SecretReadResult
	require.Nil(t, ask(t, ctx, host, abi.SecretRead, request, &result))
	return result
}

// installWithSecret is the body of a module that puts a password into its values.
func installWithSecret(t *testing.T) func(ctx context.Context, host hostFunc) {
	t.Helper()
	return func(ctx context.Context, host hostFunc) {
		plain := read(t, ctx, host, fromHome("password"))
		encoded := fromHome("password")
		encoded.Encoding = abi.EncodingBase64
		base := read(t, ctx, host, encoded)
		spec := demoApp()
		values, err := json.Marshal(map[string]any{
			"ini":  "[global]\npassword = " + plain.Handle + "\n",
			"list": []any{map[string]any{"b64": base.Handle}}, "hash": plain.Digest,
		})
		require.NoError(t, err)
		spec.Values = values
		spec.Parameters = []abi.AppParameter{{Name: "p", Value: plain.Handle}}
		require.Nil(t, ask(t, ctx, host, abi.AppEnsure, spec, nil))
	}
}

func TestHandlesAreExpandedForTheDriverOnly(t *testing.T) {
	w := secretWorld(cluster(nil, cloudSecret("team", password)), nil)
	w.once(t, installWithSecret(t))
	app := w.driver.apps[0]
	text, err := json.Marshal(app)
	require.Error(t, err, "a function does not encode, so an application cannot be logged by accident")
	require.NotContains(t, string(text), password)
	values, err := json.Marshal(app.Values)
	require.NoError(t, err)
	require.NotContains(t, string(values), password)
	ini, err := app.Secrets(app.Values["ini"].(string))
	require.NoError(t, err)
	require.Equal(t, "[global]\npassword = "+password+"\n", ini)
	b64, err := app.Secrets(app.Values["list"].([]any)[0].(map[string]any)["b64"].(string))
	require.NoError(t, err)
	require.Equal(t, base64.StdEncoding.EncodeToString([]byte(password)), b64)
	parameter, err := app.Secrets(app.Parameters[0].Value)
	require.NoError(t, err)
	require.Equal(t, password, parameter)
	plain, err := app.Secrets("nothing to see")
	require.NoError(t, err)
	require.Equal(t, "nothing to see", plain)
	_, err = app.Secrets("caisson-secret:00000000000000000000000000000000:")
	require.Error(t, err, "a handle that nobody gave out")
}

// Handles differ in each call; what identifies the values must not, and must change with
// the secret.
func TestValuesDigest(t *testing.T) {
	digestOf := func(text string, change func(w *world)) (string, string) {
		w := secretWorld(cluster(nil, cloudSecret("team", text)), nil)
		if change != nil {
			change(w)
		}
		w.once(t, installWithSecret(t))
		handle := w.driver.apps[0].Parameters[0].Value
		require.Regexp(t, handlePattern, handle)
		return w.driver.apps[0].ValuesDigest, handle
	}
	first, handle := digestOf(password, nil)
	again, other := digestOf(password, nil)
	require.NotEqual(t, handle, other, "a handle is random")
	require.Equal(t, first, again, "an unchanged pass has an unchanged digest")
	require.NotContains(t, first, "caisson-secret")
	changed, _ := digestOf("rotated", nil)
	require.NotEqual(t, first, changed, "a rotated secret is an upgrade")
	keyed, _ := digestOf(password, func(w *world) { w.options.SecretKey = []byte("another key of the host") })
	require.NotEqual(t, first, keyed, "nobody can compute it without the key")
	stranger, _ := digestOf(password, func(w *world) {
		o := owner()
		o.UID = "u2"
		w.scope = scope.NewHome(o, nil, w.scope.Client())
	})
	require.NotEqual(t, first, stranger, "nobody can compare digests with those of another owner")
}

func TestDigestOfEqualBytesIsStable(t *testing.T) {
	w := secretWorld(cluster(nil, cloudSecret("team", password)), nil)
	w.once(t, func(ctx context.Context, host hostFunc) {
		a, b := read(t, ctx, host, fromHome("password")), read(t, ctx, host, fromHome("password"))
		require.Equal(t, a.Digest, b.Digest)
		require.NotEqual(t, a.Handle, b.Handle)
		require.NotEqual(t, a.Digest, read(t, ctx, host, fromHome("empty")).Digest)
	})
}

func TestHandlesAreVoidAfterTheCall(t *testing.T) {
	w := secretWorld(cluster(nil, cloudSecret("team", password)), nil)
	var kept string
	w.once(t, func(ctx context.Context, host hostFunc) { kept = read(t, ctx, host, fromHome("password")).Handle })
	w.once(t, func(ctx context.Context, host hostFunc) {
		spec := demoApp()
		spec.Parameters = []abi.AppParameter{{Name: "p", Value: kept}}
		require.Equal(t, abi.CodeInvalid, ask(t, ctx, host, abi.AppEnsure, spec, nil).Code)
	})
}

func TestHandlesBelongIntoStrings(t *testing.T) {
	w := secretWorld(cluster(nil, cloudSecret("team", password)), nil)
	w.once(t, func(ctx context.Context, host hostFunc) {
		handle := read(t, ctx, host, fromHome("password")).Handle
		for reason, change := range map[string]func(s *abi.AppSpec){
			"not a key": func(s *abi.AppSpec) { s.Values = json.RawMessage(`{"a":{"` + handle + `":1}}`) },
			"not a --set path": func(s *abi.AppSpec) {
				s.Parameters = []abi.AppParameter{{Name: handle, Value: "x"}}
			},
			"not a namespace": func(s *abi.AppSpec) { s.Namespace = handle },
			"not a version":   func(s *abi.AppSpec) { s.Version = handle },
			"not a chart":     func(s *abi.AppSpec) { s.Chart = handle },
			"not a host":      func(s *abi.AppSpec) { s.Repo = "https://" + handle + "example.com" },
		} {
			spec := demoApp()
			change(&spec)
			require.Equal(t, abi.CodeInvalid, ask(t, ctx, host, abi.AppEnsure, spec, nil).Code, reason)
		}
	})
	require.Empty(t, w.driver.calls())
}

func TestHandlesAreBounded(t *testing.T) {
	w := secretWorld(cluster(nil, cloudSecret("team", password)), nil)
	w.once(t, func(ctx context.Context, host hostFunc) {
		for range 256 {
			read(t, ctx, host, fromHome("password"))
		}
		require.Equal(t, abi.CodeTooLarge, ask(t, ctx, host, abi.SecretRead, fromHome("password"), nil).Code)
	})
}

// A Secret of a remote can be granted, is read there, and is recorded with its scope.
func TestSecretOfRemote(t *testing.T) {
	w := secretWorld(cluster(nil, cloudSecret("team", password)), cluster(nil, cloudSecret("kube-system", "away")))
	w.grant.Secrets = []capability.SecretRule{{Namespace: "kube-system", Names: []string{"cloud"}, Scopes: []abi.KubeScope{abi.ScopeCurrent}}}
	w.once(t, func(ctx context.Context, host hostFunc) {
		handle := read(t, ctx, host, abi.SecretReadRequest{Namespace: "kube-system", Name: "cloud", Key: "password"}).Handle
		spec := demoApp()
		spec.Parameters = []abi.AppParameter{{Name: "p", Value: handle}}
		require.Nil(t, ask(t, ctx, host, abi.AppEnsure, spec, nil))
	})
	text, err := w.driver.apps[0].Secrets(w.driver.apps[0].Parameters[0].Value)
	require.NoError(t, err)
	require.Equal(t, "away", text)
	require.Equal(t, []provisioner.Input{{ScopeID: w.scope.ID(), Kind: "Secret", Namespace: "kube-system", Name: "cloud", Version: "8"}}, w.inputs)
}
