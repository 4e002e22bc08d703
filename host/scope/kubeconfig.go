package scope

import (
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// MaxKubeconfigBytes is the size above which a kubeconfig is refused unread. One with
// certificates has some 10 KiB; decoding a hostile one of 1 MiB, which is what a Secret
// can hold, was measured to take up to a second of CPU.
const MaxKubeconfigBytes = 256 << 10

// contextName names the one context, cluster and user of a sanitised kubeconfig. The
// names of the original are somebody else's text and are dropped.
const contextName = "remote"

// KubeconfigPolicy is what an admin allows in kubeconfigs, and how hard clients made
// from them may work. The zero value allows nothing extra and uses the defaults.
type KubeconfigPolicy struct {
	// AllowProxy accepts proxy-url. Without it a kubeconfig could make the operator
	// connect to any address in its network.
	AllowProxy bool
	// AllowInsecureTLS accepts insecure-skip-tls-verify and plain http.
	AllowInsecureTLS bool
	// Timeout limits one request; 0 means [DefaultTimeout].
	Timeout time.Duration
	// QPS and Burst limit the requests of one client; 0 means [DefaultQPS] and
	// [DefaultBurst].
	QPS   float32
	Burst int
}

// ParseKubeconfig decodes a kubeconfig and checks that its current context leads to a
// cluster and a user. Nothing in it has been judged yet: pass the result through
// [SanitizeConfig] before anything connects with it. Errors are *[KubeconfigError].
func ParseKubeconfig(raw []byte) (*clientcmdapi.Config, error) {
	if len(raw) > MaxKubeconfigBytes {
		return nil, &KubeconfigError{Reason: KubeconfigTooLarge}
	}
	config, err := clientcmd.Load(raw)
	if err != nil || config == nil {
		// The decoder's error quotes what it read, so it is dropped on purpose.
		return nil, &KubeconfigError{Reason: KubeconfigMalformed}
	}
	if _, _, err := current(config); err != nil {
		return nil, err
	}
	return config, nil
}

// SanitizeKubeconfig decodes a kubeconfig and returns what [SanitizeConfig] leaves of
// it. Errors are *[KubeconfigError].
func SanitizeKubeconfig(raw []byte, policy KubeconfigPolicy) (*clientcmdapi.Config, error) {
	config, err := ParseKubeconfig(raw)
	if err != nil {
		return nil, err
	}
	return SanitizeConfig(config, policy)
}

// SanitizeConfig treats a kubeconfig as hostile and returns a fresh one that holds the
// current context alone, with an allow-list of fields: server, tls-server-name, CA
// data, client certificate and key data, token, user name and password, and proxy-url
// if the policy allows it. What would run a program, read a file of the operator's, act
// as somebody else or trust anybody is refused and not dropped, because the rest would
// not do what its author expects. It never changes its argument. Errors are
// *[KubeconfigError]: the kubeconfig must be replaced before another attempt is of use.
func SanitizeConfig(config *clientcmdapi.Config, policy KubeconfigPolicy) (*clientcmdapi.Config, error) {
	cluster, user, err := current(config)
	if err != nil {
		return nil, err
	}
	cleanCluster, err := sanitizeCluster(cluster, policy)
	if err != nil {
		return nil, err
	}
	cleanUser, err := sanitizeUser(user)
	if err != nil {
		return nil, err
	}
	clean := clientcmdapi.NewConfig()
	clean.Clusters[contextName] = cleanCluster
	clean.AuthInfos[contextName] = cleanUser
	clean.Contexts[contextName] = &clientcmdapi.Context{Cluster: contextName, AuthInfo: contextName}
	clean.CurrentContext = contextName
	return clean, nil
}

// WithServer returns a copy of a kubeconfig whose current context leads to another address
// of the same cluster. That it is the same is what the CA in the kubeconfig proves, so one
// without a CA, or that does not verify the server, is a *[KubeconfigError]. Like that of
// [ParseKubeconfig], the result has not been judged yet.
func WithServer(config *clientcmdapi.Config, server string) (*clientcmdapi.Config, error) {
	if _, _, err := current(config); err != nil {
		return nil, err
	}
	moved := config.DeepCopy()
	cluster, _, err := current(moved)
	if err != nil {
		return nil, err
	}
	if len(cluster.CertificateAuthorityData) == 0 || cluster.InsecureSkipTLSVerify || !strings.HasPrefix(server, "https://") {
		return nil, &KubeconfigError{Reason: KubeconfigInsecure}
	}
	cluster.Server = server
	return moved, nil
}

// current returns the cluster and the user that the current context leads to.
func current(config *clientcmdapi.Config) (*clientcmdapi.Cluster, *clientcmdapi.AuthInfo, error) {
	if config == nil {
		return nil, nil, &KubeconfigError{Reason: KubeconfigMalformed}
	}
	if config.CurrentContext == "" {
		return nil, nil, &KubeconfigError{Reason: KubeconfigNoCurrentContext}
	}
	context := config.Contexts[config.CurrentContext]
	if context == nil {
		return nil, nil, &KubeconfigError{Reason: KubeconfigUnknownContext}
	}
	cluster := config.Clusters[context.Cluster]
	if cluster == nil {
		return nil, nil, &KubeconfigError{Reason: KubeconfigUnknownCluster}
	}
	user := config.AuthInfos[context.AuthInfo]
	if user == nil {
		return nil, nil, &KubeconfigError{Reason: KubeconfigUnknownUser}
	}
	return cluster, user, nil
}

func sanitizeCluster(in *clientcmdapi.Cluster, policy KubeconfigPolicy) (*clientcmdapi.Cluster, error) {
	if in.CertificateAuthority != "" {
		return nil, &KubeconfigError{Reason: KubeconfigFile}
	}
	// A CA beside the flag is a contradiction that client-go refuses, so it is refused
	// here, where it gets a reason.
	if in.InsecureSkipTLSVerify && (!policy.AllowInsecureTLS || len(in.CertificateAuthorityData) > 0) {
		return nil, &KubeconfigError{Reason: KubeconfigInsecure}
	}
	if err := checkServer(in.Server, policy); err != nil {
		return nil, err
	}
	if err := checkProxy(in.ProxyURL, policy); err != nil {
		return nil, err
	}
	if ca := in.CertificateAuthorityData; len(ca) > 0 && !x509.NewCertPool().AppendCertsFromPEM(ca) {
		return nil, &KubeconfigError{Reason: KubeconfigBadCertificate}
	}
	if hasControl(in.TLSServerName) {
		return nil, &KubeconfigError{Reason: KubeconfigBadServer}
	}
	return &clientcmdapi.Cluster{
		Server:                   in.Server,
		TLSServerName:            in.TLSServerName,
		InsecureSkipTLSVerify:    in.InsecureSkipTLSVerify,
		CertificateAuthorityData: cloneBytes(in.CertificateAuthorityData),
		ProxyURL:                 in.ProxyURL,
	}, nil
}

func sanitizeUser(in *clientcmdapi.AuthInfo) (*clientcmdapi.AuthInfo, error) {
	switch {
	case in.Exec != nil:
		return nil, &KubeconfigError{Reason: KubeconfigExec}
	case in.AuthProvider != nil:
		return nil, &KubeconfigError{Reason: KubeconfigAuthProvider}
	case in.ClientCertificate != "" || in.ClientKey != "" || in.TokenFile != "":
		return nil, &KubeconfigError{Reason: KubeconfigFile}
	case impersonates(in):
		return nil, &KubeconfigError{Reason: KubeconfigImpersonation}
	case in.Token != "" && (in.Username != "" || in.Password != ""):
		return nil, &KubeconfigError{Reason: KubeconfigBadCredential}
	case hasControl(in.Token) || hasControl(in.Username) || hasControl(in.Password):
		return nil, &KubeconfigError{Reason: KubeconfigBadCredential}
	}
	if len(in.ClientCertificateData) > 0 || len(in.ClientKeyData) > 0 {
		if _, err := tls.X509KeyPair(in.ClientCertificateData, in.ClientKeyData); err != nil {
			return nil, &KubeconfigError{Reason: KubeconfigBadCertificate}
		}
	}
	return &clientcmdapi.AuthInfo{
		ClientCertificateData: cloneBytes(in.ClientCertificateData),
		ClientKeyData:         cloneBytes(in.ClientKeyData),
		Token:                 in.Token,
		Username:              in.Username,
		Password:              in.Password,
	}, nil
}

func impersonates(in *clientcmdapi.AuthInfo) bool {
	return in.Impersonate != "" || in.ImpersonateUID != "" || len(in.ImpersonateGroups) > 0 || len(in.ImpersonateUserExtra) > 0
}

func checkServer(server string, policy KubeconfigPolicy) error {
	u, err := url.Parse(server)
	if err != nil || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return &KubeconfigError{Reason: KubeconfigBadServer}
	}
	if _, err := portOf(u); err != nil {
		return err
	}
	switch u.Scheme {
	case "https":
		return nil
	case "http":
		if policy.AllowInsecureTLS {
			return nil
		}
		return &KubeconfigError{Reason: KubeconfigInsecure}
	default:
		return &KubeconfigError{Reason: KubeconfigBadServer}
	}
}

func checkProxy(proxy string, policy KubeconfigPolicy) error {
	if proxy == "" {
		return nil
	}
	if !policy.AllowProxy {
		return &KubeconfigError{Reason: KubeconfigProxy}
	}
	u, err := url.Parse(proxy)
	if err != nil || u.Hostname() == "" {
		return &KubeconfigError{Reason: KubeconfigBadServer}
	}
	switch u.Scheme {
	case "http", "https", "socks5":
		return nil
	default:
		return &KubeconfigError{Reason: KubeconfigBadServer}
	}
}

// hasControl reports whether s would break a header or a log line.
func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

func cloneBytes(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return append([]byte(nil), b...)
}
