package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// The kinds of node, as its status names them.
const (
	KindSerial        = "serial"
	KindConcurrent    = "concurrent"
	KindConditional   = "conditional"
	KindRemoteCluster = "remotecluster"
	KindApplication   = "application"
	KindModule        = "module"
)

// Node is one provisioner of a tree. Exactly one kind is set.
//
// +kubebuilder:validation:XValidation:rule="[has(self.serial), has(self.concurrent), has(self.conditional), has(self.remotecluster), has(self.application), has(self.module)].filter(k, k).size() == 1",message="a provisioner must have exactly one kind: serial, concurrent, conditional, remotecluster, application or module"
type Node struct {
	// Name identifies the node in the Stack and in its status.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// +optional
	Serial *SerialNode `json:"serial,omitempty"`
	// +optional
	Concurrent *ConcurrentNode `json:"concurrent,omitempty"`
	// +optional
	Conditional *ConditionalNode `json:"conditional,omitempty"`
	// +optional
	RemoteCluster *RemoteClusterNode `json:"remotecluster,omitempty"`
	// +optional
	Application *ApplicationNode `json:"application,omitempty"`
	// +optional
	Module *ModuleNode `json:"module,omitempty"`
}

// Kind returns the name of the kind that is set, or "" if there is not exactly one.
func (n *Node) Kind() string {
	kinds := n.Kinds()
	if len(kinds) != 1 {
		return ""
	}
	return kinds[0]
}

// Kinds returns the names of all kinds that are set. A valid node has one.
func (n *Node) Kinds() []string {
	var kinds []string
	for _, kind := range []struct {
		name string
		set  bool
	}{
		{KindSerial, n.Serial != nil},
		{KindConcurrent, n.Concurrent != nil},
		{KindConditional, n.Conditional != nil},
		{KindRemoteCluster, n.RemoteCluster != nil},
		{KindApplication, n.Application != nil},
		{KindModule, n.Module != nil},
	} {
		if kind.set {
			kinds = append(kinds, kind.name)
		}
	}
	return kinds
}

// Children returns the names of the node's children, in order; of all kinds that are
// set, if it is not valid.
func (n *Node) Children() []string {
	var children []string
	if n.Serial != nil {
		children = append(children, n.Serial.Children...)
	}
	if n.Concurrent != nil {
		children = append(children, n.Concurrent.Children...)
	}
	if n.Conditional != nil {
		children = append(children, n.Conditional.Child)
	}
	if n.RemoteCluster != nil {
		children = append(children, n.RemoteCluster.Child)
	}
	return children
}

// SerialNode provisions its children in order, and deprovisions them in reverse.
type SerialNode struct {
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	Children []string `json:"children"`
}

// ConcurrentNode runs its children side by side.
type ConcurrentNode struct {
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	Children []string `json:"children"`
	// Limit is how many children run at once; 8 if 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=64
	Limit int `json:"limit,omitempty"`
	// UpConcurrentDownSerial deprovisions the children one by one in reverse order.
	// +optional
	UpConcurrentDownSerial bool `json:"upConcurrentDownSerial,omitempty"`
}

// ConditionalNode provisions its child while When is true, deprovisions it while it is
// false, and leaves it alone while that is unknown.
type ConditionalNode struct {
	// When is a CEL expression of type bool, without ${}.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	When string `json:"when"`
	// +kubebuilder:validation:MaxLength=63
	Child string `json:"child"`
}

// RemoteClusterNode runs its child on a remote.
type RemoteClusterNode struct {
	// Remote names one of spec.remotes. The node must stand where that remote is resolved:
	// inside the remote that its on names, or at home.
	// +kubebuilder:validation:MaxLength=63
	Remote string `json:"remote"`
	// +kubebuilder:validation:MaxLength=63
	Child string `json:"child"`
}

// ModuleNode is a Wasm leaf.
type ModuleNode struct {
	// Ref names a Module object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Ref string `json:"ref"`
	// Config is passed to the module; strings may hold expressions.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Config *apiextensionsv1.JSON `json:"config,omitempty"`
}

// ApplicationNode installs an application of the catalogue.
type ApplicationNode struct {
	// Ref names an Application object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Ref string `json:"ref"`
	// Version is an exact version or a range such as 3.x; the newest if empty.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version,omitempty"`
	// Release overrides the release name.
	// +optional
	// +kubebuilder:validation:MaxLength=53
	Release string `json:"release,omitempty"`
	// Namespace overrides the namespace of the catalogue.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// CreateNamespace makes the namespace if it is absent. It is never removed.
	// +optional
	CreateNamespace bool `json:"createNamespace,omitempty"`
	// Values are merged over the catalogue's; strings may hold expressions.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Values *apiextensionsv1.JSON `json:"values,omitempty"`
	// ValuesFrom are merged in order before Values, from the Stack's own namespace.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	ValuesFrom []ValuesReference `json:"valuesFrom,omitempty"`
	// Parameters override single values, as helm --set does.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Parameters []Parameter `json:"parameters,omitempty"`
	// AllowDegraded accepts degraded workloads.
	// +optional
	AllowDegraded bool `json:"allowDegraded,omitempty"`
}

// ValuesReference takes YAML values from a key of a ConfigMap or Secret.
type ValuesReference struct {
	// +kubebuilder:validation:Enum=ConfigMap;Secret
	Kind string `json:"kind"`
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Key defaults to values.yaml.
	// +optional
	// +kubebuilder:default="values.yaml"
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
	// Optional tolerates that the object or key is absent.
	// +optional
	Optional bool `json:"optional,omitempty"`
}

// Parameter is one --set override.
type Parameter struct {
	// +kubebuilder:validation:MaxLength=1024
	Name string `json:"name"`
	// +kubebuilder:validation:MaxLength=65536
	Value string `json:"value"`
}
