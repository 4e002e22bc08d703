// Package cd is what a tree knows of continuous delivery: an [Application], which is
// one Helm release described independently of what installs it, and a [Driver], which
// makes it so. The drivers are the packages below this one; cdtest is the suite that
// each of them passes.
//
// Drivers never block a reconcile: they start or observe work and return. They return
// the errors of host/provisioner, and reasons of the closed vocabulary in package abi.
package cd
