// Command attacks lets every attack of the sandbox's table loose on an operator that runs,
// and measures what that does to everybody else. `make attack` runs it; nothing ships it.
//
// The operator is the shipped program in a process of its own, on a real control plane.
// Each attack is pushed to a registry, becomes a Module, and is used by a Stack, while a
// Stack of another tenant is changed again and again. An attack counts as contained if the
// Module, or the node, ends with the reason that the table expects. Meanwhile three things
// are watched: how long a change of the neighbour takes, how long the operator leaves a
// health probe unanswered, and whether it renews its lease in time. Between the attacks the
// same is watched while nobody else works, and while a harmless module comes and goes.
package main
