// Package plan turns a Stack into a tree of provisioners, and says everything that is
// wrong with it when it cannot.
//
// [Build] is pure: it reads the Stack and nothing else, and calls nobody. What the tree
// needs while it runs is in [Dependencies], which the controller fills. A [Tree] is good
// for one pass: the controller builds it, runs [Tree.Provision] or [Tree.Deprovision]
// once, and reads what came of it from [Tree.Results] and [Tree.Facts]. What depends on
// the generation alone (the checks and the compiled expressions) is kept in a [Cache].
//
// # Expressions
//
// A string in a module's config or an application's values that is wholly ${cel} becomes
// the typed result; one that contains ${cel} becomes text, with anything but a string in
// its JSON form; $${ stands for a literal ${. A conditional's when is an expression
// without ${}. The variables are
//
//	resource    apiVersion, kind, metadata (name, namespace, uid, generation) and spec of
//	            the owner: what changes only with its generation
//	parameters  spec.parameters
//	facts       what nodes have published, in earlier passes and earlier in this one
//	scope       id, host, port and remote of the cluster that the node acts on
//
// Integers that fit into 64 bits stay integers, other numbers are float64, null stays
// null. A fact that is absent, in whole or in part, makes the node Yield facts_missing,
// and a condition unknown; has(facts.x) and facts.?x ask without waiting. An absent
// parameter, a type error or a result without a JSON form is a Terminal
// invalid_expression, found when the node runs. Expressions are bounded in length, cost,
// time, comprehensions and output, and never see a Secret.
//
// A removal must not depend on the spec being right: in a Deprovision conditions are not
// evaluated, and a key of a module's config whose expression fails for any reason is left
// out (an element of a list becomes null). The Build of a Stack that is being deleted
// therefore tolerates expressions that do not compile.
//
// # Remotes
//
// Every remote has one bracket, shared by all nodes that run on it. A remotecluster node
// must stand where its remote is resolved: inside the remote that within names, or at home
// if within is empty. The tree thus reads as it runs, and no cluster is entered that the spec
// does not show. A remote may be used by any number of nodes, or none.
//
// A Stack whose remote is gone for good can still be deleted: the annotation
// [v1alpha1.GoneAnnotation] names remotes that are declared gone, and one that does not
// answer for longer than its unreachableGrace counts as gone by itself. Both count while
// the Stack is being deleted only. The nodes on such a remote run with that state in their
// scope, the driver drops its records, and [Tree.Abandoned] tells what was given up.
package plan
