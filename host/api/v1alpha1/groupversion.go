package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of every object in this package.
const GroupName = "caisson.dev"

// GroupVersion returns the group and version of this package.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}
}

// AddToScheme registers the types of this package.
func AddToScheme(s *runtime.Scheme) error {
	gv := GroupVersion()
	s.AddKnownTypes(gv, &Stack{}, &StackList{}, &Module{}, &ModuleList{}, &Application{}, &ApplicationList{}, &Blueprint{}, &BlueprintList{})
	metav1.AddToGroupVersion(s, gv)
	return nil
}
