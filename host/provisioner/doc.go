// Package provisioner is the contract that everything in a tree meets, and the
// algebra by which the outcomes of a tree become one.
//
// A [Provisioner] is idempotent and quick: it does what it can, and returns nil once
// what it stands for has been observed, or an error that says what the controller must
// do next. Such errors are made with [Yield], [Retry], [UserActionRequired] and
// [Terminal]; anything else is a Retry whose text no user sees. Combinators join the
// errors of their children with [Fold], and the controller reads the result with
// [OutcomeOf]. Progress decides the schedule, severity decides the surface.
//
// The kinds of provisioner are packages below this one: serial, concurrent,
// conditional, remotecluster, application and module.
package provisioner
