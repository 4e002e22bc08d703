package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/guest-sdk/guesttest"
)

const cloudConf = "[Global]\nauth-url=https://cloud.example\npassword=correct horse battery staple\n"

// config is what a node passes, as a person writes it.
type config = map[string]any

func workload() guesttest.Option { return guesttest.Remote("workload", "203.0.113.7", 6443) }

func fullConfig() config {
	return config{"cloudConfig": config{"namespace": "platform", "name": "cloud"}, "storageClass": "fast"}
}

func TestLife(t *testing.T) {
	h := guesttest.New(t, module, workload())

	require.Equal(t, "UserActionRequired secret_missing", h.Provision(fullConfig()).String())
	h.PutSecret("home", "platform", "cloud", map[string]string{"cloud.conf": cloudConf})
	require.Equal(t, "Yield application_installing", h.Provision(fullConfig()).String())
	h.AppReady("")
	require.Equal(t, "OK", h.Provision(fullConfig()).String())
	require.Equal(t, "OK", h.Provision(fullConfig()).String(), "another handle for the same secret is no change")

	h.PutSecret("home", "platform", "cloud", map[string]string{"cloud.conf": cloudConf + "region=north\n"})
	require.Equal(t, "Yield application_upgrading", h.Provision(fullConfig()).String(), "another secret is")
	h.AppReady("")
	require.Equal(t, "OK", h.Provision(fullConfig()).String())

	h.DeleteSecret("home", "platform", "cloud")
	require.Equal(t, "Yield application_deleting", h.Deprovision(fullConfig()).String(), "a removal needs no secret")
	h.AppGone("")
	require.Equal(t, "OK", h.Deprovision(fullConfig()).String())

	h.Golden("testdata/life.trace")
}

func TestValues(t *testing.T) {
	h := guesttest.New(t, module, workload())
	h.PutSecret("home", "platform", "cloud", map[string]string{"cloud.conf": cloudConf})
	h.Provision(fullConfig())

	values := h.AppValues("")
	secret, ok := values["secret"].(map[string]any)
	require.True(t, ok)
	require.Regexp(t, `^caisson-secret:[0-9a-f]{32}:$`, secret["cloudConfig"], "the configuration goes as a handle")
	annotations, ok := values["podAnnotations"].(map[string]any)
	require.True(t, ok)
	require.Regexp(t, `^[0-9a-f]{64}$`, annotations["caisson.dev/config-digest"], "the digest rolls the pods")
	require.Equal(t, map[string]any{"name": "fast"}, values["storageClass"])
}

func TestDigestFollowsTheSecret(t *testing.T) {
	digest := func(content string) any {
		h := guesttest.New(t, module, workload())
		h.PutSecret("home", "platform", "cloud", map[string]string{"cloud.conf": content})
		h.Provision(fullConfig())
		return h.AppValues("")["podAnnotations"]
	}
	first, second, other := digest(cloudConf), digest(cloudConf), digest(cloudConf+"x")
	require.Equal(t, first, second)
	require.NotEqual(t, first, other)
}

func TestSource(t *testing.T) {
	cases := map[string]struct {
		reason  string
		source  config
		cluster string
		space   string
		key     string
	}{
		"Home": {
			reason: "by default the Secret is the Stack's neighbour",
			source: config{"name": "cloud"}, cluster: "home", space: "default", key: "cloud.conf",
		},
		"OtherNamespace": {
			reason: "a platform team keeps its Secrets elsewhere",
			source: config{"namespace": "platform", "name": "cloud", "key": "ini"}, cluster: "home", space: "platform", key: "ini",
		},
		"Current": {
			reason: "or the Secret is on the cluster itself",
			source: config{"scope": abi.ScopeCurrent, "namespace": "kube-system", "name": "cloud"}, cluster: "workload", space: "kube-system", key: "cloud.conf",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := guesttest.New(t, module, workload())
			h.PutSecret(c.cluster, c.space, "cloud", map[string]string{c.key: cloudConf})
			require.Equal(t, "Yield application_installing", h.Provision(config{"cloudConfig": c.source}).String(), c.reason)
		})
	}
}

func TestRefused(t *testing.T) {
	present := map[string]string{"cloud.conf": cloudConf}
	cases := map[string]struct {
		reason string
		data   map[string]string
		config any
		grant  []guesttest.Option
		fail   abi.ErrorCode
		want   string
	}{
		"NoSecretNamed": {reason: "there is no default for a Secret", data: present, config: config{}, want: "Terminal invalid_config"},
		"NoSuchScope":   {reason: "there are two scopes", data: present, config: config{"cloudConfig": config{"scope": "moon", "name": "cloud"}}, want: "Terminal invalid_config"},
		"NoKey":         {reason: "a Secret without the key is for somebody to complete", data: map[string]string{"other": cloudConf}, config: fullConfig(), want: "UserActionRequired secret_missing"},
		"Unreachable":   {reason: "a failure to find out is not an absence", data: present, config: fullConfig(), fail: abi.CodeUnavailable, want: "Retry unexpected"},
		"Forbidden":     {reason: "the tenant may lack the right to read it", data: present, config: fullConfig(), fail: abi.CodeForbidden, want: "UserActionRequired forbidden"},
		"NotGranted": {
			reason: "an admin may not want the module to read Secrets", data: present, config: fullConfig(),
			grant: []guesttest.Option{guesttest.Without(abi.SecretRead)}, want: "UserActionRequired not_granted",
		},
		"Misspelt": {
			reason: "a spelling mistake deep inside counts, too", data: present,
			config: map[string]any{"cloudConfig": map[string]any{"name": "cloud", "keys": "x"}}, want: "Terminal invalid_config",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := guesttest.New(t, module, append(c.grant, workload())...)
			h.PutSecret("home", "platform", "cloud", c.data)
			h.Fail(abi.SecretRead, c.fail)
			require.Equal(t, c.want, h.Provision(c.config).String(), c.reason)
			_, made := h.App("")
			require.False(t, made, "a refused call makes nothing")
		})
	}
}

func TestDefaults(t *testing.T) {
	h := guesttest.New(t, module, workload())
	h.PutSecret("home", "default", "cloud", map[string]string{"cloud.conf": cloudConf})
	h.Provision(config{"cloudConfig": config{"name": "cloud"}})
	spec, ok := h.App("")
	require.True(t, ok)
	require.Equal(t, "https://kubernetes.github.io/cloud-provider-openstack", spec.Repo)
	require.Equal(t, "openstack-cinder-csi", spec.Chart)
	require.Equal(t, "2.34.0", spec.Version)
	require.Equal(t, map[string]any{"name": "standard"}, h.AppValues("")["storageClass"])
}
