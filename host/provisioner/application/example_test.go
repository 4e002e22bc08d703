package application_test

import (
	"context"
	"fmt"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/application"
	"github.com/caisson-dev/caisson/host/scope"
)

// A leaf takes its application from the catalogue when it provisions, and needs nothing
// but its identity when it deprovisions.
func Example() {
	catalogue := application.CatalogueFunc(func(_ context.Context, name string) (*application.Entry, error) {
		return &application.Entry{Name: name, Versions: []application.Version{
			{Version: "v3.12.1", Repo: "oci://registry.example.com/charts", Chart: name, Parameters: []cd.Parameter{{Name: "replicas", Value: "1"}}},
			{Version: "4.0.0", Repo: "oci://registry.example.com/charts", Chart: name},
		}}, nil
	})
	driver := &driver{ensure: provisioner.Yield(abi.ReasonApplicationInstalling, "")}
	metrics := application.New(application.Options{
		Name: "metrics", ID: identity(), Applications: driver,
		Spec: func(ctx context.Context) (*cd.Application, error) {
			s, _ := scope.FromContext(ctx)
			return application.Build(ctx, catalogue, nil, s, identity(), "metrics-server", application.Node{
				Version: "3.x", Namespace: "kube-system", Parameters: []cd.Parameter{{Name: "replicas", Value: "2"}},
			})
		},
	})

	ctx := scope.NewContext(context.Background(), scope.NewHome(owner(), nil, nil))
	fmt.Println(provisioner.OutcomeOf(metrics.Provision(ctx)).Headline.Sentence)
	fmt.Println(driver.app.Version, driver.app.Namespace, driver.app.Parameters)
	fmt.Println(metrics.Deprovision(ctx))
	// Output:
	// The application is being installed.
	// v3.12.1 kube-system [{replicas 1} {replicas 2}]
	// <nil>
}
