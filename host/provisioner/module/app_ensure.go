package module

import (
	"context"
	"net/url"
	"regexp"
	"slices"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/application"
)

const (
	// maxValuesBytes is what Helm could store of a release in a Secret anyway.
	maxValuesBytes = 1 << 20
	// The limits of the API for the same fields; see host/api/v1alpha1.
	maxParameters     = 256
	maxParameterName  = 1 << 10
	maxParameterValue = 64 << 10
	maxRepo           = 1 << 10
	maxChart          = 253
	maxVersion        = 64
)

// label is a DNS label, subdomain a DNS subdomain, of RFC 1123.
var (
	label     = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	subdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	// chart is one or more path segments, none of which climbs.
	chart = regexp.MustCompile(`^[A-Za-z0-9][-A-Za-z0-9_.]*(/[A-Za-z0-9][-A-Za-z0-9_.]*)*$`)
	// versionOrRange holds the characters of both, and of tags.
	versionOrRange = regexp.MustCompile(`^[-A-Za-z0-9_.+ <>=!~^|,*]*$`)
)

// appEnsure makes one application of the node so, in the scope of the pass.
func appEnsure(ctx context.Context, s *session, spec *abi.AppSpec) (*abi.AppStatus, *abi.CallError) {
	if callError := s.usable(); callError != nil {
		return nil, callError
	}
	if callError := checkSpec(spec); callError != nil {
		return nil, callError
	}
	values, err := application.DecodeValues(spec.Values)
	if err != nil {
		return nil, fail(abi.CodeInvalid, "values: %v", err)
	}
	node := application.Node{
		Version: spec.Version, Release: spec.Release, Namespace: spec.Namespace,
		CreateNamespace: spec.CreateNamespace, AllowDegraded: spec.AllowDegraded,
		Values: values, Parameters: parameters(spec.Parameters),
	}
	app, err := s.compose(ctx, spec, node)
	if err == nil {
		if callError := s.bindSecrets(app); callError != nil {
			return nil, callError
		}
		s.noteEnsure()
		err = s.node.options.Driver.Ensure(ctx, s.scope, app)
	}
	return s.status(err, abi.AppReady, abi.AppProgressing)
}

// compose fills the spec up from the catalogue, if it names an entry.
func (s *session) compose(ctx context.Context, spec *abi.AppSpec, node application.Node) (*cd.Application, error) {
	options := &s.node.options
	id := s.node.applicationID(spec.Name)
	if spec.Catalogue == "" {
		return application.Compose(id, &application.Version{Version: spec.Version, Repo: spec.Repo, Chart: spec.Chart}, nil, node)
	}
	if options.Catalogue == nil {
		return nil, fail(abi.CodeUnsupported, "this host has no catalogue")
	}
	app, err := application.Build(ctx, options.Catalogue, options.Inputs, s.scope, id, spec.Catalogue, node)
	if err != nil {
		return nil, err
	}
	if spec.Repo != "" {
		app.Repo = spec.Repo
	}
	if spec.Chart != "" {
		app.Chart = spec.Chart
	}
	return app, nil
}

// bindSecrets gives the application what its handles stand for. Their digests, not the
// handles, which differ in each call, identify the values.
func (s *session) bindSecrets(app *cd.Application) *abi.CallError {
	inParameters := slices.ContainsFunc(app.Parameters, func(p cd.Parameter) bool { return containsHandle(p.Value) })
	if !inParameters && !holdsHandle(app.Values) {
		return nil
	}
	digest, err := s.secrets.valuesDigest(app.Values, app.Parameters)
	if err != nil {
		return fail(abi.CodeInvalid, "%v", err)
	}
	app.ValuesDigest = digest
	app.Secrets = s.secrets.expand
	return nil
}

// usable reports why nothing can be installed in the scope, or nil.
func (s *session) usable() *abi.CallError {
	if s.scope.State() != abi.ScopeReady {
		return fail(abi.CodeUnavailable, "the cluster of scope %s is %s", s.scope.ID(), s.scope.State())
	}
	return nil
}

// checkSpec refuses what no driver should ever see. Release names are the exception:
// they are judged like those of any node.
func checkSpec(spec *abi.AppSpec) *abi.CallError {
	switch {
	case spec.Name != "" && !label.MatchString(spec.Name):
		return fail(abi.CodeInvalid, "name: %q is not a DNS label", clip(spec.Name))
	case spec.Catalogue != "" && !isSubdomain(spec.Catalogue):
		return fail(abi.CodeInvalid, "catalogue: %q is not the name of an Application", clip(spec.Catalogue))
	case spec.Namespace != "" && !label.MatchString(spec.Namespace):
		return fail(abi.CodeInvalid, "namespace: %q is not a DNS label", clip(spec.Namespace))
	case spec.Catalogue == "" && (spec.Repo == "" || spec.Chart == "" || spec.Version == ""):
		return fail(abi.CodeInvalid, "repo, chart and version are needed without a catalogue entry")
	case spec.Repo != "" && !isRepo(spec.Repo):
		return fail(abi.CodeInvalid, "repo: %q is not oci://, https:// or http:// with a host and no credentials", clip(spec.Repo))
	case spec.Chart != "" && (len(spec.Chart) > maxChart || !chart.MatchString(spec.Chart)):
		return fail(abi.CodeInvalid, "chart: %q is not the name of a chart", clip(spec.Chart))
	case len(spec.Version) > maxVersion || !versionOrRange.MatchString(spec.Version):
		return fail(abi.CodeInvalid, "version: %q is not a version", clip(spec.Version))
	case len(spec.Release) > maxParameterName || containsHandle(spec.Release):
		return fail(abi.CodeInvalid, "release: %q is not a release name", clip(spec.Release))
	case len(spec.Values) > maxValuesBytes:
		return fail(abi.CodeTooLarge, "values have %d bytes and %d are allowed", len(spec.Values), maxValuesBytes)
	}
	return checkParameters(spec.Parameters)
}

func checkParameters(list []abi.AppParameter) *abi.CallError {
	if len(list) > maxParameters {
		return fail(abi.CodeTooLarge, "there are %d parameters and %d are allowed", len(list), maxParameters)
	}
	for i, p := range list {
		switch {
		case p.Name == "" || len(p.Name) > maxParameterName || containsHandle(p.Name):
			return fail(abi.CodeInvalid, "parameters[%d].name: %q is not a path of --set", i, clip(p.Name))
		case len(p.Value) > maxParameterValue:
			return fail(abi.CodeTooLarge, "parameters[%d].value has %d bytes and %d are allowed", i, len(p.Value), maxParameterValue)
		}
	}
	return nil
}

func isSubdomain(name string) bool { return len(name) <= 253 && subdomain.MatchString(name) }

func isRepo(repo string) bool {
	parsed, err := url.Parse(repo)
	if err != nil || len(repo) > maxRepo || parsed.User != nil || parsed.Host == "" || parsed.RawQuery != "" || parsed.Fragment != "" {
		return false
	}
	return parsed.Scheme == "oci" || parsed.Scheme == "https" || parsed.Scheme == "http"
}

func parameters(list []abi.AppParameter) []cd.Parameter {
	var converted []cd.Parameter
	for _, p := range list {
		converted = append(converted, cd.Parameter{Name: p.Name, Value: p.Value})
	}
	return converted
}

// status tells the module what the driver said, and keeps what operators need to know.
func (s *session) status(err error, done, working abi.AppPhase) (*abi.AppStatus, *abi.CallError) {
	if err == nil {
		return &abi.AppStatus{Phase: done, Disposition: abi.OK}, nil
	}
	if callError, ok := err.(*abi.CallError); ok { //nolint:errorlint // Only our own, unwrapped.
		return nil, callError
	}
	found := provisioner.OutcomeOf(err)
	if found.Cancelled {
		return nil, fail(abi.CodeUnavailable, "the host is shutting down")
	}
	headline := found.Headline
	s.noteVerdict(headline.Reason, verdict{why: headline.Why, retryAfter: found.RetryAfter})
	answer := &abi.AppStatus{Phase: working, Disposition: headline.Disposition, Reason: headline.Reason, RetryAfterSeconds: seconds(found.RetryAfter)}
	switch {
	case headline.Disposition == abi.UserActionRequired:
		answer.Phase = abi.AppBlocked
	case headline.Disposition == abi.Terminal:
		answer.Phase = abi.AppFailed
	case headline.Reason == abi.ReasonApplicationDeleting:
		answer.Phase = abi.AppDeleting
	}
	return answer, nil
}
