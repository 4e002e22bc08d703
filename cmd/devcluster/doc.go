// Command devcluster is a Kubernetes control plane as one program, for demonstrations and integration tests.
//
// It needs no containers, no downloads and no privileges: etcd, kube-apiserver and the controllers are linked in, and a small
// stand-in for scheduler and kubelet makes pods Ready. main.go wires the parts:
//
//	flags.go       the command line
//	statedir       the directory with the state
//	controlplane   etcd, kube-apiserver, controllers; Start returns when the cluster is usable
//	kubelet        the stand-in for nodes, load balancers and volumes
//	kubeconfig     the file that says that the cluster is ready and how to reach it
//	lifetime       ends the program with its parent
//
// README.md says how to use it.
package main
