package cdtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

func clusterCases() map[string]func(*testing.T, *fixture) {
	return map[string]func(*testing.T, *fixture){
		"RegisterKeepsTheKubeconfig": registerKeepsTheKubeconfig,
		"RegisterRefusesPrograms":    registerRefusesPrograms,
		"RegisterForbiddenIsNoYield": registerForbidden,
		"DeregisterTwice":            deregisterTwice,
		"OneServerOfTwoRemotes":      oneServerTwoRemotes,
	}
}

func kubeconfig(server, token string) *clientcmdapi.Config {
	return &clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: server, CertificateAuthorityData: []byte("ca"), TLSServerName: "api"}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	}
}

func (f *fixture) remoteID(name string) scope.ResourceIdentifier {
	return scope.ResourceIdentifier{Owner: f.tenant.Owner(), Path: name, Name: name}
}

func registerKeepsTheKubeconfig(t *testing.T, f *fixture) {
	id := f.remoteID("workload")
	_, err := f.driver.Registered(t.Context(), id)
	require.ErrorIs(t, err, provisioner.ErrNotFound)
	require.NoError(t, f.driver.Register(t.Context(), id, kubeconfig("https://a.example", "one")))
	before := f.Writes()
	require.NoError(t, f.driver.Register(t.Context(), id, kubeconfig("https://a.example", "one")))
	require.Equal(t, before, f.Writes(), "an unchanged registration writes nothing")
	require.NoError(t, f.driver.Register(t.Context(), id, kubeconfig("https://b.example", "two")), "the address may change")
	f.driver = f.restart()
	got, err := f.driver.Registered(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, "https://b.example", got.Clusters["c"].Server)
	require.Equal(t, []byte("ca"), got.Clusters["c"].CertificateAuthorityData)
	require.Equal(t, "api", got.Clusters["c"].TLSServerName)
	require.Equal(t, "two", got.AuthInfos["u"].Token)
	require.Equal(t, "x", got.CurrentContext)
}

func registerRefusesPrograms(t *testing.T, f *fixture) {
	for name, spoil := range map[string]func(*clientcmdapi.Config){
		"program":         func(c *clientcmdapi.Config) { c.AuthInfos["u"].Exec = &clientcmdapi.ExecConfig{Command: "sh"} },
		"token file":      func(c *clientcmdapi.Config) { c.AuthInfos["u"].TokenFile = "/var/run/secrets/token" },
		"key file":        func(c *clientcmdapi.Config) { c.AuthInfos["u"].ClientKey = "/etc/key" },
		"authority file":  func(c *clientcmdapi.Config) { c.Clusters["c"].CertificateAuthority = "/etc/ca" },
		"no context":      func(c *clientcmdapi.Config) { c.CurrentContext = "" },
		"dangling user":   func(c *clientcmdapi.Config) { c.Contexts["x"].AuthInfo = "nobody" },
		"missing context": func(c *clientcmdapi.Config) { c.CurrentContext = "y" },
	} {
		config := kubeconfig("https://a.example", "very-secret-token")
		spoil(config)
		err := f.driver.Register(t.Context(), f.remoteID("workload"), config)
		require.ErrorIs(t, err, provisioner.ErrTerminal, name)
		require.Equal(t, abi.ReasonInvalidKubeconfig, provisioner.OutcomeOf(err).Headline.Reason, name)
		require.NotContains(t, err.Error(), "very-secret-token", name)
	}
}

func registerForbidden(t *testing.T, f *fixture) {
	poor := f.NewPoorTenant(t)
	f.Operator = poor.Client()
	err := f.restart().Register(t.Context(), f.remoteID("workload"), kubeconfig("https://a.example", "one"))
	outcome := provisioner.OutcomeOf(err)
	require.Equal(t, abi.Retry, outcome.Class)
	require.Equal(t, abi.ReasonRegistrationFailed, outcome.Headline.Reason)
}

func deregisterTwice(t *testing.T, f *fixture) {
	id := f.remoteID("workload")
	require.NoError(t, f.driver.Deregister(t.Context(), id), "what is not registered is deregistered")
	require.NoError(t, f.driver.Register(t.Context(), id, kubeconfig("https://a.example", "one")))
	require.NoError(t, f.driver.Deregister(t.Context(), id))
	_, err := f.driver.Registered(t.Context(), id)
	require.ErrorIs(t, err, provisioner.ErrNotFound)
	require.NoError(t, f.driver.Deregister(t.Context(), id))
}

func oneServerTwoRemotes(t *testing.T, f *fixture) {
	a, b := f.remoteID("a"), f.remoteID("b")
	require.NoError(t, f.driver.Register(t.Context(), a, kubeconfig("https://a.example", "one")))
	require.NoError(t, f.driver.Register(t.Context(), b, kubeconfig("https://a.example", "two")))
	require.NoError(t, f.driver.Deregister(t.Context(), a))
	got, err := f.driver.Registered(t.Context(), b)
	require.NoError(t, err)
	require.Equal(t, "two", got.AuthInfos["u"].Token)
}

// brokenReads is a client that can read nothing.
type brokenReads struct{ client.Client }

// Get implements client.Reader.
func (brokenReads) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("the API server has a bad day")
}

// List implements client.Reader.
func (brokenReads) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("the API server has a bad day")
}

func listErrorIsNoEmptyList(t *testing.T, f *fixture) {
	app := f.tenant.Application()
	Ready(t, f.ensure(t.Context(), app))
	f.Operator = brokenReads{f.Operator}
	f.driver = f.restart()
	_, err := f.driver.List(t.Context(), f.tenant.Owner())
	require.Error(t, err)
	require.Equal(t, abi.Retry, provisioner.OutcomeOf(f.driver.Remove(t.Context(), f.tenant.Scope(), app.ID)).Class,
		"what cannot be read is not absent")
	require.NotNil(t, f.tenant.Settings(t))
}

func concurrentApplications(t *testing.T, f *fixture) {
	const many = 6
	apps := make([]*cd.Application, many)
	for i := range apps {
		apps[i] = f.tenant.Application()
		apps[i].Release = fmt.Sprintf("app-%d", i)
		apps[i].ID.Path = "all/" + apps[i].Release
	}
	// Every pass runs for all of them at once, as it does in a tree.
	each := func(step func(*cd.Application) func() error) {
		Poll(t, func() (bool, string) {
			var group sync.WaitGroup
			errs := make([]error, many)
			for i, app := range apps {
				group.Go(func() { errs[i] = step(app)() })
			}
			group.Wait()
			err := errors.Join(errs...)
			return err == nil, fmt.Sprint(err)
		})
	}
	each(func(app *cd.Application) func() error { return f.ensure(t.Context(), app) })
	listed, err := f.driver.List(t.Context(), f.tenant.Owner())
	require.NoError(t, err)
	require.Len(t, listed, many, "no record of one was lost to another")
	for i, installed := range listed {
		require.Equal(t, apps[i].ID, installed.ID, "sorted by path")
	}
	each(func(app *cd.Application) func() error { return f.remove(t.Context(), app) })
	f.requireNothingListed(t)
}
