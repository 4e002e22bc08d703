package scope_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/caisson-dev/caisson/host/scope"
)

func TestRESTConfig(t *testing.T) {
	for name, test := range map[string]struct {
		reason string
		user   clientcmdapi.AuthInfo
		policy scope.KubeconfigPolicy
		want   rest.Config
	}{
		"Token": {
			"a token is carried over, and the defaults limit the client (case 78)",
			clientcmdapi.AuthInfo{Token: "s3cr3t"}, scope.KubeconfigPolicy{},
			rest.Config{BearerToken: "s3cr3t", Timeout: scope.DefaultTimeout, QPS: scope.DefaultQPS, Burst: scope.DefaultBurst},
		},
		"Password": {
			"so is a password, and the policy's limits win",
			clientcmdapi.AuthInfo{Username: "u", Password: "p"}, scope.KubeconfigPolicy{Timeout: time.Second, QPS: 1, Burst: 2},
			rest.Config{Username: "u", Password: "p", Timeout: time.Second, QPS: 1, Burst: 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			config := kubeconfig("https://cluster.example:6443")
			*config.AuthInfos["their-user"] = test.user
			config.Clusters["their-cluster"].TLSServerName = "kubernetes"
			got, err := scope.RESTConfig(config, test.policy)
			require.NoError(t, err)
			test.want.Host, test.want.UserAgent = "https://cluster.example:6443", "caisson"
			test.want.ServerName = "kubernetes"
			require.Equal(t, &test.want, got, test.reason)
		})
	}
}

func TestRESTConfigCarriesCertificates(t *testing.T) {
	certPEM, keyPEM := keyPair(t, "client")
	config := kubeconfig("https://cluster.example:6443")
	config.Clusters["their-cluster"].CertificateAuthorityData = certPEM
	*config.AuthInfos["their-user"] = clientcmdapi.AuthInfo{ClientCertificateData: certPEM, ClientKeyData: keyPEM}
	got, err := scope.RESTConfig(config, scope.KubeconfigPolicy{})
	require.NoError(t, err)
	require.Equal(t, rest.TLSClientConfig{CAData: certPEM, CertData: certPEM, KeyData: keyPEM}, got.TLSClientConfig)
	_, err = rest.HTTPClientFor(got)
	require.NoError(t, err)
}

func TestRESTConfigUsesAnAllowedProxy(t *testing.T) {
	config := kubeconfig("https://cluster.example:6443")
	config.Clusters["their-cluster"].ProxyURL = "http://proxy.example:3128"
	got, err := scope.RESTConfig(config, scope.KubeconfigPolicy{AllowProxy: true})
	require.NoError(t, err)
	proxy, err := got.Proxy(&http.Request{URL: &url.URL{Scheme: "https", Host: "cluster.example"}})
	require.NoError(t, err)
	require.Equal(t, "http://proxy.example:3128", proxy.String())
}

func TestRESTConfigAllowsInsecureByPolicyOnly(t *testing.T) {
	config := kubeconfig("https://cluster.example:6443")
	config.Clusters["their-cluster"].InsecureSkipTLSVerify = true
	got, err := scope.RESTConfig(config, scope.KubeconfigPolicy{AllowInsecureTLS: true})
	require.NoError(t, err)
	require.True(t, got.Insecure)
}

func TestImpersonate(t *testing.T) {
	base := &rest.Config{Host: "https://home", BearerToken: "operator", Impersonate: rest.ImpersonationConfig{UserName: "x", Groups: []string{"system:masters"}}}
	got := scope.Impersonate(base, "team-a", "platform")
	require.Equal(t, rest.ImpersonationConfig{UserName: "system:serviceaccount:team-a:platform"}, got.Impersonate,
		"no group, and nothing of another impersonation, survives")
	require.Equal(t, "operator", got.BearerToken)
	require.Equal(t, "x", base.Impersonate.UserName, "the base is untouched")
}
