package remotecluster_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/remotecluster"
	"github.com/caisson-dev/caisson/host/scope"
)

func TestFromVCluster(t *testing.T) {
	const local, elsewhere = "https://localhost:8443", "https://dev.vclusters:443"
	terminal := finding{abi.Terminal, abi.Terminal, abi.ReasonInvalidKubeconfig}
	for name, test := range map[string]struct {
		reason string
		server string
		change func(c *clientcmdapi.Config)
		want   string
		err    finding
	}{
		"AsItIs":      {reason: "somebody has set exportKubeConfig.server", want: local},
		"Moved":       {reason: "it is made for a port-forward", server: elsewhere, want: elsewhere},
		"ServerName":  {reason: "the name is checked wherever it is", server: elsewhere, want: elsewhere, change: func(c *clientcmdapi.Config) { c.Clusters["c"].TLSServerName = "kubernetes" }},
		"WithoutCA":   {reason: "anybody could collect the token", server: elsewhere, change: func(c *clientcmdapi.Config) { c.Clusters["c"].CertificateAuthorityData = nil }, err: terminal},
		"Insecure":    {reason: "anybody could collect the token", server: elsewhere, change: func(c *clientcmdapi.Config) { c.Clusters["c"].InsecureSkipTLSVerify = true }, err: terminal},
		"PlainHTTP":   {reason: "everybody could read the token", server: "http://dev.vclusters", err: terminal},
		"NoContext":   {reason: "no kubeconfig that can be used", server: elsewhere, change: func(c *clientcmdapi.Config) { c.CurrentContext = "" }, err: terminal},
		"CAOfNothing": {reason: "no CA is as good as none, which the sanitiser finds", server: elsewhere, want: elsewhere, change: func(c *clientcmdapi.Config) { c.Clusters["c"].CertificateAuthorityData = []byte("x") }},
	} {
		t.Run(name, func(t *testing.T) {
			config := kubeconfig(local)
			config.Clusters["c"].CertificateAuthorityData = []byte("-----BEGIN CERTIFICATE-----\n")
			if test.change != nil {
				test.change(config)
			}
			raw, err := clientcmd.Write(*config)
			require.NoError(t, err)
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "vclusters", Name: "vc-dev"}, Data: map[string][]byte{"config": raw}}
			var recorded inputs
			resolver := remotecluster.FromVCluster(remotecluster.VClusterOptions{
				ID: identifier("dev"), Namespace: "vclusters", Name: "dev", Server: test.server, Inputs: &recorded,
			})
			ctx := scope.NewContext(t.Context(), scope.NewHome(owner(), nil, fake.NewClientBuilder().WithObjects(secret).Build()))
			found, err := resolver.Config(ctx)
			requireFinding(t, test.err, err)
			require.Len(t, recorded, 1)
			require.Equal(t, "vc-dev", recorded[0].Name)
			if err != nil {
				require.NotContains(t, err.Error(), "s3cr3t")
				return
			}
			require.Equal(t, test.want, found.Clusters["c"].Server, test.reason)
		})
	}
}

func TestCase072VClusterWithoutSecretIsPending(t *testing.T) {
	resolver := remotecluster.FromVCluster(remotecluster.VClusterOptions{ID: identifier("dev"), Namespace: "vclusters", Name: "dev", Server: "https://x"})
	ctx := scope.NewContext(t.Context(), scope.NewHome(owner(), nil, fake.NewClientBuilder().Build()))
	_, err := resolver.Config(ctx)
	requireFinding(t, yields(abi.ReasonRemotePending), err)
	require.NotErrorIs(t, err, provisioner.ErrNotFound)
	require.Equal(t, identifier("dev"), *resolver.ID())
}
