// Package controller turns events into passes, and passes into status.
//
// A pass of a Stack observes, decides, runs the tree once, and writes the status once.
// [StackReconciler] is that loop; decide and nextStatus are its pure halves. What wakes
// a Stack (its own spec, a Module, a catalogue entry, a recorded Secret or ConfigMap,
// and what the driver installed) is wired in setup.go; polling is only the net below.
//
// [ModuleReconciler] resolves, pulls and loads modules, and keeps them in [Modules],
// from where trees take them.
//
// The package knows no sandbox, registry or driver: they come in through interfaces that
// are declared here, beside their use.
package controller
