package scope_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/host/scope"
)

// BenchmarkRemoteCached is what a pass pays for a remote that it knows.
func BenchmarkRemoteCached(b *testing.B) {
	cache := scope.NewClientCache(scope.ClientCacheOptions{})
	config := kubeconfig("https://cluster.example:6443")
	certPEM, keyPEM := keyPair(b, "client")
	config.AuthInfos["their-user"].ClientCertificateData, config.AuthInfos["their-user"].ClientKeyData = certPEM, keyPEM
	for b.Loop() {
		_, err := cache.Remote(config)
		require.NoError(b, err)
	}
	require.Equal(b, 1, cache.Len())
}
