// Package abitest holds the conformance vectors of the ABI, which each host and each
// guest SDK runs in its own tests: envelopes and what a module must read in them, answers
// and what a host must conclude from them, and one exchange or more of every host
// function.
//
// The vectors are the JSON files beside this one, so that an SDK in another language can
// use them as they are. SPEC.md is the text that they illustrate.
package abitest
