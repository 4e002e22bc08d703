// Package conditional runs a provisioner while something holds, and takes it down while
// it does not.
//
// The predicate is three-valued on purpose. What cannot be decided yet, because a fact
// is missing or a lookup failed, must never read as false: that would uninstall. So a
// [Decision] is made with [True], [False] or [Unknown], its zero value is unknown, and
// while it is unknown the child is left exactly as it is.
package conditional
