// Package kubeconfig writes the administrator's kubeconfig of a devcluster.
//
// The file is self-contained: CA and token are inline, there are no file paths and no commands, so that a program that refuses
// those accepts it. It appears at once and complete, and only when the cluster is ready, so that its existence means ready.
package kubeconfig
