package abi

import "encoding/json"

// AppSpec is the request of app_ensure: one Helm release in the module's scope.
// The destination, the identity and the credentials are the host's to choose. A
// field that is empty takes the value of the catalogue entry named by Catalogue.
type AppSpec struct {
	// Name tells the applications of one node apart; it is a DNS label and may be
	// empty for a module that has a single one.
	Name string `json:"name,omitempty"`
	// Catalogue names an Application object to take defaults from, or is empty.
	Catalogue string `json:"catalogue,omitempty"`
	// Repo is the chart repository: oci://host/path or http(s)://host/path.
	Repo string `json:"repo,omitempty"`
	// Chart is the chart's name in Repo.
	Chart string `json:"chart,omitempty"`
	// Version is the chart's exact version, or with Catalogue a version or range of it.
	Version string `json:"version,omitempty"`
	// Release is the Helm release name, at most 53 characters; the host derives one
	// when it is empty.
	Release string `json:"release,omitempty"`
	// Namespace is where the release goes; "default" when nobody says.
	Namespace string `json:"namespace,omitempty"`
	// CreateNamespace makes the namespace if it is absent. It is never removed.
	CreateNamespace bool `json:"createNamespace,omitempty"`
	// Values are the chart's values as a JSON object; null is kept. Strings may hold
	// secret handles.
	Values json.RawMessage `json:"values,omitempty"`
	// Parameters override single values, in order, as helm --set does.
	Parameters []AppParameter `json:"parameters,omitempty"`
	// AllowDegraded accepts a release whose workloads are degraded.
	AllowDegraded bool `json:"allowDegraded,omitempty"`
}

// AppParameter is one --set override.
type AppParameter struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// AppRef is the request of app_remove. Removal needs nothing but identity.
type AppRef struct {
	// Name is that of the [AppSpec], possibly empty.
	Name string `json:"name,omitempty"`
}

// AppPhase is the observed phase of an application.
type AppPhase string

// The phases.
const (
	// AppReady says that the release is deployed as asked for and healthy.
	AppReady AppPhase = "ready"
	// AppProgressing says that it is on its way with nobody acting.
	AppProgressing AppPhase = "progressing"
	// AppBlocked says that somebody must act; Reason says on what.
	AppBlocked AppPhase = "blocked"
	// AppFailed says that the request itself cannot succeed.
	AppFailed AppPhase = "failed"
	// AppDeleting says that the removal is under way.
	AppDeleting AppPhase = "deleting"
	// AppGone says that nothing is left.
	AppGone AppPhase = "gone"
)

// AppStatus is the result of app_ensure and app_remove. Disposition and Reason are
// what a module that has nothing to add should return itself.
type AppStatus struct {
	Phase       AppPhase    `json:"phase"`
	Disposition Disposition `json:"disposition"`
	Reason      string      `json:"reason,omitempty"`
	// RetryAfterSeconds is the driver's hint, or 0.
	RetryAfterSeconds int `json:"retryAfterSeconds,omitempty"`
}

// AppListRequest is the request of app_list.
type AppListRequest struct{}

// AppListResult lists the applications that the calling node owns.
type AppListResult struct {
	Applications []AppEntry `json:"applications"`
}

// AppEntry is one application of a node.
type AppEntry struct {
	Name      string `json:"name"`
	Release   string `json:"release"`
	Namespace string `json:"namespace"`
	Version   string `json:"version,omitempty"`
}
