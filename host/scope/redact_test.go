package scope_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/scope"
)

// TestNothingPrintsACredential prints everything that holds one in every way that a log
// may.
func TestNothingPrintsACredential(t *testing.T) {
	certPEM, keyPEM := keyPair(t, "client")
	config := kubeconfig("https://cluster.example:6443")
	*config.AuthInfos["their-user"] = *config.AuthInfos["their-user"].DeepCopy()
	config.AuthInfos["their-user"].ClientCertificateData, config.AuthInfos["their-user"].ClientKeyData = certPEM, keyPEM
	cache := scope.NewClientCache(scope.ClientCacheOptions{})
	connection, err := cache.Remote(config)
	require.NoError(t, err)
	remote := scope.RemoteCluster{
		ID: scope.ResourceIdentifier{Path: "remote/a", Name: "a"}, Config: connection.Config(), Client: connection.Client(), State: abi.ScopeReady,
	}
	inside := scope.NewHome(scope.Owner{}, connection.Config(), connection.Client()).Remote(remote)
	secrets := []string{"s3cr3t", "PRIVATE KEY", strings.Split(string(keyPEM), "\n")[1]}
	secrets = append(secrets, fmt.Sprintf("%v", []byte("s3cr3t")), fmt.Sprintf("%x", "s3cr3t"), fmt.Sprintf("%q", "s3cr3t"))

	for name, value := range map[string]any{
		"Connection": connection, "Scope": inside, "Home": inside.Home(), "RemoteCluster": remote, "RemoteClusterPointer": &remote,
		"Options": scope.ClientCacheOptions{Home: connection.Config()}, "Cache": cache, "Config": connection.Config(),
		"InAList": []any{connection, inside, remote}, "InAStruct": struct{ Connection, Scope, Remote any }{connection, inside, remote},
	} {
		t.Run(name, func(t *testing.T) {
			var written bytes.Buffer
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
				fmt.Fprintf(&written, verb+"\n", value)
			}
			raw, err := json.Marshal(value)
			if err == nil { // some of the libraries' own types have no JSON at all
				written.Write(raw)
			}
			slog.New(slog.NewTextHandler(&written, nil)).Info("x", "value", value)
			slog.New(slog.NewJSONHandler(&written, nil)).Info("x", "value", value)
			for _, secret := range secrets {
				require.NotContains(t, written.String(), secret)
			}
		})
	}
	require.Equal(t, "scope.Connection(cluster.example)", connection.String())
	require.Equal(t, "scope.Scope(remote/a, ready)", inside.String())
	require.Equal(t, "scope.Scope(home, ready)", inside.Home().String())
	require.Equal(t, "scope.RemoteCluster(remote/a, ready)", remote.String())
	require.Contains(t, (*scope.Connection)(nil).String(), "redacted")
	encoded, err := clientcmd.Write(*connection.Kubeconfig())
	require.NoError(t, err)
	require.Contains(t, string(encoded), "s3cr3t", "the test looks for what is there")
}
