package blueprint

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// AggregationLabel is on ClusterRoles that give the operator rights on kinds of owners.
const AggregationLabel = "rbac.caisson.dev/aggregate-to-operator"

// missing asks the API server which rights on a kind the operator lacks, and returns them
// as VERB RESOURCE; empty if none. Nothing that is done to owners needs more.
func missing(ctx context.Context, c client.Client, k *kind) ([]string, error) {
	wanted := []authorizationv1.ResourceAttributes{
		{Verb: "list", Resource: k.plural}, {Verb: "watch", Resource: k.plural}, {Verb: "patch", Resource: k.plural},
	}
	if k.shape.list != listNone && k.shape.subresource {
		wanted = append(wanted, authorizationv1.ResourceAttributes{Verb: "patch", Resource: k.plural, Subresource: "status"})
	}
	var lacks []string
	for _, attributes := range wanted {
		attributes.Group, attributes.Version = k.gvk.Group, k.gvk.Version
		review := &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &attributes},
		}
		if err := c.Create(ctx, review); err != nil {
			return nil, fmt.Errorf("ask for rights on %s: %w", k, err)
		}
		if review.Status.Allowed {
			continue
		}
		name := attributes.Resource
		if attributes.Subresource != "" {
			name += "/" + attributes.Subresource
		}
		lacks = append(lacks, attributes.Verb+" "+resourceName(name, k.gvk.Group))
	}
	return lacks, nil
}

// remedy says what gives the rights.
func remedy(lacks []string) string {
	return fmt.Sprintf("The operator may not %s. Create a ClusterRole with these rights and the label %s: \"true\".",
		strings.Join(lacks, ", "), AggregationLabel)
}
