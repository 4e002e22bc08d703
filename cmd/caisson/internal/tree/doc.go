// Package tree turns a Stack into what a person reads: its nodes as a tree with
// disposition, reason and age, and the changes from one look to the next as lines.
//
// It is pure; the commands fetch Stacks and print what this package returns.
package tree
