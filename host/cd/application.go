package cd

import (
	"github.com/caisson-dev/caisson/host/scope"
)

// Application is one Helm release. It holds everything that decides what is installed
// and nothing of where: the destination is the scope that is passed beside it.
type Application struct {
	// ID identifies the application by its owner and its place in the tree; it is all
	// that a removal needs.
	ID scope.ResourceIdentifier
	// Repo is oci://host/path or http(s)://host/path.
	Repo string
	// Chart is the chart's name in Repo.
	Chart string
	// Version is the exact chart version.
	Version string
	// Release is the release name; see [ReleaseName].
	Release string
	// Namespace is where the release goes.
	Namespace string
	// CreateNamespace makes the namespace if it is absent; it is never removed.
	CreateNamespace bool
	// Values are the chart's values. A nil inside stays a JSON null.
	Values map[string]any
	// Parameters override single values in order, as helm --set does.
	Parameters []Parameter
	// Secrets replaces secret handles in Values and Parameters just before rendering, while
	// Ensure runs; nil when there are none. What it returns must not reach a log or a
	// status; handles may.
	Secrets SecretExpander
	// Confidential are texts inside Values that came from Secrets without a handle, as
	// valuesFrom takes them. A driver must keep them, too, out of logs, errors and statuses:
	// an API server that refuses an object quotes it.
	Confidential []string
	// ValuesDigest identifies Values, Parameters and the secrets behind the handles, so
	// that a changed secret is an upgrade. The driver computes one if it is empty.
	ValuesDigest string
	// AllowDegraded accepts degraded workloads.
	AllowDegraded bool
}

// Parameter is one --set override. Names use Helm's path syntax.
type Parameter struct {
	Name  string
	Value string
}

// SecretExpander replaces the secret handles inside a string.
type SecretExpander func(text string) (string, error)

// Installed is an application that a driver knows of.
type Installed struct {
	// ID carries Owner and Path as they were recorded.
	ID scope.ResourceIdentifier
	// ScopeID is the ID of the scope that it was installed in.
	ScopeID   string
	Release   string
	Namespace string
	Version   string
	// Retained lists what a removal leaves on purpose: the namespace that was made for
	// it, CRDs, and objects with the resource policy "keep".
	Retained []string
}
