package helm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"

	"helm.sh/helm/v4/pkg/registry"
	repository "helm.sh/helm/v4/pkg/repo/v1"
	"sigs.k8s.io/yaml"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
)

const (
	// maxIndex bounds an index.yaml. The largest public ones have some 20 MB.
	maxIndex = 40 << 20
	// maxOCIManifest is what registries accept at most (distribution's own limit).
	maxOCIManifest = 4 << 20
	// maxToken bounds the answer of a token service.
	maxToken = 64 << 10
	// maxRedirects is that of net/http.
	maxRedirects = 10
	// mediaTypeOCIManifest is what a chart's manifest is (OCI image spec 1.1).
	mediaTypeOCIManifest = "application/vnd.oci.image.manifest.v1+json"
)

// fetcher downloads over HTTP, with a limit on everything that it reads. Helm's own
// registry client reads the Docker credentials of whoever runs the process, takes no
// context, and allocates what a manifest announces; its HTTP getter has no limit. Charts
// are named by tenants, so none of that will do. It fetches anonymously.
type fetcher struct {
	client *http.Client
	plain  map[string]bool
}

func newFetcher(plainHTTP []string) *fetcher {
	f := &fetcher{plain: map[string]bool{}}
	for _, host := range plainHTTP {
		f.plain[host] = true
	}
	f.client = &http.Client{
		Transport: http.DefaultTransport,
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if len(via) >= maxRedirects {
				return errors.New("too many redirects")
			}
			if r.URL.Scheme == "http" && via[0].URL.Scheme == "https" {
				return fmt.Errorf("%s was reached over TLS and leads away from it: %w", via[0].URL.Host, errPlainHTTP)
			}
			return f.allowed(r.URL)
		},
	}
	return f
}

// errPlainHTTP is the policy's refusal, found again behind net/http's wrapping.
var errPlainHTTP = errors.New("plain HTTP is allowed on loopback only, unless the operator lists the host")

func (f *fetcher) allowed(u *url.URL) error {
	switch {
	case u.Scheme == "https":
		return nil
	case u.Scheme == "http" && (isLoopback(u.Hostname()) || f.plain[u.Host] || f.plain[u.Hostname()]):
		return nil
	case u.Scheme == "http":
		return fmt.Errorf("%s: %w", u.Host, errPlainHTTP)
	default:
		return fmt.Errorf("scheme %q is not supported", u.Scheme)
	}
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// scheme is how an OCI registry is spoken to.
func (f *fetcher) scheme(u *url.URL) string {
	if isLoopback(u.Hostname()) || f.plain[u.Host] || f.plain[u.Hostname()] {
		return "http"
	}
	return "https"
}

// resolveHTTP finds a chart in a repository's index.
func (f *fetcher) resolveHTTP(ctx context.Context, base *url.URL, name, version string) (archiveSource, error) {
	raw, err := f.get(ctx, base.JoinPath("index.yaml"), nil, maxIndex)
	if err != nil {
		return archiveSource{}, err
	}
	index := &repository.IndexFile{}
	if err := yaml.Unmarshal(raw, index); err != nil {
		return archiveSource{}, provisioner.Terminal(abi.ReasonChartInvalid, "the repository's index.yaml cannot be read")
	}
	for _, candidate := range index.Entries[name] {
		if candidate == nil || candidate.Metadata == nil || !sameVersion(candidate.Version, version) || len(candidate.URLs) == 0 {
			continue
		}
		location, err := repository.ResolveReferenceURL(base.String(), candidate.URLs[0])
		if err != nil {
			return archiveSource{}, provisioner.Terminal(abi.ReasonChartInvalid, "the index has an invalid URL for the chart")
		}
		u, err := url.Parse(location)
		if err != nil {
			return archiveSource{}, provisioner.Terminal(abi.ReasonChartInvalid, "the index has an invalid URL for the chart")
		}
		return archiveSource{url: u, digest: strings.TrimPrefix(candidate.Digest, "sha256:")}, nil
	}
	return archiveSource{}, provisioner.Terminal(abi.ReasonChartNotFound, "the index has no "+name+" "+version)
}

// sameVersion takes v1.2.3 and 1.2.3 for the same, as Helm does.
func sameVersion(a, b string) bool {
	return strings.TrimPrefix(a, "v") == strings.TrimPrefix(b, "v")
}

// ociManifest is the part of an image manifest that matters.
type ociManifest struct {
	Layers []struct {
		MediaType string `json:"mediaType"`
		Digest    string `json:"digest"`
		Size      int64  `json:"size"`
	} `json:"layers"`
}

// resolveOCI finds the chart's layer. A + is not allowed in a tag, so Helm writes _.
func (f *fetcher) resolveOCI(ctx context.Context, base *url.URL, name, version string) (archiveSource, error) {
	repo := &url.URL{Scheme: f.scheme(base), Host: base.Host, Path: path.Join("/v2", base.Path, name)}
	manifestURL := repo.JoinPath("manifests", strings.ReplaceAll(version, "+", "_"))
	raw, err := f.get(ctx, manifestURL, http.Header{"Accept": {mediaTypeOCIManifest}}, maxOCIManifest)
	if err != nil {
		return archiveSource{}, err
	}
	var manifest ociManifest
	if err := json.Unmarshal(raw, &manifest); err != nil {
		return archiveSource{}, provisioner.Terminal(abi.ReasonChartInvalid, "the registry's manifest cannot be read")
	}
	for _, layer := range manifest.Layers {
		if layer.MediaType != registry.ChartLayerMediaType && layer.MediaType != registry.LegacyChartLayerMediaType {
			continue
		}
		hex, ok := strings.CutPrefix(layer.Digest, "sha256:")
		if !ok || layer.Size < 0 || layer.Size > maxChart {
			return archiveSource{}, provisioner.Terminal(abi.ReasonChartInvalid,
				fmt.Sprintf("the chart's layer has %d bytes of at most %d, or a digest that is not sha256", layer.Size, maxChart))
		}
		return archiveSource{url: repo.JoinPath("blobs", layer.Digest), digest: hex}, nil
	}
	return archiveSource{}, provisioner.Terminal(abi.ReasonChartInvalid, "the artifact holds no Helm chart")
}

// get downloads at most limit bytes. A registry that wants a token gets an anonymous
// one.
func (f *fetcher) get(ctx context.Context, u *url.URL, header http.Header, limit int64) ([]byte, error) {
	body, response, err := f.try(ctx, u, header, limit) //nolint:bodyclose // try closes it.
	if err != nil {
		return nil, err
	}
	if response.StatusCode == http.StatusUnauthorized {
		token, err := f.token(ctx, response.Header.Get("WWW-Authenticate"))
		if err != nil {
			return nil, err
		}
		header = header.Clone()
		if header == nil {
			header = http.Header{}
		}
		header.Set("Authorization", "Bearer "+token)
		if body, response, err = f.try(ctx, u, header, limit); err != nil { //nolint:bodyclose // try closes it.
			return nil, err
		}
	}
	return body, statusError(u, response.StatusCode)
}

func statusError(u *url.URL, code int) error {
	what := fmt.Sprintf("%s answered %d", u.Redacted(), code)
	switch code {
	case http.StatusOK:
		return nil
	case http.StatusNotFound, http.StatusGone:
		return provisioner.Terminal(abi.ReasonChartNotFound, what)
	case http.StatusUnauthorized, http.StatusForbidden:
		return provisioner.UserActionRequired(abi.ReasonForbidden, what)
	default:
		return provisioner.Yield(abi.ReasonChartUnavailable, what)
	}
}

func (f *fetcher) try(ctx context.Context, u *url.URL, header http.Header, limit int64) ([]byte, *http.Response, error) {
	if err := f.allowed(u); err != nil {
		return nil, nil, provisioner.UserActionRequired(abi.ReasonChartUnavailable, "fetching a chart").WithCause(err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, nil, provisioner.Terminal(abi.ReasonChartInvalid, "the chart's URL is not valid")
	}
	for name, values := range header {
		request.Header[name] = values
	}
	response, err := f.client.Do(request)
	if errors.Is(err, errPlainHTTP) {
		return nil, nil, provisioner.UserActionRequired(abi.ReasonChartUnavailable, "fetching a chart").WithCause(errPlainHTTP)
	}
	if err != nil {
		return nil, nil, provisioner.Yield(abi.ReasonChartUnavailable, "fetching from "+u.Host).WithCause(withoutURL(err))
	}
	defer response.Body.Close() //nolint:errcheck // It was only read.
	body, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	if err != nil {
		return nil, nil, provisioner.Yield(abi.ReasonChartUnavailable, "fetching from "+u.Host).WithCause(err)
	}
	if int64(len(body)) > limit {
		return nil, nil, provisioner.Terminal(abi.ReasonChartInvalid,
			fmt.Sprintf("%s answered with more than %d bytes", u.Host, limit))
	}
	return body, response, nil
}

// withoutURL drops the URL that net/http puts into its errors: a redirect may lead to a
// signed one.
func withoutURL(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

var challengeField = regexp.MustCompile(`(realm|service|scope)="([^"]*)"`)

// token asks the service that a registry names for an anonymous token.
func (f *fetcher) token(ctx context.Context, challenge string) (string, error) {
	fields := map[string]string{}
	for _, match := range challengeField.FindAllStringSubmatch(challenge, -1) {
		fields[match[1]] = match[2]
	}
	realm, err := url.Parse(fields["realm"])
	if !strings.HasPrefix(challenge, "Bearer ") || err != nil || realm.Host == "" {
		return "", provisioner.UserActionRequired(abi.ReasonForbidden, "the repository wants credentials")
	}
	query := realm.Query()
	for _, name := range []string{"service", "scope"} {
		if fields[name] != "" {
			query.Set(name, fields[name])
		}
	}
	realm.RawQuery = query.Encode()
	body, response, err := f.try(ctx, realm, nil, maxToken) //nolint:bodyclose // try closes it.
	if err != nil {
		return "", err
	}
	if err := statusError(realm, response.StatusCode); err != nil {
		return "", err
	}
	var answer struct {
		Token       string `json:"token"`
		AccessToken string `json:"access_token"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Token+answer.AccessToken == "" {
		return "", provisioner.Yield(abi.ReasonChartUnavailable, "the token service's answer cannot be read")
	}
	if answer.Token != "" {
		return answer.Token, nil
	}
	return answer.AccessToken, nil
}
