package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Module is a Wasm leaf: where its artifact is, who may use it and what it may do.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=cmod,categories=caisson
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Digest",type=string,priority=1,JSONPath=`.status.digest`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type Module struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ModuleSpec `json:"spec"`
	// Status is what was observed. Its default makes a new object count as worked on:
	// kstatus takes one without any status for finished.
	// +kubebuilder:default:={"observedGeneration":-1}
	Status ModuleStatus `json:"status,omitempty"`
}

// ModuleList is a list of Modules.
//
// +kubebuilder:object:root=true
type ModuleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Module `json:"items"`
}

// ModuleSpec is what an admin decides about a module.
type ModuleSpec struct {
	// Reference is the OCI reference, by tag or by digest, for instance
	// registry.example.com/modules/cilium:1.2.0.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Reference string `json:"reference"`
	// PollInterval is how often a tag is resolved again; 5m if empty. A reference by
	// digest is never resolved again.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}(\.[0-9]{1,6})?h)?([0-9]{1,6}(\.[0-9]{1,6})?m)?([0-9]{1,6}(\.[0-9]{1,6})?s)?([0-9]{1,6}ms)?$`
	PollInterval *metav1.Duration `json:"pollInterval,omitempty"`
	// PullSecret names a Secret of type kubernetes.io/dockerconfigjson.
	// +optional
	PullSecret *NamespacedName `json:"pullSecret,omitempty"`
	// AllowedNamespaces are the namespaces whose Stacks may use the module; * stands for
	// every one. Empty means none.
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^(\*|[a-z0-9]([-a-z0-9]*[a-z0-9])?)$`
	AllowedNamespaces []string `json:"allowedNamespaces"`
	// Grant is what the module may do.
	Grant Grant `json:"grant"`
	// Limits override the operator's defaults.
	// +optional
	Limits *ModuleLimits `json:"limits,omitempty"`
	// Isolation is where the module runs; Worker if empty. InProcess is for a module that is
	// trusted like the operator itself: it saves a process, and whatever the module does to
	// its process it does to the operator. The operator must have been started with
	// --allow-in-process. Of the limits, cpu does not hold there.
	// +optional
	// +kubebuilder:validation:Enum=Worker;InProcess
	Isolation Isolation `json:"isolation,omitempty"`
}

// Isolation is where a module runs.
type Isolation string

// The isolations.
const (
	IsolationWorker    Isolation = "Worker"
	IsolationInProcess Isolation = "InProcess"
)

// NamespacedName names an object in a namespace.
type NamespacedName struct {
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// Grant is what a module may do. Empty means nothing. Only namespaces and the names of
// Secrets have a wildcard, so that nothing is granted that nobody has thought of: there is
// none for capabilities, groups, kinds, verbs and scopes, nor for the namespaces of Secrets.
type Grant struct {
	// Capabilities are the host functions that the module may call.
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:Enum=app_ensure;app_remove;app_list;kube_get;kube_list;kube_apply;kube_delete;secret_read;event
	Capabilities []string `json:"capabilities"`
	// Kube are the objects that the kube_* functions may touch, in the words of RBAC.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Kube []KubeGrant `json:"kube,omitempty"`
	// Secrets are the Secrets that secret_read may read.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Secrets []SecretGrant `json:"secrets,omitempty"`
}

// KubeGrant allows verbs on kinds.
//
// +kubebuilder:validation:XValidation:rule="(has(self.apiGroup) && size(self.apiGroup) > 0) || !('Secret' in self.kinds)",message="Secrets are not reached through kube_*; grant secret_read and list them in secrets"
type KubeGrant struct {
	// APIGroup is the group; empty means the core group. There is no wildcard.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$`
	APIGroup string `json:"apiGroup"`
	// Kinds are the kinds, as in a manifest. There is no wildcard.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[A-Z][A-Za-z0-9]*$`
	Kinds []string `json:"kinds"`
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:items:Enum=get;list;apply;delete
	Verbs []string `json:"verbs"`
	// Namespaces restricts the grant; * stands for every one and for cluster-scoped
	// kinds. Empty means none.
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^(\*|[a-z0-9]([-a-z0-9]*[a-z0-9])?)$`
	Namespaces []string `json:"namespaces"`
	// Scopes are the clusters: current, home. Empty means current.
	// +optional
	// +listType=set
	// +kubebuilder:validation:items:Enum=current;home
	Scopes []string `json:"scopes,omitempty"`
}

// SecretGrant allows reading Secrets.
type SecretGrant struct {
	// Namespace is a namespace, or $(owner) for the namespace of the Stack. There is no
	// wildcard.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^(\$\(owner\)|[a-z0-9]([-a-z0-9]*[a-z0-9])?)$`
	Namespace string `json:"namespace"`
	// Names are the Secrets; * stands for every one of the namespace.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^(\*|[a-z0-9]([-a-z0-9.]*[a-z0-9])?)$`
	Names []string `json:"names"`
	// Scopes are the clusters: current, home. Empty means home.
	// +optional
	// +listType=set
	// +kubebuilder:validation:items:Enum=current;home
	Scopes []string `json:"scopes,omitempty"`
	// Raw lets the module see the bytes. Without it, it gets a handle, which the host
	// replaces in the values of charts: a module that also chooses the chart decides what
	// the tenant's cluster does with the secret.
	// +optional
	Raw bool `json:"raw,omitempty"`
}

// ModuleLimits override the operator's defaults for one module, as far as the ceilings of
// the operator allow. What is said of a call is said of each; abi/SPEC.md has the defaults
// and what a module meets beyond each limit.
type ModuleLimits struct {
	// Timeout is the longest time for one call.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}(\.[0-9]{1,6})?h)?([0-9]{1,6}(\.[0-9]{1,6})?m)?([0-9]{1,6}(\.[0-9]{1,6})?s)?([0-9]{1,6}ms)?$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1ms') && duration(self) <= duration('24h')",message="must be between 1ms and 24h"
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// CPU is the most processor time for one call. Waiting for the host costs none.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}(\.[0-9]{1,6})?h)?([0-9]{1,6}(\.[0-9]{1,6})?m)?([0-9]{1,6}(\.[0-9]{1,6})?s)?([0-9]{1,6}ms)?$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1ms') && duration(self) <= duration('24h')",message="must be between 1ms and 24h"
	CPU *metav1.Duration `json:"cpu,omitempty"`
	// Memory is the most linear memory that a call may use.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('64Ki')) >= 0 && quantity(string(self)).compareTo(quantity('4Gi')) <= 0",message="must be between 64Ki and 4Gi"
	Memory *resource.Quantity `json:"memory,omitempty"`
	// TableElements is how many elements each table may have. Above some ten million the
	// process of the module needs more memory than it has.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=134217728
	TableElements *int64 `json:"tableElements,omitempty"`
	// Input is the most that a call is given: configuration, facts and state.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1')) >= 0 && quantity(string(self)).compareTo(quantity('256Mi')) <= 0",message="must be between 1 and 256Mi"
	Input *resource.Quantity `json:"input,omitempty"`
	// Output is the most that a call may answer.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1')) >= 0 && quantity(string(self)).compareTo(quantity('256Mi')) <= 0",message="must be between 1 and 256Mi"
	Output *resource.Quantity `json:"output,omitempty"`
	// HostCalls is how many host functions a call may use.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	HostCalls *int64 `json:"hostCalls,omitempty"`
	// HostCallSize is the size of a request and of a response of a host function, each.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1')) >= 0 && quantity(string(self)).compareTo(quantity('256Mi')) <= 0",message="must be between 1 and 256Mi"
	HostCallSize *resource.Quantity `json:"hostCallSize,omitempty"`
	// HostCallTotal is the size of all requests and responses of a call together.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1')) >= 0 && quantity(string(self)).compareTo(quantity('512Mi')) <= 0",message="must be between 1 and 512Mi"
	HostCallTotal *resource.Quantity `json:"hostCallTotal,omitempty"`
	// LogLines is how many lines a call may log; the rest is counted and dropped.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	LogLines *int64 `json:"logLines,omitempty"`
	// LogSize is the size of the lines together.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1')) >= 0 && quantity(string(self)).compareTo(quantity('256Mi')) <= 0",message="must be between 1 and 256Mi"
	LogSize *resource.Quantity `json:"logSize,omitempty"`
	// Concurrency is how many calls of the module may be under way at a time, and at most
	// as many as the operator has workers. If empty it is half of these, so that a module
	// that hangs leaves the others theirs.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	Concurrency *int64 `json:"concurrency,omitempty"`
}

// The condition types and reasons of a Module.
const (
	ModuleReady = "Ready"

	ModuleReasonLoaded              = "Loaded"
	ModuleReasonInvalidReference    = "InvalidReference"
	ModuleReasonRegistryUnavailable = "RegistryUnavailable"
	ModuleReasonNotFound            = "NotFound"
	ModuleReasonUnauthorized        = "Unauthorized"
	ModuleReasonDigestMismatch      = "DigestMismatch"
	ModuleReasonTooLarge            = "TooLarge"
	ModuleReasonNotAModule          = "NotAModule"
	ModuleReasonLoadFailed          = "LoadFailed"
	ModuleReasonInvalidManifest     = "InvalidManifest"
	ModuleReasonNotGranted          = "NotGranted"
	ModuleReasonInvalidLimits       = "InvalidLimits"
	ModuleReasonLimitTooHigh        = "LimitTooHigh"
	ModuleReasonInProcessNotAllowed = "InProcessNotAllowed"
	ModuleReasonFaulted             = "Faulted"
)

// ModuleStatus is what was loaded.
type ModuleStatus struct {
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Digest is the manifest digest of the artifact in use.
	// +optional
	Digest string `json:"digest,omitempty"`
	// Version is the module's own version.
	// +optional
	Version string `json:"version,omitempty"`
	// Manifest is what the module declares.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Manifest *apiextensionsv1.JSON `json:"manifest,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
