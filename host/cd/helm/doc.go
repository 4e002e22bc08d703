// Package helm is the embedded driver: it installs applications with the Helm 4 SDK,
// in the operator's process, acting as whoever the scope says.
//
// A call observes the last release in Helm's own storage, decides (decide.go, pure) and
// either answers or starts an action. Actions run in the background, one at a time for
// each release, because nothing in the SDK can be cancelled: a reconcile only polls
// them. What was asked for travels as labels on the release, so that a status is never
// taken for an answer to another question. Readiness is kstatus over the objects of the
// manifest, read in later calls.
//
// What is installed is recorded in an inventory Secret in the operator's namespace
// before it is applied. The inventory, and not the absence of a release, is what proves
// a removal. An action is recorded there as well, with the revision that it makes, before
// Helm stores that revision: a process that finds it pending, and runs no action on it,
// knows that another one of ours died over it, and takes it over at once. A pending
// revision that is not recorded may be a person's, and has its time.
//
// A chart comes from its repository, whose word on a version is asked for at every action.
// While it is away, the archive that it had for the version is used, from the cache: an
// outage of a repository stops neither a change of values nor a repair.
//
// It is the only importer of helm.sh/helm/v4.
package helm
