// Package controlplane runs a whole Kubernetes control plane inside the calling process.
//
// Start brings up, in this order, etcd (etcd.go, on Unix sockets in the state directory), the complete kube-apiserver
// (apiserver.go, on a loopback port), the controllers that people rely on (controllers.go), and the stand-in for nodes from
// package kubelet. It returns when all of that is ready for use (ready.go). A process can do this once: kube-apiserver keeps
// process-wide state.
package controlplane
