// Package explain says in words why a Stack is not Available: which node, what it acts
// on, since when, what would revive it, and what goes on by itself.
//
// It is pure: [Of] is a function of what was read from the cluster and of the time, and
// [Lines] writes what it found. What to do about a reason is a table of package abi,
// beside the reasons; this package adds the names that the Stack at hand has for it.
package explain
