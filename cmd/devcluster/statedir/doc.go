// Package statedir keeps the directory with a devcluster's state: a given one, or a temporary one that goes at the end.
//
// A lock makes sure that two processes never share one: the second etcd would wait for the first for ever.
package statedir
