// Command caisson is the tool of module authors and platform engineers: it builds,
// inspects and publishes modules, shows Stacks, and runs a local environment.
//
// Results go to standard output in a stable form, progress and errors to standard
// error. An error is one sentence that says what went wrong and what to do about it.
// The exit code is 0 or 1.
package main
