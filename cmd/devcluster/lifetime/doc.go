// Package lifetime ends a process together with the one that started it.
//
// A local control plane that outlives its test run keeps half a gigabyte and a port for ever, and a parent that is killed with
// SIGKILL cannot clean up. Watching the parent's id works on every Unix; the parent may add a parent-death signal of its own.
package lifetime
