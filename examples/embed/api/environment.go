// Package api holds the one kind of the example operator. It knows nothing of Caisson.
//
// +groupName=platform.example.com
// +versionName=v1
// +kubebuilder:object:generate=true
package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// AddToScheme registers the kind.
func AddToScheme(s *runtime.Scheme) error {
	version := schema.GroupVersion{Group: "platform.example.com", Version: "v1"}
	s.AddKnownTypes(version, &Environment{}, &EnvironmentList{})
	metav1.AddToGroupVersion(s, version)
	return nil
}

// Environment is what a team gets in its namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].message`
type Environment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   EnvironmentSpec   `json:"spec,omitempty"`
	Status EnvironmentStatus `json:"status,omitempty"`
}

// EnvironmentSpec says what it consists of.
type EnvironmentSpec struct {
	// Pods is how many pods may run.
	//
	// +kubebuilder:validation:Minimum=0
	Pods int64 `json:"pods"`
	// Greeting is for the team to read.
	Greeting string `json:"greeting"`
	// Demo adds an application to play with.
	Demo bool `json:"demo,omitempty"`
}

// EnvironmentStatus is written by server-side apply.
type EnvironmentStatus struct {
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// EnvironmentList is a list of them.
//
// +kubebuilder:object:root=true
type EnvironmentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Environment `json:"items"`
}
