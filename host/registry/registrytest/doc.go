// Package registrytest is an OCI registry in the process: a well-behaved one for the
// local demo ([Serve]) and, for tests, one that counts requests and can be told to
// misbehave ([New], [Registry.Inject], [Registry.Down]).
//
// Blobs of a served registry may be kept on disk; tags live as long as the process,
// which suits a demo that pushes what it needs when it starts.
package registrytest
