package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Stack is a tree of provisioners that is brought up, kept up and taken down.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=stk,categories=caisson
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].reason`
// +kubebuilder:printcolumn:name="Nodes",type=string,JSONPath=`.status.summary`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Available")].message`
type Stack struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec StackSpec `json:"spec"`
	// Status is what was observed. Its default makes a new object count as worked on:
	// kstatus takes one without any status for finished.
	// +kubebuilder:default:={"observedGeneration":-1}
	Status StackStatus `json:"status,omitempty"`
}

// StackList is a list of Stacks.
//
// +kubebuilder:object:root=true
type StackList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Stack `json:"items"`
}

// The rules of a StackSpec find references to nothing. They cannot say which node is meant: the
// API server estimates the cost of such a message at more than a hundred times what it
// allows, as it does for a rule that looks for second parents or cycles. Those are found
// by host/plan, which names the nodes.

// Durations have a pattern, because a text that Go does not take for one would fail the
// list of all objects of the kind and not only that of one.

// StackSpec is the desired tree.
//
// +kubebuilder:validation:XValidation:rule="self.provisioners.exists(p, p.name == self.root)",message="root must name one of the provisioners"
// +kubebuilder:validation:XValidation:rule="self.provisioners.all(p, !has(p.serial) || sets.contains(self.provisioners.map(q, q.name), p.serial.children))",message="every child of a serial must name one of the provisioners"
// +kubebuilder:validation:XValidation:rule="self.provisioners.all(p, !has(p.concurrent) || sets.contains(self.provisioners.map(q, q.name), p.concurrent.children))",message="every child of a concurrent must name one of the provisioners"
// +kubebuilder:validation:XValidation:rule="self.provisioners.all(p, !has(p.conditional) || self.provisioners.exists(q, q.name == p.conditional.child))",message="the child of a conditional must name one of the provisioners"
// +kubebuilder:validation:XValidation:rule="self.provisioners.all(p, !has(p.remotecluster) || self.provisioners.exists(q, q.name == p.remotecluster.child))",message="the child of a remotecluster must name one of the provisioners"
// +kubebuilder:validation:XValidation:rule="self.provisioners.all(p, !has(p.remotecluster) || (has(self.remotes) && self.remotes.exists(r, r.name == p.remotecluster.remote)))",message="a remotecluster must name one of the remotes"
// +kubebuilder:validation:XValidation:rule="!has(self.remotes) || self.remotes.all(r, !has(r.within) || size(r.within) == 0 || self.remotes.exists(o, o.name == r.within))",message="within must name one of the remotes"
type StackSpec struct {
	// ServiceAccountName is the ServiceAccount in the Stack's namespace that everything
	// at home is done as. Without it the operator's default is used; if there is none the
	// Stack is refused.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$`
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
	// Suspend stops all work but deletion.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// Parameters are values for expressions, under the variable parameters.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Parameters map[string]apiextensionsv1.JSON `json:"parameters,omitempty"`
	// Resource is what expressions see under resource; the Stack itself if absent. A
	// Blueprint puts the owner there: apiVersion, kind, name, namespace, uid and labels,
	// and what the owner says it wants. At most 256 KiB.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Resource *apiextensionsv1.JSON `json:"resource,omitempty"`
	// Remotes are the other clusters that nodes run on.
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

// Remote is another cluster.
//
// +kubebuilder:validation:XValidation:rule="[has(self.kubeconfigSecret), has(self.clusterAPI), has(self.vcluster)].filter(given, given).size() == 1",message="a remote must say where its kubeconfig comes from: exactly one of kubeconfigSecret, clusterAPI and vcluster"
type Remote struct {
	// Name is what nodes refer to.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// Within names the remote in whose scope this one is resolved; home if empty.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Within string `json:"within,omitempty"`
	// Owned makes the Stack register the cluster, and deregister it when nothing is left.
	// +optional
	Owned bool `json:"owned,omitempty"`
	// Teardown is how what runs on the remote is removed.
	// +optional
	// +kubebuilder:default=Drain
	// +kubebuilder:validation:Enum=Drain;Discard;Orphan
	Teardown string `json:"teardown,omitempty"`
	// UnreachableGrace is how long the deletion of the Stack waits for a remote that does
	// not answer, from its beginning or from the last answer; a cluster that refuses the
	// credential has answered. After that the remote counts as gone: its records are
	// dropped, and what may still run there is left. 0s waits for ever, that is until the
	// remote answers or the annotation caisson.dev/gone names it. For a remote with the
	// teardown Discard, whose cluster goes anyway, a minute or two may be enough.
	// +optional
	// +kubebuilder:default="15m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}(\.[0-9]{1,6})?h)?([0-9]{1,6}(\.[0-9]{1,6})?m)?([0-9]{1,6}(\.[0-9]{1,6})?s)?([0-9]{1,6}ms)?$`
	UnreachableGrace *metav1.Duration `json:"unreachableGrace,omitempty"`
	// KubeconfigSecret names a Secret in the namespace of the Stack; if within is set, in the
	// namespace of the same name on that remote.
	// +optional
	KubeconfigSecret *SecretKeyReference `json:"kubeconfigSecret,omitempty"`
	// ClusterAPI names a Cluster of Cluster API, whose kubeconfig is in the Secret
	// NAME-kubeconfig beside it.
	// +optional
	ClusterAPI *ClusterReference `json:"clusterAPI,omitempty"`
	// VCluster names a virtual cluster of vcluster, whose kubeconfig is in the Secret vc-NAME
	// beside it.
	// +optional
	VCluster *VClusterReference `json:"vcluster,omitempty"`
}

// ClusterReference names a Cluster of Cluster API.
type ClusterReference struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=240
	Name string `json:"name"`
	// Namespace is that of the Cluster; the Stack's own if empty. Its Secret is read as the
	// Stack's ServiceAccount, or if within is set with the identity that the Stack has on that
	// remote, and must be readable to it. If that identity may also get Clusters, a deletion
	// takes a remote that is silent for a minute, and whose Cluster does not exist any more,
	// for gone.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
}

// VClusterReference names a virtual cluster of vcluster.
type VClusterReference struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=240
	Name string `json:"name"`
	// Namespace is that of the virtual cluster; the Stack's own if empty. The Secret is read as
	// that of a clusterAPI remote is.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// Server is where the operator reaches the virtual cluster, for instance
	// https://NAME.NAMESPACE:443. It is needed unless exportKubeConfig.server is set in the
	// virtual cluster, because its kubeconfig is made for a port-forward then, and says
	// https://localhost:8443. The kubeconfig must have certificate-authority-data: the
	// credential goes to nobody else.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^https://[^/?#@]+`
	Server string `json:"server,omitempty"`
}

// SecretKeyReference names a key of a Secret.
type SecretKeyReference struct {
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// Key defaults to value.
	// +optional
	// +kubebuilder:default=value
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// StackStatus is what was observed.
type StackStatus struct {
	// ObservedGeneration is the generation of the spec that the status belongs to.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Available and Ready, and Reconciling or Stalled while true.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Summary counts the leaves that are OK, for instance 3/5.
	// +optional
	Summary string `json:"summary,omitempty"`
	// Nodes are the nodes of the tree, sorted by path.
	// +optional
	// +listType=map
	// +listMapKey=name
	Nodes []NodeStatus `json:"nodes,omitempty"`
	// Facts are what nodes published, by fact name; at most 16 KiB in all.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Facts map[string]apiextensionsv1.JSON `json:"facts,omitempty"`
	// Inputs are the objects that the last pass read, without their contents.
	// +optional
	// +listType=atomic
	Inputs []InputRecord `json:"inputs,omitempty"`
	// InputsDigest identifies everything that the last pass depended on.
	// +optional
	InputsDigest string `json:"inputsDigest,omitempty"`
	// Retained are the objects that a removal leaves, or has left, on purpose: namespaces
	// that were made for applications, CRDs, and what a chart says is to be kept.
	// +optional
	// +listType=set
	Retained []string `json:"retained,omitempty"`
	// Abandoned is what a deletion gave up because its cluster is gone: remotes, with the
	// evidence, and the releases that were recorded there and were not removed. It is
	// filled while the Stack is being deleted.
	// +optional
	// +listType=set
	Abandoned []string `json:"abandoned,omitempty"`
	// Parked is set while nothing will happen before somebody acts.
	// +optional
	Parked *Parked `json:"parked,omitempty"`
	// LastPassTime is when a pass last ran to its end with something to write.
	// +optional
	LastPassTime *metav1.Time `json:"lastPassTime,omitempty"`
}

// NodeStatus is the last outcome of one node.
type NodeStatus struct {
	// Name is the node's name in the spec.
	Name string `json:"name"`
	// Path is the names from the root to the node, joined by slashes.
	Path string `json:"path"`
	// Kind is the kind of the node, for instance module.
	Kind string `json:"kind"`
	// Disposition is OK, Yield, Retry, UserActionRequired, Terminal, or Waiting for a node
	// that has not been reached, or Removed for one that is switched off.
	Disposition string `json:"disposition"`
	// Reason is a code of the closed vocabulary; empty when OK.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message is the fixed sentence for the reason.
	// +optional
	Message string `json:"message,omitempty"`
	// LastTransitionTime is when disposition or reason last changed.
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
}

// The dispositions of a node's status beside those of the ABI.
const (
	// NodeWaiting is a node that no pass has reached yet.
	NodeWaiting = "Waiting"
	// NodeRemoved is a node that a condition has switched off, and that is gone.
	NodeRemoved = "Removed"
)

// InputRecord names an object that a pass read.
type InputRecord struct {
	// Scope is home, or the identity of a remote.
	Scope     string `json:"scope"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Absent says that it did not exist.
	// +optional
	Absent bool `json:"absent,omitempty"`
	// ResourceVersion is what was read.
	// +optional
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

// Parked records why a Stack waits for somebody, and what would revive it.
type Parked struct {
	Disposition string `json:"disposition"`
	Reason      string `json:"reason"`
	Path        string `json:"path"`
	// Generation, RetryToken and InputsDigest are what must change to revive.
	Generation int64 `json:"generation"`
	// +optional
	RetryToken   string      `json:"retryToken,omitempty"`
	InputsDigest string      `json:"inputsDigest"`
	Since        metav1.Time `json:"since"`
}
