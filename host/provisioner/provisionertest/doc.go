// Package provisionertest has the children that the tests of combinators are made of: a
// [Child] that answers from a script, and a [Trace] of who was asked what.
package provisionertest
