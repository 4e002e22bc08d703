package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Blueprint maps a kind of resource to a tree: for each of its objects, the owners, one
// Stack is kept, and the owner's conditions say how that is doing.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=bp,categories=caisson
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.resource.kind`
// +kubebuilder:printcolumn:name="Group",type=string,JSONPath=`.spec.resource.group`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Owners",type=integer,JSONPath=`.status.owners`
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.available`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type Blueprint struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec BlueprintSpec `json:"spec"`
	// Status is what was observed. Its default makes a new object count as worked on.
	// +kubebuilder:default:={"observedGeneration":-1}
	Status BlueprintStatus `json:"status,omitempty"`
}

// BlueprintList is a list of Blueprints.
//
// +kubebuilder:object:root=true
type BlueprintList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Blueprint `json:"items"`
}

// BlueprintSpec says which owners there are, and what is made of each. The rules of the
// tree are those of a StackSpec.
//
// +kubebuilder:validation:XValidation:rule="self.provisioners.exists(p, p.name == self.root)",message="root must name one of the provisioners"
// +kubebuilder:validation:XValidation:rule="self.provisioners.all(p, !has(p.serial) || sets.contains(self.provisioners.map(q, q.name), p.serial.children))",message="every child of a serial must name one of the provisioners"
// +kubebuilder:validation:XValidation:rule="self.provisioners.all(p, !has(p.concurrent) || sets.contains(self.provisioners.map(q, q.name), p.concurrent.children))",message="every child of a concurrent must name one of the provisioners"
// +kubebuilder:validation:XValidation:rule="self.provisioners.all(p, !has(p.conditional) || self.provisioners.exists(q, q.name == p.conditional.child))",message="the child of a conditional must name one of the provisioners"
// +kubebuilder:validation:XValidation:rule="self.provisioners.all(p, !has(p.remotecluster) || self.provisioners.exists(q, q.name == p.remotecluster.child))",message="the child of a remotecluster must name one of the provisioners"
// +kubebuilder:validation:XValidation:rule="self.provisioners.all(p, !has(p.remotecluster) || (has(self.remotes) && self.remotes.exists(r, r.name == p.remotecluster.remote)))",message="a remotecluster must name one of the remotes"
// +kubebuilder:validation:XValidation:rule="!has(self.remotes) || self.remotes.all(r, !has(r.within) || size(r.within) == 0 || self.remotes.exists(o, o.name == r.within))",message="within must name one of the remotes"
type BlueprintSpec struct {
	// Resource is the kind of the owners. Its group and kind cannot be changed.
	Resource ResourceKind `json:"resource"`
	// Namespace is where the Stacks of owners without a namespace are. It is required for
	// those; the Stacks of other owners are in their owner's namespace, and it must be
	// empty. It cannot be changed, because the Stacks are there.
	// +optional
	// +kubebuilder:default=""
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="namespace cannot be changed: the Stacks are there; delete the Blueprint and create it anew"
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$`
	Namespace string `json:"namespace,omitempty"`
	// ServiceAccountName is the ServiceAccount in the namespace of the Stack that
	// everything at home is done as; see StackSpec.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
	// Suspend is an expression over resource that is true while the owner's Stack is to be
	// suspended, for instance resource.spec.?paused.orValue(false). Deletion goes on.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Suspend string `json:"suspend,omitempty"`
	// Parameters become those of the Stack. Strings in them may hold expressions over
	// resource, such as ${resource.spec.region}.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Parameters map[string]apiextensionsv1.JSON `json:"parameters,omitempty"`
	// ConditionPrefix stands before the types of the conditions that are written on
	// owners. With Caisson, Available becomes CaissonAvailable; it is for kinds whose own
	// controller writes conditions of the same types.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([A-Za-z][A-Za-z0-9]*)?$`
	ConditionPrefix string `json:"conditionPrefix,omitempty"`
	// Remotes, Root and Provisioners are the tree, as in a StackSpec. The variable
	// resource of its expressions is the owner.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Remotes []Remote `json:"remotes,omitempty"`
	// Root names the provisioner at the top of the tree.
	// +kubebuilder:validation:MaxLength=63
	Root string `json:"root"`
	// Provisioners are the nodes of the tree, in any order.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=128
	Provisioners []Node `json:"provisioners"`
}

// ResourceKind names a kind of the API: one of an installed CRD, or a built-in one.
//
// +kubebuilder:validation:XValidation:rule="self.group == oldSelf.group && self.kind == oldSelf.kind",message="group and kind cannot be changed; delete the Blueprint and create another"
// +kubebuilder:validation:XValidation:rule="self.group != 'caisson.dev'",message="the kinds of caisson.dev cannot be owners"
// +kubebuilder:validation:XValidation:rule="size(self.group) > 0 || self.kind != 'Secret'",message="Secrets cannot be owners: their contents would be copied into Stacks"
type ResourceKind struct {
	// Group is empty for the core group.
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// Version defaults to the preferred one of the group, or if that does not have the
	// kind, to the first that has.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Version string `json:"version,omitempty"`
}

// BlueprintStatus is what was observed.
type BlueprintStatus struct {
	// ObservedGeneration is the generation of the spec that the status belongs to.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Accepted, ConditionsWritten and Ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Resource is the kind as the API serves it.
	// +optional
	Resource *ResolvedKind `json:"resource,omitempty"`
	// Owners counts the objects of the kind, and Available those of them whose Stack is.
	// +optional
	Owners int32 `json:"owners"`
	// +optional
	Available int32 `json:"available"`
}

// ResolvedKind is a kind as the API serves it.
type ResolvedKind struct {
	// APIVersion is group and version, as manifests have them.
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Plural is the name in paths of the API.
	Plural string `json:"plural"`
	// Scope is Namespaced or Cluster.
	Scope string `json:"scope"`
}

// The condition types of a Blueprint, beside Ready.
const (
	// ConditionAccepted says whether the Blueprint is in force: valid, its kind installed,
	// not taken by another one, and the operator permitted to work on its objects.
	ConditionAccepted = "Accepted"
	// ConditionConditionsWritten says whether owners can be told of their Stacks in their
	// conditions; if not, events tell them.
	ConditionConditionsWritten = "ConditionsWritten"
)

// The reasons of a Blueprint's conditions, and of those of an owner that has no Stack.
const (
	ReasonAccepted         = "Accepted"
	ReasonInvalid          = "Invalid"
	ReasonKindNotInstalled = "KindNotInstalled"
	ReasonConflict         = "Conflict"
	ReasonForbidden        = "Forbidden"
	ReasonStarting         = "Starting"
	ReasonRunning          = "Running"
	ReasonReleasing        = "Releasing"
	ReasonWritten          = "Written"
	ReasonNotInSchema      = "NotInSchema"
	ReasonFieldConflict    = "FieldConflict"
	ReasonRefused          = "Refused"
)
