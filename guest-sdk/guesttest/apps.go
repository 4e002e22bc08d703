package guesttest

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/caisson-dev/caisson/abi"
)

// applications are the node's, by name.
type applications map[string]*application

type application struct {
	spec   abi.AppSpec
	raw    []byte
	status abi.AppStatus
}

// AppReady makes an application healthy, as its workloads would when they have rolled out.
func (h *Harness) AppReady(name string) {
	h.t.Helper()
	h.SetApp(name, abi.AppStatus{Phase: abi.AppReady, Disposition: abi.OK})
}

// SetApp sets the status that the host answers for an application from now on, until the
// module changes its specification. The module must have ensured it before.
func (h *Harness) SetApp(name string, status abi.AppStatus) {
	h.t.Helper()
	app, ok := h.apps[name]
	if !ok {
		h.t.Fatalf("guesttest: the module has not ensured an application %q", name)
	}
	app.status = status
	h.trace.notef("application %q is %s", name, status.Phase)
}

// AppGone ends the removal of an application.
func (h *Harness) AppGone(name string) {
	delete(h.apps, name)
	h.trace.notef("application %q is gone", name)
}

// App returns the specification that the module last ensured, and whether the
// application still exists.
func (h *Harness) App(name string) (abi.AppSpec, bool) {
	app, ok := h.apps[name]
	if !ok {
		return abi.AppSpec{}, false
	}
	return app.spec, true
}

// AppValues decodes the values that the module last ensured.
func (h *Harness) AppValues(name string) map[string]any {
	h.t.Helper()
	spec, ok := h.App(name)
	if !ok {
		h.t.Fatalf("guesttest: there is no application %q", name)
	}
	values := map[string]any{}
	if len(spec.Values) == 0 {
		return values
	}
	if err := json.Unmarshal(spec.Values, &values); err != nil {
		h.t.Fatalf("guesttest: decode the values of application %q: %v", name, err)
	}
	return values
}

func (s *host) appEnsure(request *abi.AppSpec) (any, *abi.CallError) {
	if s.in.Scope.State != abi.ScopeReady {
		return nil, failure(abi.CodeUnavailable, "the scope is "+string(s.in.Scope.State))
	}
	if f := checkSpec(request); f != nil {
		return nil, f
	}
	raw, err := json.Marshal(request)
	if err != nil {
		return nil, failure(abi.CodeInvalid, err.Error())
	}
	if s.h.secrets.stale(allStrings(raw)) {
		return nil, failure(abi.CodeInvalid, "a secret handle is not of this call")
	}
	// A handle differs in each call and must not look like a change.
	raw = handlePattern.ReplaceAllFunc(raw, s.h.secrets.stable)
	app, ok := s.h.apps[request.Name]
	switch {
	case !ok:
		app = &application{status: abi.AppStatus{Phase: abi.AppProgressing, Disposition: abi.Yield, Reason: abi.ReasonApplicationInstalling}}
		s.h.apps[request.Name] = app
	case app.status.Phase == abi.AppDeleting:
		// It has to be gone before it can be made anew.
		return app.status, nil
	case !bytes.Equal(app.raw, raw):
		app.status = abi.AppStatus{Phase: abi.AppProgressing, Disposition: abi.Yield, Reason: abi.ReasonApplicationUpgrading}
	}
	app.spec, app.raw = *request, raw
	return app.status, nil
}

func checkSpec(spec *abi.AppSpec) *abi.CallError {
	if spec.Catalogue == "" && (spec.Repo == "" || spec.Chart == "" || spec.Version == "") {
		return failure(abi.CodeInvalid, "repo, chart and version are needed without a catalogue entry")
	}
	if len(spec.Values) > 0 && spec.Values[0] != '{' {
		return failure(abi.CodeInvalid, "values are not an object")
	}
	const helmLimit = 53 // a release name becomes a label value with suffixes
	if len(spec.Release) > helmLimit {
		return failure(abi.CodeInvalid, "the release name has more than 53 characters")
	}
	return nil
}

func (s *host) appRemove(request *abi.AppRef) (any, *abi.CallError) {
	app, ok := s.h.apps[request.Name]
	if !ok {
		return abi.AppStatus{Phase: abi.AppGone, Disposition: abi.OK}, nil
	}
	if s.in.Teardown != abi.Drain || s.in.Scope.State == abi.ScopeGone {
		delete(s.h.apps, request.Name)
		return abi.AppStatus{Phase: abi.AppGone, Disposition: abi.OK}, nil
	}
	if app.status.Phase != abi.AppDeleting {
		app.status = abi.AppStatus{Phase: abi.AppDeleting, Disposition: abi.Yield, Reason: abi.ReasonApplicationDeleting}
	}
	return app.status, nil
}

func (s *host) appList(*abi.AppListRequest) (any, *abi.CallError) {
	result := abi.AppListResult{Applications: []abi.AppEntry{}}
	for _, name := range slices.Sorted(maps.Keys(s.h.apps)) {
		spec := s.h.apps[name].spec
		release := spec.Release
		if release == "" {
			release = s.in.Node.Name
		}
		result.Applications = append(result.Applications, abi.AppEntry{Name: name, Release: release, Namespace: spec.Namespace, Version: spec.Version})
	}
	return result, nil
}
