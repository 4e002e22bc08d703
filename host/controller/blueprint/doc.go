// Package blueprint reconciles objects of other people's kinds.
//
// A Blueprint maps a kind to a tree. [Reconciler] finds the kind, checks that the Blueprint
// is in force (kind.go, rights.go, status.go) and keeps a run of it in the [Fleet]: a
// controller with a cache and a context of its own, so that it starts and stops while the
// others go on, and nothing of it is left when it has stopped.
//
// The controller of a run (owner.go) keeps one Stack for each object, the owner. The Stack
// carries what the owner wants in spec.resource, and the tree of the Blueprint; whatever
// happens from there on is the business of the Stack controller. What the Stack's status
// says is mirrored in the owner's conditions (mirror.go is pure, conditions.go writes),
// as far as the schema of the kind has room for them (shape.go).
package blueprint
