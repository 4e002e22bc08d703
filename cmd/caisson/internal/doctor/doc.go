// Package doctor looks for what keeps modules from being run, or from being confined as
// well as they can be: on this machine, where [Sandbox] judges what a worker reported of
// itself, and in a cluster, where [Cluster] looks at what the operator needs and at how it
// is doing.
//
// Each finding is a [Check] with what to do about it; [Lines] writes them for people.
package doctor
