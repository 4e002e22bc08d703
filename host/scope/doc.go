// Package scope is the cluster that a provisioner acts on: which one it is, how to
// reach it, as whom, and how what was made there is to be removed.
//
// A [Scope] is immutable. It is the one value of ours that a context carries: the
// controller puts the home scope in, a remote bracket replaces it for what runs
// inside, and a leaf reads it with [FromContext].
//
// The way to a cluster is a [Connection], which a [ClientCache] keeps: at home it acts
// as a tenant's ServiceAccount, on a remote with the identity of a kubeconfig. A
// kubeconfig is somebody else's text that says where to connect, so nothing is made of
// one but through [SanitizeConfig], and no redirect of a server is followed.
// [ClientCache.Reachable] tells whether the cluster answers.
package scope
