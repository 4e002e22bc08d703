// Command benchscale measures how the operator grows with the number of Stacks; `make
// bench-scale` runs it.
//
// For each number it starts a control plane and the real operator as a process of its own,
// creates that many Stacks of ten nodes with real modules and real Helm releases, waits
// until all are Available, and watches the operator for a while in which nothing happens.
// With -fairness it then lets some Stacks misbehave and measures what the others notice.
//
// It compares the sizes with each other, because what one size takes depends on the
// machine, and how it grows does not.
package main
