package scope

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	// DefaultTimeout limits one request to a remote that answers others; 30 s is what
	// kube-apiserver itself grants a webhook at most. A server that says nothing is given
	// up much earlier, see [DefaultSlowAfter].
	DefaultTimeout = 30 * time.Second
	// DefaultQPS is that of controller-runtime's own clients: enough to apply a chart of a
	// hundred objects without queueing, harmless to a server that shares fairly.
	DefaultQPS = 20
	// DefaultBurst goes with DefaultQPS.
	DefaultBurst = 30
	// userAgent is what audit logs of a remote show.
	userAgent = "caisson"
	httpsPort = 443
	httpPort  = 80
	maxPort   = 1<<16 - 1
)

// RESTConfig makes a client configuration from a kubeconfig. The kubeconfig is
// sanitised first, also when it already was, so that there is no way around it. No
// file, environment variable or in-cluster credential flows in, apart from the
// operator's own proxy variables. Errors are *[KubeconfigError].
func RESTConfig(config *clientcmdapi.Config, policy KubeconfigPolicy) (*rest.Config, error) {
	clean, err := SanitizeConfig(config, policy)
	if err != nil {
		return nil, err
	}
	cluster, user, err := current(clean)
	if err != nil {
		return nil, err
	}
	result := &rest.Config{
		Host:        cluster.Server,
		BearerToken: user.Token,
		Username:    user.Username,
		Password:    user.Password,
		TLSClientConfig: rest.TLSClientConfig{
			Insecure:   cluster.InsecureSkipTLSVerify,
			ServerName: cluster.TLSServerName,
			CAData:     cluster.CertificateAuthorityData,
			CertData:   user.ClientCertificateData,
			KeyData:    user.ClientKeyData,
		},
		UserAgent: userAgent,
		Timeout:   policy.timeout(),
		QPS:       policy.qps(),
		Burst:     policy.burst(),
	}
	if cluster.ProxyURL != "" {
		proxy, err := url.Parse(cluster.ProxyURL)
		if err != nil {
			return nil, &KubeconfigError{Reason: KubeconfigBadServer}
		}
		result.Proxy = http.ProxyURL(proxy)
	}
	return result, nil
}

// Impersonate returns a copy of a configuration that acts as a ServiceAccount. No
// groups are asked for: the API server adds those of a ServiceAccount itself, and the
// operator then needs the permission to impersonate service accounts and nothing else.
func Impersonate(config *rest.Config, namespace, serviceAccount string) *rest.Config {
	result := rest.CopyConfig(config)
	result.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + namespace + ":" + serviceAccount}
	return result
}

func (p KubeconfigPolicy) timeout() time.Duration {
	if p.Timeout <= 0 {
		return DefaultTimeout
	}
	return p.Timeout
}

func (p KubeconfigPolicy) qps() float32 {
	if p.QPS <= 0 {
		return DefaultQPS
	}
	return p.QPS
}

func (p KubeconfigPolicy) burst() int {
	if p.Burst <= 0 {
		return DefaultBurst
	}
	return p.Burst
}

// portOf returns the port of a URL, by its scheme if it names none.
func portOf(u *url.URL) (int, error) {
	if u.Port() == "" {
		if u.Scheme == "http" {
			return httpPort, nil
		}
		return httpsPort, nil
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil || port < 1 || port > maxPort {
		return 0, &KubeconfigError{Reason: KubeconfigBadServer}
	}
	return port, nil
}
