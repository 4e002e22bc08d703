package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
)

// Credentials finds what to log in with. The zero [Credential] means anonymously. An
// error stops the operation and is returned as it is, wrapped; it must not hold secrets.
type Credentials interface {
	For(ctx context.Context, ref Reference) (Credential, error)
}

// CredentialsFunc is a function as [Credentials].
type CredentialsFunc func(ctx context.Context, ref Reference) (Credential, error)

// For implements [Credentials].
func (f CredentialsFunc) For(ctx context.Context, ref Reference) (Credential, error) {
	return f(ctx, ref)
}

var (
	_ Credentials = CredentialsFunc(nil)
	_ Credentials = (*dockerConfig)(nil)
	_ Credentials = localCredentials{}
)

// Credential is one way to log in. It prints as "[redacted]".
type Credential struct {
	Username, Password string
	// IdentityToken is exchanged for an access token by the registry's token service;
	// some cloud registries put nothing else into a pull secret.
	IdentityToken string
	// RegistryToken is sent as a bearer token as it is.
	RegistryToken string
}

// String implements fmt.Stringer so that no log or error shows a password.
func (Credential) String() string { return "[redacted]" }

// GoString implements fmt.GoStringer for the same reason.
func (Credential) GoString() string { return "registry.Credential{[redacted]}" }

func (c Credential) authenticator() authn.Authenticator {
	if c == (Credential{}) {
		return authn.Anonymous
	}
	return authn.FromConfig(authn.AuthConfig{
		Username: c.Username, Password: c.Password,
		IdentityToken: c.IdentityToken, RegistryToken: c.RegistryToken,
	})
}

// Anonymous returns credentials that log in nowhere.
func Anonymous() Credentials {
	return CredentialsFunc(func(context.Context, Reference) (Credential, error) { return Credential{}, nil })
}

// LocalCredentials returns the credentials of the person at the keyboard: what docker
// login, podman login or a credential helper left on this machine.
func LocalCredentials() Credentials { return localCredentials{} }

type localCredentials struct{}

// For implements [Credentials].
func (localCredentials) For(ctx context.Context, ref Reference) (Credential, error) {
	reg, err := name.NewRegistry(ref.Host())
	if err != nil {
		return Credential{}, fmt.Errorf("read the host of %s: %w", ref, err)
	}
	auth, err := authn.Resolve(ctx, authn.DefaultKeychain, reg)
	if err != nil {
		return Credential{}, fmt.Errorf("read the local registry logins for %s: %w", ref.Host(), err)
	}
	config, err := authn.Authorization(ctx, auth)
	if err != nil {
		return Credential{}, fmt.Errorf("read the local registry login for %s: %w", ref.Host(), err)
	}
	return credential(config), nil
}

func credential(config *authn.AuthConfig) Credential {
	return Credential{
		Username: config.Username, Password: config.Password,
		IdentityToken: config.IdentityToken, RegistryToken: config.RegistryToken,
	}
}

type dockerConfig struct {
	// byPrefix maps host or host/path, without scheme, to a login.
	byPrefix map[string]Credential
}

// DockerConfig reads the content of a pull secret: .dockerconfigjson of a Secret of
// type kubernetes.io/dockerconfigjson, or the older .dockercfg. The entry with the
// longest matching host/path is used, and none means anonymously. The error never
// quotes the content.
func DockerConfig(data []byte) (Credentials, error) {
	var config struct {
		Auths map[string]authn.AuthConfig `json:"auths"`
	}
	if err := json.Unmarshal(data, &config); err != nil {
		return nil, errors.New("the pull secret is not a docker config in JSON; create it with `kubectl create secret docker-registry`")
	}
	if config.Auths == nil {
		// The older format has the hosts at the top.
		if err := json.Unmarshal(data, &config.Auths); err != nil {
			return nil, errors.New("the pull secret has no auths; create it with `kubectl create secret docker-registry`")
		}
	}
	logins := &dockerConfig{byPrefix: make(map[string]Credential, len(config.Auths))}
	for key, auth := range config.Auths {
		logins.byPrefix[loginPrefix(key)] = credential(&auth)
	}
	return logins, nil
}

// loginPrefix turns the key of a login into host[/path]. Docker wrote
// https://index.docker.io/v1/ for Docker Hub, and API versions after other hosts.
func loginPrefix(key string) string {
	key = strings.TrimPrefix(strings.TrimPrefix(key, "https://"), "http://")
	key = strings.TrimSuffix(key, "/")
	key = strings.TrimSuffix(strings.TrimSuffix(key, "/v1"), "/v2")
	if host, path, found := strings.Cut(key, "/"); found {
		return canonicalHost(host) + "/" + path
	}
	return canonicalHost(key)
}

// canonicalHost gives Docker Hub one of its three names.
func canonicalHost(host string) string {
	host = strings.ToLower(host)
	if host == "docker.io" || host == "registry-1.docker.io" {
		return "index.docker.io"
	}
	return host
}

// For implements [Credentials].
func (d *dockerConfig) For(_ context.Context, ref Reference) (Credential, error) {
	for path := canonicalHost(ref.Host()) + "/" + ref.Repository(); ; {
		if login, found := d.byPrefix[path]; found {
			return login, nil
		}
		cut := strings.LastIndexByte(path, '/')
		if cut < 0 {
			return Credential{}, nil
		}
		path = path[:cut]
	}
}
