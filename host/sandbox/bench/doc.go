// Command bench measures the sandbox beside what it is compared with, and writes
// BENCHMARKS.md. `make bench` runs it; README.md says what each row is.
//
// Everything that is compared is timed in turns, in another order each round, so that a
// busy machine hits all of it alike: what is reported are medians, and ratios of the same
// round, with the confidence that benchstat's statistics give them. Before anything is
// timed every way has to answer like the native one, with as many host calls.
package main
