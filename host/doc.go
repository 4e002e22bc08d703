// Package host is Caisson as a library: [New] assembles the parts into a controller
// manager, and this page is the map of them.
//
// # One reconcile, from watch event to status patch
//
// Somebody changes a Secret that the module of a node reads by handle.
//
// The event reaches host/controller. Its index in memory knows which Stacks have read
// that Secret, because the last pass recorded every input by name, and puts them into
// the queue. The Stack reconciler observes: it compares the recorded inputs with the
// caches, and decides (decide.go, a pure function) that a pass is due. Had nothing
// changed, it would stop here: no module call, no read that is not from a cache, no
// write.
//
// The pass begins with a plan. host/plan turns the spec into a tree: it finds cycles and
// unknown names, compiles the CEL expressions once for each generation, and wraps every
// node so that its outcome is recorded under its path.
//
// The tree is made of the packages below host/provisioner, which hold one kind each:
// serial, concurrent and conditional run children; remotecluster resolves a kubeconfig,
// registers the cluster and runs its children there; application and module are the
// leaves. All of them meet the contract of host/provisioner, and act in the host/scope
// that their context carries: which cluster, as whom, and how things are removed. At home
// that is the tenant's ServiceAccount, on a remote the kubeconfig's own identity.
//
// The module leaf builds the envelope of package abi and calls its runtime, which is
// host/sandbox: the Wasm runs in a child process with an empty environment, in a state
// that no other call has touched, until its deadline. Whatever it asks for comes back over
// a pipe as a host function, is checked against what the module declared and what the
// admin granted (host/capability), and is done in the scope. The secret stays on this
// side; the guest gets a handle.
//
// The module asks for an application. host/cd describes one independently of who
// installs it, and host/cd/helm installs it in the background with the Helm SDK, never
// blocking the pass: it answers that the application is being upgraded, which is a yield.
// The module returns that, with its disposition code.
//
// Back up the tree the outcomes are folded: progress decides the schedule, severity
// decides what is shown. The controller turns the result into the next status, again
// with a pure function (status.go), and writes it with one patch. It asks to be called
// again in some seconds, but that is only the net: when the workload becomes ready, the
// driver's watch says so, and the next pass makes the Stack available.
//
// # Where modules come from
//
// The Module reconciler, also in host/controller, resolves a tag to a digest, pulls the
// artifact with host/registry, and has it checked and compiled by host/sandbox, outside
// of any pass. A new digest is taken up while the operator runs.
//
// # Resources of other people
//
// A Blueprint maps a kind to a tree. host/controller/blueprint starts a controller for that
// kind while the operator runs, keeps one Stack for each of its objects, and tells in the
// object's conditions how that is doing. host/plan evaluates the expressions over the object.
//
// # Embedding
//
// An operator of your own calls [RunWorkerIfRequested] first in main, so that its binary
// can serve as the worker. There are three ways from there, and examples/embed goes the
// second one.
//
// [New] gives your manager all that Caisson is: Stacks, Modules, Applications and
// Blueprints, with their CRDs. A Blueprint makes a tree for every object of an installed
// kind without a line of Go: it turns each into a Stack.
//
// [Embed] gives you a [Host] without any controller or CRD of ours. [Host.LoadModule]
// loads a module with a grant that your program gives it, and [Manage] adds a controller
// for a kind of your own: you build the tree of an object out of the combinators and the
// leaves that a [Pass] makes, and the same machinery as for Stacks runs it, with
// finalizer, conditions, parks, revivals and removals. What a Stack has in its status is
// kept in a Secret for each owner UID in the operator's namespace. [Host.UseObjects] adds
// Module and Application objects, which leave the grants to admins.
//
// If all you want is a tree, the packages below host/provisioner need no controller: put a
// scope into a context with scope.NewContext and call Provision.
//
// # Where to look
//
//   - What a disposition does to the schedule and to the surface: host/provisioner, Fold.
//   - When a wake leads to a pass, and what revives a park: host/controller, decide.go.
//   - What conditions say: host/controller, status.go.
//   - Who may be an owner, and where its record is: host/controller, owners.go and
//     records.go.
//   - How a spec becomes a tree: host/plan; for trees in Go, kit.go there.
//   - What a module may ask for: host/capability, and abi/SPEC.md for the words.
//   - Why it is as it is: RATIONALE.md, beside this file.
package host
