// Package registry moves modules and charts between an OCI registry and memory. It is
// the only importer of the OCI libraries.
//
// A [Client] resolves a tag to a digest once ([Client.Resolve]), and everything after
// that is by digest: [Client.Pull] caps sizes, verifies what it reads while it reads,
// accepts exactly one uncompressed Wasm layer, and keeps what it got in a disk cache
// that is named by digests and verified again on every read. [Client.Push] and
// [Client.PushChart] publish the same bytes under the same digest every time.
//
// The cache answers by digest and asks nobody for permission. Whoever lets a tenant
// choose a reference must therefore call Resolve with that tenant's credentials
// ([Client.WithCredentials]) before Pull. Modules are chosen by cluster admins, so the
// operator needs no more than that.
//
// Errors that a caller branches on are an [*Error] with a [Kind]; their text holds no
// secrets and may be shown to users.
package registry
