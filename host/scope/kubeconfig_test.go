package scope_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/caisson-dev/caisson/host/scope"
)

// marker stands in every hostile text of these tests, and must be in no error.
const marker = "xyzzy"

func TestSanitizeConfigRefuses(t *testing.T) {
	certPEM, keyPEM := keyPair(t, "one")
	otherCert, _ := keyPair(t, "other")
	type parts struct {
		config  *clientcmdapi.Config
		cluster *clientcmdapi.Cluster
		user    *clientcmdapi.AuthInfo
	}
	for name, test := range map[string]struct {
		reason string
		change func(p parts)
		policy scope.KubeconfigPolicy
		want   scope.KubeconfigReason
	}{
		"NoCurrentContext": {"nothing says which to use", func(p parts) { p.config.CurrentContext = "" }, scope.KubeconfigPolicy{}, scope.KubeconfigNoCurrentContext},
		"UnknownContext":   {"it names none", func(p parts) { p.config.CurrentContext = marker }, scope.KubeconfigPolicy{}, scope.KubeconfigUnknownContext},
		"NilContext":       {"a null in the map", func(p parts) { p.config.Contexts["their-context"] = nil }, scope.KubeconfigPolicy{}, scope.KubeconfigUnknownContext},
		"UnknownCluster":   {"a dangling name", func(p parts) { p.config.Contexts["their-context"].Cluster = marker }, scope.KubeconfigPolicy{}, scope.KubeconfigUnknownCluster},
		"UnknownUser":      {"a dangling name", func(p parts) { p.config.Contexts["their-context"].AuthInfo = marker }, scope.KubeconfigPolicy{}, scope.KubeconfigUnknownUser},
		"Exec":             {"it would run a program", func(p parts) { p.user.Exec = &clientcmdapi.ExecConfig{Command: marker} }, scope.KubeconfigPolicy{}, scope.KubeconfigExec},
		"AuthProvider":     {"it would too", func(p parts) { p.user.AuthProvider = &clientcmdapi.AuthProviderConfig{Name: marker} }, scope.KubeconfigPolicy{}, scope.KubeconfigAuthProvider},
		"CAFile":           {"a file of the operator's", func(p parts) { p.cluster.CertificateAuthority = "/" + marker }, scope.KubeconfigPolicy{}, scope.KubeconfigFile},
		"CertFile":         {"a file of the operator's", func(p parts) { p.user.ClientCertificate = "/" + marker }, scope.KubeconfigPolicy{}, scope.KubeconfigFile},
		"KeyFile":          {"a file of the operator's", func(p parts) { p.user.ClientKey = "/" + marker }, scope.KubeconfigPolicy{}, scope.KubeconfigFile},
		"TokenFile": {
			"its own token would go to the server", func(p parts) { p.user.TokenFile = "/var/run/secrets/kubernetes.io/serviceaccount/token" },
			scope.KubeconfigPolicy{}, scope.KubeconfigFile,
		},
		"ActAs":         {"somebody else", func(p parts) { p.user.Impersonate = marker }, scope.KubeconfigPolicy{}, scope.KubeconfigImpersonation},
		"ActAsUID":      {"somebody else", func(p parts) { p.user.ImpersonateUID = marker }, scope.KubeconfigPolicy{}, scope.KubeconfigImpersonation},
		"ActAsGroups":   {"somebody else", func(p parts) { p.user.ImpersonateGroups = []string{marker} }, scope.KubeconfigPolicy{}, scope.KubeconfigImpersonation},
		"ActAsExtra":    {"somebody else", func(p parts) { p.user.ImpersonateUserExtra = map[string][]string{marker: nil} }, scope.KubeconfigPolicy{}, scope.KubeconfigImpersonation},
		"Insecure":      {"anybody could be the server", func(p parts) { p.cluster.InsecureSkipTLSVerify = true }, scope.KubeconfigPolicy{}, scope.KubeconfigInsecure},
		"PlainHTTP":     {"everybody could read the token", func(p parts) { p.cluster.Server = "http://" + marker }, scope.KubeconfigPolicy{}, scope.KubeconfigInsecure},
		"InsecureAndCA": {"a contradiction", func(p parts) { p.cluster.InsecureSkipTLSVerify, p.cluster.CertificateAuthorityData = true, certPEM }, scope.KubeconfigPolicy{AllowInsecureTLS: true}, scope.KubeconfigInsecure},
		"Proxy":         {"any address inside", func(p parts) { p.cluster.ProxyURL = "http://" + marker }, scope.KubeconfigPolicy{}, scope.KubeconfigProxy},
		"ProxyScheme":   {"no proxy", func(p parts) { p.cluster.ProxyURL = "file:///" + marker }, scope.KubeconfigPolicy{AllowProxy: true}, scope.KubeconfigBadServer},
		"ProxyFTP":      {"no proxy", func(p parts) { p.cluster.ProxyURL = "ftp://" + marker }, scope.KubeconfigPolicy{AllowProxy: true}, scope.KubeconfigBadServer},
		"NoServer":      {"nowhere to go", func(p parts) { p.cluster.Server = "" }, scope.KubeconfigPolicy{}, scope.KubeconfigBadServer},
		"NoScheme":      {"client-go would guess", func(p parts) { p.cluster.Server = marker + ":6443" }, scope.KubeconfigPolicy{}, scope.KubeconfigBadServer},
		"UnixSocket":    {"a socket of the operator's", func(p parts) { p.cluster.Server = "unix:///" + marker }, scope.KubeconfigPolicy{}, scope.KubeconfigBadServer},
		"UserInServer":  {"a second credential", func(p parts) { p.cluster.Server = "https://u:" + marker + "@host" }, scope.KubeconfigPolicy{}, scope.KubeconfigBadServer},
		"Query":         {"no base of paths", func(p parts) { p.cluster.Server = "https://host/?" + marker }, scope.KubeconfigPolicy{}, scope.KubeconfigBadServer},
		"Port":          {"no port", func(p parts) { p.cluster.Server = "https://host:99999" }, scope.KubeconfigPolicy{}, scope.KubeconfigBadServer},
		"Unparsable":    {"no URL", func(p parts) { p.cluster.Server = "https://" + marker + "\x00" }, scope.KubeconfigPolicy{}, scope.KubeconfigBadServer},
		"ServerName":    {"breaks the handshake", func(p parts) { p.cluster.TLSServerName = marker + "\n" }, scope.KubeconfigPolicy{}, scope.KubeconfigBadServer},
		"CA":            {"no PEM", func(p parts) { p.cluster.CertificateAuthorityData = []byte(marker) }, scope.KubeconfigPolicy{}, scope.KubeconfigBadCertificate},
		"KeyOnly":       {"half a pair", func(p parts) { p.user.ClientKeyData = keyPEM }, scope.KubeconfigPolicy{}, scope.KubeconfigBadCertificate},
		"CertOnly":      {"half a pair", func(p parts) { p.user.ClientCertificateData = certPEM }, scope.KubeconfigPolicy{}, scope.KubeconfigBadCertificate},
		"OtherKey":      {"no pair", func(p parts) { p.user.ClientCertificateData, p.user.ClientKeyData = otherCert, keyPEM }, scope.KubeconfigPolicy{}, scope.KubeconfigBadCertificate},
		"TokenAndUser":  {"client-go takes one", func(p parts) { p.user.Username = marker }, scope.KubeconfigPolicy{}, scope.KubeconfigBadCredential},
		"TokenNewline":  {"breaks the header", func(p parts) { p.user.Token = marker + "\r\nX-Evil: 1" }, scope.KubeconfigPolicy{}, scope.KubeconfigBadCredential},
	} {
		t.Run(name, func(t *testing.T) {
			config := kubeconfig("https://cluster.example:6443")
			test.change(parts{config, config.Clusters["their-cluster"], config.AuthInfos["their-user"]})
			_, err := scope.SanitizeConfig(config, test.policy)
			requireRefused(t, err, test.want)

			_, err = scope.RESTConfig(config, test.policy)
			requireRefused(t, err, test.want)
			_, err = scope.NewClientCache(scope.ClientCacheOptions{Policy: test.policy}).Remote(config)
			requireRefused(t, err, test.want)
		})
	}
}

func requireRefused(t *testing.T, err error, want scope.KubeconfigReason) {
	t.Helper()
	var refused *scope.KubeconfigError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, want, refused.Reason)
	for _, secret := range []string{marker, "s3cr3t", "their-"} {
		require.NotContains(t, err.Error(), secret, "nothing of the kubeconfig is in an error")
	}
}

func TestSanitizeKubeconfigRefusesBytes(t *testing.T) {
	for name, test := range map[string]struct {
		reason string
		raw    []byte
		want   scope.KubeconfigReason
	}{
		"Empty":     {"nothing has no current context", nil, scope.KubeconfigNoCurrentContext},
		"Text":      {"no kubeconfig", []byte(marker), scope.KubeconfigMalformed},
		"Binary":    {"no YAML", []byte("\x00\x01\xff"), scope.KubeconfigMalformed},
		"OtherKind": {"another kind", []byte("apiVersion: v1\nkind: Secret\nmetadata: {name: " + marker + "}\n"), scope.KubeconfigMalformed},
		"WrongType": {"a list for a map", []byte("apiVersion: v1\nkind: Config\nclusters: {a: " + marker + "}\n"), scope.KubeconfigMalformed},
		"Twice": {
			"which one is meant?",
			[]byte("apiVersion: v1\nkind: Config\nclusters: [{name: xyzzy, cluster: {server: a}}, {name: xyzzy, cluster: {server: b}}]\n"),
			scope.KubeconfigMalformed,
		},
		"Large": {"refused unread", bytes.Repeat([]byte("#"), scope.MaxKubeconfigBytes+1), scope.KubeconfigTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := scope.SanitizeKubeconfig(test.raw, scope.KubeconfigPolicy{})
			requireRefused(t, err, test.want)
			_, err = scope.ParseKubeconfig(test.raw)
			requireRefused(t, err, test.want)
		})
	}
	t.Run("Nil", func(t *testing.T) {
		_, err := scope.SanitizeConfig(nil, scope.KubeconfigPolicy{})
		requireRefused(t, err, scope.KubeconfigMalformed)
	})
	t.Run("NoCurrentContextNamesTheRemedy", func(t *testing.T) {
		_, err := scope.SanitizeKubeconfig(nil, scope.KubeconfigPolicy{})
		require.ErrorContains(t, err, "kubectl config use-context")
	})
}

func TestEveryReasonHasARemedy(t *testing.T) {
	seen := map[string]scope.KubeconfigReason{}
	for _, reason := range []scope.KubeconfigReason{
		scope.KubeconfigMalformed, scope.KubeconfigTooLarge, scope.KubeconfigNoCurrentContext, scope.KubeconfigUnknownContext,
		scope.KubeconfigUnknownCluster, scope.KubeconfigUnknownUser, scope.KubeconfigBadServer, scope.KubeconfigBadCertificate,
		scope.KubeconfigBadCredential, scope.KubeconfigExec, scope.KubeconfigAuthProvider, scope.KubeconfigFile,
		scope.KubeconfigImpersonation, scope.KubeconfigInsecure, scope.KubeconfigProxy, "something else",
	} {
		text := (&scope.KubeconfigError{Reason: reason}).Error()
		require.Empty(t, seen[text], "two reasons have the same text")
		seen[text] = reason
	}
}

func TestSanitizeKeepsTheAllowList(t *testing.T) {
	certPEM, keyPEM := keyPair(t, "client")
	caPEM, _ := keyPair(t, "ca")
	config := kubeconfig("https://cluster.example:6443/k8s/clusters/c-1")
	*config.Clusters["their-cluster"] = clientcmdapi.Cluster{
		LocationOfOrigin: marker, Server: "https://cluster.example:6443/k8s/clusters/c-1", TLSServerName: "kubernetes",
		CertificateAuthorityData: caPEM, ProxyURL: "socks5://proxy.example:1080", DisableCompression: true,
		Extensions: map[string]runtime.Object{marker: &runtime.Unknown{}},
	}
	*config.AuthInfos["their-user"] = clientcmdapi.AuthInfo{
		ClientCertificateData: certPEM, ClientKeyData: keyPEM, Username: "u", Password: "p",
		Extensions: map[string]runtime.Object{marker: &runtime.Unknown{}},
	}
	config.AuthInfos["another"] = &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{Command: marker}}
	config.Clusters["another"] = &clientcmdapi.Cluster{Server: "http://" + marker}
	config.Contexts["another"] = &clientcmdapi.Context{Cluster: "another", AuthInfo: "another"}
	config.Extensions[marker] = &runtime.Unknown{}
	before := config.DeepCopy()

	clean, err := scope.SanitizeConfig(config, scope.KubeconfigPolicy{AllowProxy: true})
	require.NoError(t, err, "what the current context does not use does not count")
	require.Equal(t, before, config, "the argument is untouched")
	require.Len(t, clean.Contexts, 1)
	require.Equal(t, &clientcmdapi.Context{Cluster: "remote", AuthInfo: "remote"}, clean.Contexts[clean.CurrentContext])
	require.Equal(t, map[string]*clientcmdapi.Cluster{"remote": {
		Server: "https://cluster.example:6443/k8s/clusters/c-1", TLSServerName: "kubernetes",
		CertificateAuthorityData: caPEM, ProxyURL: "socks5://proxy.example:1080",
	}}, clean.Clusters)
	require.Equal(t, map[string]*clientcmdapi.AuthInfo{"remote": {
		ClientCertificateData: certPEM, ClientKeyData: keyPEM, Username: "u", Password: "p",
	}}, clean.AuthInfos)
	raw, err := clientcmd.Write(*clean)
	require.NoError(t, err)
	require.NotContains(t, string(raw), marker)

	config.Clusters["their-cluster"].CertificateAuthorityData[0] = 'X'
	require.Equal(t, byte('-'), clean.Clusters["remote"].CertificateAuthorityData[0], "no memory is shared")
}

func TestSanitizeIsIdempotent(t *testing.T) {
	raw, err := clientcmd.Write(*kubeconfig("https://cluster.example"))
	require.NoError(t, err)
	once, err := scope.SanitizeKubeconfig(raw, scope.KubeconfigPolicy{})
	require.NoError(t, err)
	twice, err := scope.SanitizeConfig(once, scope.KubeconfigPolicy{})
	require.NoError(t, err)
	require.Equal(t, once, twice)
}

func FuzzSanitizeKubeconfig(f *testing.F) {
	valid, err := clientcmd.Write(*kubeconfig("https://cluster.example:6443"))
	require.NoError(f, err)
	hostile := kubeconfig("https://cluster.example:6443")
	hostile.AuthInfos["their-user"].Exec = &clientcmdapi.ExecConfig{Command: "/bin/sh", APIVersion: "client.authentication.k8s.io/v1"}
	exec, err := clientcmd.Write(*hostile)
	require.NoError(f, err)
	for _, seed := range [][]byte{
		valid, exec, nil, []byte("{}"), []byte("a: &a [*a, *a]"), []byte("apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a}]"),
		bytes.ReplaceAll(valid, []byte("token:"), []byte("tokenFile:")), bytes.ReplaceAll(valid, []byte("https"), []byte("http")),
		[]byte(strings.Repeat("[", 10_000)),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		clean, err := scope.SanitizeKubeconfig(raw, scope.KubeconfigPolicy{})
		if err != nil {
			var refused *scope.KubeconfigError
			require.ErrorAs(t, err, &refused, "every refusal is typed")
			return
		}
		user := clean.AuthInfos["remote"]
		require.Nil(t, user.Exec)
		require.Nil(t, user.AuthProvider)
		require.Empty(t, user.TokenFile+user.ClientKey+user.ClientCertificate+user.Impersonate)
		require.True(t, strings.HasPrefix(strings.ToLower(clean.Clusters["remote"].Server), "https://"))
		require.False(t, clean.Clusters["remote"].InsecureSkipTLSVerify)
		_, err = scope.NewClientCache(scope.ClientCacheOptions{}).Remote(clean)
		require.NoError(t, err, "what was accepted can be connected with")
	})
}

func TestWithServer(t *testing.T) {
	config := kubeconfig("https://localhost:8443")
	config.Clusters["their-cluster"].CertificateAuthorityData = []byte("a CA")
	moved, err := scope.WithServer(config, "https://dev.vclusters:443")
	require.NoError(t, err)
	require.Equal(t, "https://dev.vclusters:443", moved.Clusters["their-cluster"].Server)
	require.Equal(t, "https://localhost:8443", config.Clusters["their-cluster"].Server, "the argument is untouched")
	for name, test := range map[string]struct {
		reason string
		server string
		change func(c *clientcmdapi.Config)
		want   scope.KubeconfigReason
	}{
		"NoCA":      {"the credential would go to anybody", "https://a", func(c *clientcmdapi.Config) { c.Clusters["their-cluster"].CertificateAuthorityData = nil }, scope.KubeconfigInsecure},
		"Insecure":  {"likewise", "https://a", func(c *clientcmdapi.Config) { c.Clusters["their-cluster"].InsecureSkipTLSVerify = true }, scope.KubeconfigInsecure},
		"PlainHTTP": {"likewise", "http://a", func(*clientcmdapi.Config) {}, scope.KubeconfigInsecure},
		"NoContext": {"nothing to move", "https://a", func(c *clientcmdapi.Config) { c.CurrentContext = "" }, scope.KubeconfigNoCurrentContext},
	} {
		t.Run(name, func(t *testing.T) {
			changed := config.DeepCopy()
			test.change(changed)
			_, err := scope.WithServer(changed, test.server)
			requireRefused(t, err, test.want)
		})
	}
}

// TestHostileDocuments sends texts that are made to cost time or memory. The test's own
// time limit is what they would run into.
func TestHostileDocuments(t *testing.T) {
	lol := "apiVersion: v1\nkind: Config\na: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		lol += string(c) + ": &" + string(c) + " [" + strings.TrimSuffix(strings.Repeat("*"+string(c-1)+",", 9), ",") + "]\n"
	}
	merge := "apiVersion: v1\nkind: Config\nbase: &m {" + strings.Repeat("a, ", 1000) + "}\n" + strings.Repeat("x:\n  <<: *m\n", 1000)
	for name, raw := range map[string]string{
		"AliasBomb":    lol,
		"MergeBomb":    merge,
		"SelfAlias":    "a: &a {b: *a}",
		"Nested":       strings.Repeat("{a: ", 50_000),
		"NestedJSON":   strings.Repeat(`{"a":`, 40_000),
		"Lists":        strings.Repeat("[", scope.MaxKubeconfigBytes),
		"Dashes":       strings.Repeat("- ", scope.MaxKubeconfigBytes/2),
		"Documents":    strings.Repeat("---\n", scope.MaxKubeconfigBytes/4),
		"LongKey":      strings.Repeat("k", scope.MaxKubeconfigBytes-2) + ": ",
		"Contexts":     "apiVersion: v1\nkind: Config\ncontexts:\n" + strings.Repeat("- {name: a}\n", 20_000),
		"InvalidUTF8":  "apiVersion: v1\nkind: Config\nusers: [{name: \"\xff\xfe\", user: {}}]",
		"Tag":          "apiVersion: v1\nkind: Config\nusers: [{name: a, user: {token: !!binary " + marker + "}}]",
		"OtherVersion": "apiVersion: v9\nkind: Config\ncurrent-context: a\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := scope.SanitizeKubeconfig([]byte(raw), scope.KubeconfigPolicy{AllowInsecureTLS: true, AllowProxy: true})
			var refused *scope.KubeconfigError
			require.ErrorAs(t, err, &refused)
			require.NotContains(t, err.Error(), marker)
		})
	}
}

// TestSpellings writes the hostile fields as text, as users would, and not as the structs
// of a library: what a decoder drops or renames must not slip through.
func TestSpellings(t *testing.T) {
	document := func(cluster, user string) []byte {
		return []byte("apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n" +
			"clusters: [{name: c, cluster: {server: 'https://a.example', " + cluster + "}}]\nusers: [{name: u, user: {" + user + "}}]\n")
	}
	for name, test := range map[string]struct {
		cluster, user string
		want          scope.KubeconfigReason
	}{
		"Exec":            {"", "exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/sh, interactiveMode: Never}", scope.KubeconfigExec},
		"ExecEmpty":       {"", "exec: {}", scope.KubeconfigExec},
		"AuthProvider":    {"", "auth-provider: {name: oidc, config: {idp-issuer-url: https://x}}", scope.KubeconfigAuthProvider},
		"CAFile":          {"certificate-authority: /etc/passwd", "token: t", scope.KubeconfigFile},
		"CertFile":        {"", "client-certificate: /a, client-key: /b", scope.KubeconfigFile},
		"TokenFile":       {"", "tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token", scope.KubeconfigFile},
		"TokenAndFile":    {"", "token: t, tokenFile: /x", scope.KubeconfigFile},
		"ActAs":           {"", "token: t, as: system:admin", scope.KubeconfigImpersonation},
		"ActAsGroups":     {"", "token: t, as-groups: ['system:masters']", scope.KubeconfigImpersonation},
		"ActAsUID":        {"", "token: t, as-uid: x", scope.KubeconfigImpersonation},
		"ActAsUserExtra":  {"", "token: t, as-user-extra: {scopes: [a]}", scope.KubeconfigImpersonation},
		"Insecure":        {"insecure-skip-tls-verify: true", "token: t", scope.KubeconfigInsecure},
		"Proxy":           {"proxy-url: 'http://169.254.169.254'", "token: t", scope.KubeconfigProxy},
		"ProxyOfNothing":  {"proxy-url: 'x'", "token: t", scope.KubeconfigProxy},
		"CaseIsIgnored":   {"", "EXEC: {command: sh}", scope.KubeconfigExec},
		"TokenWithHeader": {"", `token: "t\r\nHost: x"`, scope.KubeconfigBadCredential},
	} {
		t.Run(name, func(t *testing.T) {
			clean, err := scope.SanitizeKubeconfig(document(test.cluster, test.user), scope.KubeconfigPolicy{})
			if name == "CaseIsIgnored" && err == nil {
				require.Nil(t, clean.AuthInfos["remote"].Exec, "a field that the decoder does not know is dropped")
				return
			}
			requireRefused(t, err, test.want)
		})
	}
	clean, err := scope.SanitizeKubeconfig(document("tls-server-name: b", "token: t"), scope.KubeconfigPolicy{})
	require.NoError(t, err, "the document is otherwise fine")
	require.Equal(t, "b", clean.Clusters["remote"].TLSServerName)
}
