package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Application is an entry of the catalogue: a named application and its versions.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=capp,categories=caisson
// +kubebuilder:printcolumn:name="Versions",type=string,JSONPath=`.spec.versions[*].version`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Description",type=string,priority=1,JSONPath=`.spec.description`
type Application struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ApplicationSpec `json:"spec"`
}

// ApplicationList is a list of Applications.
//
// +kubebuilder:object:root=true
type ApplicationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Application `json:"items"`
}

// ApplicationSpec describes the application.
type ApplicationSpec struct {
	// Description is one sentence for people.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Description string `json:"description,omitempty"`
	// Versions are the versions that may be installed. No two may be equal as semantic
	// versions: a leading v and build metadata do not count.
	// +listType=map
	// +listMapKey=version
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, (a.version.startsWith('v') ? a.version.substring(1) : a.version).split('+')[0] == (b.version.startsWith('v') ? b.version.substring(1) : b.version).split('+')[0]))",message="no two versions may be equal: a leading v and build metadata do not count"
	Versions []ApplicationVersion `json:"versions"`
}

// ApplicationVersion is one version of an application.
type ApplicationVersion struct {
	// Version is the chart version as the repository spells it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version"`
	// Repo is oci://host/path or http(s)://host/path.
	// +kubebuilder:validation:Pattern=`^(oci|https?)://.+$`
	// +kubebuilder:validation:MaxLength=1024
	Repo string `json:"repo"`
	// Chart is the chart's name in the repository.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Chart string `json:"chart"`
	// Release is the release name; derived when empty.
	// +optional
	// +kubebuilder:validation:MaxLength=53
	Release string `json:"release,omitempty"`
	// Namespace is where it goes; default if empty.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// CreateNamespace makes the namespace if it is absent. It is never removed.
	// +optional
	CreateNamespace bool `json:"createNamespace,omitempty"`
	// Values are the defaults of the catalogue.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Values *apiextensionsv1.JSON `json:"values,omitempty"`
	// Parameters override single values, as helm --set does.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Parameters []Parameter `json:"parameters,omitempty"`
	// AllowDegraded accepts degraded workloads.
	// +optional
	AllowDegraded bool `json:"allowDegraded,omitempty"`
}
