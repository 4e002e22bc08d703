// Package faults holds no code of the product, only a test: a reference Stack is brought
// up, changed and taken down again and again, and each time one call of the operator
// fails. Whatever fails, and wherever, the Stack has to end up as it does when nothing
// fails, with no object leaked, doubled or orphaned.
//
// The operator is the shipped program in a process of its own. It reaches both control
// planes, its own and that of the remote, through proxies of the test, and its modules
// through a relay between it and its worker. These number every call by what it asks for,
// so that "the second PATCH of this Deployment during the change" is a point at which a
// fault can be placed in one run and in the next.
//
// The faults at a request: an error 500 with nothing done, the same with everything done,
// a conflict, a silence, a broken connection after everything was done, the death of the
// operator before and after, and another leader while the request is under way. At a call
// of a module: the death of the worker at its beginning, in the middle and at its end,
// and a worker that hangs.
//
// go test runs a sample that is the same every time; make test-faults runs all of them.
package faults
