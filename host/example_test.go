package host_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/serial"
	"github.com/caisson-dev/caisson/host/scope"
)

// namespace is a provisioner of one's own.
type namespace struct{ provisioner.Metadata }

// Provision implements provisioner.Provisioner.
func (n namespace) Provision(ctx context.Context) error {
	s, _ := scope.FromContext(ctx)
	return client.IgnoreAlreadyExists(s.Client().Create(ctx, n.object()))
}

// Deprovision implements provisioner.Provisioner.
func (n namespace) Deprovision(ctx context.Context) error {
	s, _ := scope.FromContext(ctx)
	return client.IgnoreNotFound(s.Client().Delete(ctx, n.object()))
}

func (n namespace) object() *corev1.Namespace {
	object := &corev1.Namespace{}
	object.Name = n.Name
	return object
}

// A tree needs no controller: a scope in the context says where it acts, and as whom.
func Example_treeAlone() {
	c := fake.NewClientBuilder().Build()
	owner := scope.Owner{APIVersion: "example.com/v1", Kind: "Team", Name: "a", UID: "1"}
	ctx := scope.NewContext(context.Background(), scope.NewHome(owner, &rest.Config{}, c))

	tree := serial.New("team",
		namespace{provisioner.Metadata{Name: "team-a"}},
		namespace{provisioner.Metadata{Name: "team-a-test"}},
	)
	outcome := provisioner.OutcomeOf(tree.Provision(ctx))
	list := &corev1.NamespaceList{}
	_ = c.List(ctx, list)
	fmt.Println(outcome.Class, len(list.Items))

	outcome = provisioner.OutcomeOf(tree.Deprovision(ctx))
	_ = c.List(ctx, list)
	fmt.Println(outcome.Class, len(list.Items))
	// Output:
	// OK 2
	// OK 0
}
