// Package devenv runs a local environment: control planes, a registry and an operator,
// each as a process of its own with its log in a directory of the environment.
//
// An environment either ends with the process that made it, or is detached: then its
// state file says what runs, so that another process can end it. Nothing in it listens
// on anything but 127.0.0.1.
package devenv
