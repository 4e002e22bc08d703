// Package lean is the work of package leaf as the SDK's lean kind of module, which
// first-party modules are. It is a package of its own because nothing in it may link
// encoding/json.
package lean
