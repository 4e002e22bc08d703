package guest

import (
	"time"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/guest-sdk/internal/wire"
)

// AppSpec is one Helm release. Where it goes, and as whom, is the host's business. A
// field that is empty takes the value of the Catalogue entry, if one is named.
type AppSpec struct {
	// Catalogue names an Application object to take defaults from.
	Catalogue string
	// Repo is oci://host/path or http(s)://host/path, Chart the chart's name in it, and
	// Version an exact version, or with Catalogue also a range.
	Repo, Chart, Version string
	// Release is the Helm release name, at most 53 characters; the host derives one when
	// it is empty.
	Release string
	// Namespace is where the release goes.
	Namespace string
	// CreateNamespace makes the namespace if it is absent; it is never removed.
	CreateNamespace bool
	// Values are the chart's values.
	Values Values
	// Parameters override single values, in order, as helm --set does.
	Parameters []abi.AppParameter
	// AllowDegraded accepts a release whose workloads are degraded.
	AllowDegraded bool
}

// App is one of the module's applications.
type App struct {
	call *Call
	name string
}

// App returns the application of this name, a DNS label. A module with a single one
// calls it "".
func (c *Call) App(name string) App { return App{call: c, name: name} }

// Ensure makes the application so. It returns nil when it is deployed as specified and
// healthy, and otherwise an [Error] with the host's own verdict, which a handler can
// return as it is. Capability: app_ensure.
func (a App) Ensure(spec AppSpec) error {
	request := abi.AppSpec{
		Name: a.name, Catalogue: spec.Catalogue, Repo: spec.Repo, Chart: spec.Chart, Version: spec.Version,
		Release: spec.Release, Namespace: spec.Namespace, CreateNamespace: spec.CreateNamespace,
		Parameters: spec.Parameters, AllowDegraded: spec.AllowDegraded,
	}
	if spec.Values != nil {
		raw, err := encode(spec.Values, a.call.marshal)
		if err != nil {
			return Terminal(abi.ReasonInvalidConfig, "encode the values: "+err.Error())
		}
		request.Values = raw
	}
	body, err := wire.EncodeAppSpec(&request)
	if err != nil {
		return Terminal(abi.ReasonInvalidConfig, "encode the request: "+err.Error())
	}
	return a.settle(abi.AppEnsure, appEnsure, body)
}

// Remove removes the application as the scope's teardown policy says. It returns nil
// when nothing is left to wait for, also for what never existed, and otherwise an
// [Error] that a handler can return as it is. Capability: app_remove.
func (a App) Remove() error {
	return a.settle(abi.AppRemove, appRemove, wire.EncodeAppRef(&abi.AppRef{Name: a.name}))
}

// settle asks the host and passes its verdict on.
func (a App) settle(f abi.Function, imported binding, body []byte) error {
	status, err := exchange(a.call, f, imported, body, wire.DecodeAppStatus)
	if err != nil {
		return err
	}
	if status.Phase == "" {
		return Retry(abi.ReasonUnexpected, string(f)+": the host answered without a phase")
	}
	if status.Disposition == abi.OK {
		return nil
	}
	why := "application " + string(status.Phase)
	if a.name != "" {
		why = "application " + a.name + " " + string(status.Phase)
	}
	if !status.Disposition.Valid() {
		return Retry(abi.ReasonUnexpected, string(f)+": the host answered "+status.Disposition.String()+" for "+why)
	}
	e := newError(status.Disposition, status.Reason, why)
	return e.After(time.Duration(status.RetryAfterSeconds) * time.Second)
}

// Apps lists the applications of this node that the host knows, those of an earlier
// version of the module included. Capability: app_list.
func (c *Call) Apps() ([]abi.AppEntry, error) {
	result, err := exchange(c, abi.AppList, appList, []byte("{}"), wire.DecodeAppList)
	return result.Applications, err
}
