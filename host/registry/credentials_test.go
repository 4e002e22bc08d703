package registry_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/host/registry"
	"github.com/caisson-dev/caisson/host/registry/registrytest"
)

const (
	user   = "robot"
	secret = "hunter2"
)

func jsonReplace(s string, pairs ...string) string { return strings.NewReplacer(pairs...).Replace(s) }

func login(username, password string) registry.Credentials {
	return registry.CredentialsFunc(func(context.Context, registry.Reference) (registry.Credential, error) {
		return registry.Credential{Username: username, Password: password}, nil
	})
}

func TestLogin(t *testing.T) {
	p := publish(t)
	p.Inject(registrytest.Login(user, secret))
	anonymous := newClient(t)

	_, err := anonymous.Resolve(t.Context(), p.ref)
	requireKind(t, err, registry.Unauthorized, p.ref.String())

	_, err = anonymous.WithCredentials(login(user, "wrong-password")).Resolve(t.Context(), p.ref)
	requireKind(t, err, registry.Unauthorized, p.ref.String())
	require.NotContains(t, err.Error(), "wrong-password")

	member := anonymous.WithCredentials(login(user, secret))
	digest, err := member.Resolve(t.Context(), p.ref)
	require.NoError(t, err)
	artifact, err := member.Pull(t.Context(), p.ref, digest)
	require.NoError(t, err)
	require.Equal(t, p.wasm, artifact.Wasm)
	_, err = member.Push(t.Context(), parse(t, p.Ref("acme/new:1")), p.wasm, nil)
	require.NoError(t, err)

	_, err = anonymous.Resolve(t.Context(), p.ref)
	require.ErrorIs(t, err, registry.Unauthorized, "a login stays with the client that has it")
}

// tokenService makes a registry demand bearer tokens, which it hands out under /token
// with the given answer to whoever passes check.
func tokenService(r *registrytest.Registry, answer string, check func(*http.Request) bool) registrytest.Fault {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Path == "/token" {
				if !check(req) {
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				_, _ = io.WriteString(w, answer)
				return
			}
			if req.Header.Get("Authorization") != "Bearer t0ken" {
				w.Header().Set("WWW-Authenticate", `Bearer realm="`+r.URL+`/token",service="test"`)
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			next.ServeHTTP(w, req)
		})
	}
}

func TestTokenLogin(t *testing.T) {
	basic := func(req *http.Request) bool {
		u, p, _ := req.BasicAuth()
		return u == user && p == secret && strings.HasPrefix(req.URL.Query().Get("scope"), "repository:acme/cilium:")
	}
	refresh := func(req *http.Request) bool { return req.FormValue("refresh_token") == secret }
	never := func(*http.Request) bool { return false }
	cases := map[string]struct {
		reason string
		login  registry.Credential
		check  func(*http.Request) bool
		kind   registry.Kind
	}{
		"Password": {reason: "a password is exchanged for a token", login: registry.Credential{Username: user, Password: secret}, check: basic},
		"Identity": {reason: "so is an identity token, which is all that some clouds give", login: registry.Credential{IdentityToken: secret}, check: refresh},
		"Token":    {reason: "a token is used as it is", login: registry.Credential{RegistryToken: "t0ken"}, check: never},
		"Wrong":    {reason: "a refusal by the token service is one by the registry", login: registry.Credential{Username: user, Password: "other"}, check: basic, kind: registry.Unauthorized},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := publish(t)
			p.Inject(tokenService(p.Registry, `{"access_token":"t0ken"}`, tc.check))
			client := newClient(t, func(o *registry.Options) {
				o.Credentials = registry.CredentialsFunc(func(context.Context, registry.Reference) (registry.Credential, error) { return tc.login, nil })
			})
			artifact, err := client.Pull(t.Context(), p.ref, p.digest)
			if tc.kind != "" {
				requireKind(t, err, tc.kind, p.ref.String())
				return
			}
			require.NoError(t, err, tc.reason)
			require.Equal(t, p.wasm, artifact.Wasm)
		})
	}
}

func TestTokenServiceIsNotQuoted(t *testing.T) {
	p := publish(t)
	p.Inject(tokenService(p.Registry, `{"refresh_token":"hunter2"}`, func(*http.Request) bool { return true }))
	_, err := newClient(t).WithCredentials(login(user, secret)).Resolve(t.Context(), p.ref)
	requireKind(t, err, registry.Unavailable, p.ref.String())
	require.NotContains(t, err.Error(), secret)
}

func TestCredentialsThatFail(t *testing.T) {
	p := publish(t)
	cause := errors.New("the Secret acme/pull does not exist")
	client := newClient(t, func(o *registry.Options) {
		o.Credentials = registry.CredentialsFunc(func(context.Context, registry.Reference) (registry.Credential, error) {
			return registry.Credential{}, cause
		})
	})
	_, err := client.Resolve(t.Context(), p.ref)
	require.ErrorIs(t, err, cause, "the caller's own error comes back")
	require.NotErrorIs(t, err, registry.Unavailable, "and is not read as the registry's")
	_, err = client.Push(t.Context(), p.ref, p.wasm, nil)
	require.ErrorIs(t, err, cause)
}

func TestLoginGoesToTheRegistryOnly(t *testing.T) {
	p := publish(t)
	elsewhere := publish(t)
	p.Inject(registrytest.Redirect(registrytest.Blobs, elsewhere.URL))
	p.Inject(registrytest.Login(user, secret))
	// The other host would answer a login with 401 only if none came.
	elsewhere.Inject(registrytest.Login(user, secret))
	_, err := newClient(t).WithCredentials(login(user, secret)).Pull(t.Context(), p.ref, p.digest)
	requireKind(t, err, registry.Unauthorized, p.ref.String())
}

func TestCredentialDoesNotPrint(t *testing.T) {
	c := registry.Credential{Username: user, Password: secret, IdentityToken: secret, RegistryToken: secret}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		require.NotContains(t, fmt.Sprintf(format, c), secret, format)
	}
}

func TestDockerConfig(t *testing.T) {
	auth := base64.StdEncoding.EncodeToString([]byte(user + ":" + secret))
	want := registry.Credential{Username: user, Password: secret}
	cases := map[string]struct {
		reason string
		config string
		ref    string
		want   registry.Credential
	}{
		"Host":       {reason: "the usual form", config: `{"auths":{"ghcr.io":{"auth":"AUTH"}}}`, ref: "ghcr.io/a:1", want: want},
		"Fields":     {reason: "kubectl writes both", config: `{"auths":{"ghcr.io":{"username":"robot","password":"hunter2"}}}`, ref: "ghcr.io/a:1", want: want},
		"Old":        {reason: ".dockercfg has the hosts at the top", config: `{"ghcr.io":{"auth":"AUTH"}}`, ref: "ghcr.io/a:1", want: want},
		"Address":    {reason: "docker login writes addresses", config: `{"auths":{"https://ghcr.io/v2/":{"auth":"AUTH"}}}`, ref: "ghcr.io/a:1", want: want},
		"DockerHub":  {reason: "Docker Hub has several names", config: `{"auths":{"https://index.docker.io/v1/":{"auth":"AUTH"}}}`, ref: "docker.io/library/a:1", want: want},
		"Path":       {reason: "a login may be for a path", config: `{"auths":{"ghcr.io/acme":{"auth":"AUTH"}}}`, ref: "ghcr.io/acme/a:1", want: want},
		"OtherPath":  {reason: "and is for no other", config: `{"auths":{"ghcr.io/acme":{"auth":"AUTH"}}}`, ref: "ghcr.io/acmeinc/a:1"},
		"Longest":    {reason: "the most specific login counts", config: `{"auths":{"ghcr.io":{"username":"x","password":"y"},"ghcr.io/acme":{"auth":"AUTH"}}}`, ref: "ghcr.io/acme/a:1", want: want},
		"OtherHost":  {reason: "a login is never sent elsewhere", config: `{"auths":{"ghcr.io":{"auth":"AUTH"}}}`, ref: "evil.ghcr.io.example/a:1"},
		"OtherPort":  {reason: "a port is another registry", config: `{"auths":{"ghcr.io":{"auth":"AUTH"}}}`, ref: "ghcr.io:5000/a:1"},
		"Identity":   {reason: "cloud registries give a token only", config: `{"auths":{"ghcr.io":{"identitytoken":"tok"}}}`, ref: "ghcr.io/a:1", want: registry.Credential{IdentityToken: "tok"}},
		"NoneAtAll":  {reason: "an empty config is anonymous", config: `{"auths":{}}`, ref: "ghcr.io/a:1"},
		"PortInHost": {reason: "a key may have a port", config: `{"auths":{"localhost:5000":{"auth":"AUTH"}}}`, ref: "localhost:5000/a:1", want: want},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			credentials, err := registry.DockerConfig([]byte(jsonReplace(tc.config, "AUTH", auth)))
			require.NoError(t, err, tc.reason)
			got, err := credentials.For(t.Context(), parse(t, tc.ref))
			require.NoError(t, err, tc.reason)
			require.Equal(t, tc.want, got, tc.reason)
		})
	}
	for _, broken := range []string{"", "hunter2", `["hunter2"]`, `{"auths":{"ghcr.io":{"auth":"hunter2!"}}}`, `{"hunter2":"hunter2"}`} {
		_, err := registry.DockerConfig([]byte(broken))
		require.Error(t, err, broken)
		require.NotContains(t, err.Error(), secret, "an error never quotes a secret")
	}
}

func TestLocalCredentials(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("DOCKER_CONFIG", dir)
	auth := base64.StdEncoding.EncodeToString([]byte(user + ":" + secret))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"auths":{"ghcr.io":{"auth":"`+auth+`"}}}`), 0o600))
	got, err := registry.LocalCredentials().For(t.Context(), parse(t, "ghcr.io/a:1"))
	require.NoError(t, err)
	require.Equal(t, registry.Credential{Username: user, Password: secret}, got)
	got, err = registry.LocalCredentials().For(t.Context(), parse(t, "quay.io/a:1"))
	require.NoError(t, err)
	require.Equal(t, registry.Credential{}, got, "an unknown host is anonymous")
}

func FuzzDockerConfig(f *testing.F) {
	f.Add([]byte(`{"auths":{"ghcr.io":{"auth":"YTpi"}}}`))
	f.Add([]byte(`{"ghcr.io":{"auth":"YTpi"}}`))
	f.Add([]byte(`{"auths":{"https://":{}}}`))
	ref, err := registry.ParseReference("ghcr.io/acme/a:1")
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, data []byte) {
		credentials, err := registry.DockerConfig(data)
		if err != nil {
			return
		}
		_, err = credentials.For(t.Context(), ref)
		require.NoError(t, err)
	})
}
