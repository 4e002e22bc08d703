// Package guesttest runs a module natively against an in-memory host, for plain go test.
//
//	h := guesttest.New(t, module, guesttest.Remote("workload", "10.0.0.1", 6443))
//	r := h.Provision(Config{PodCIDR: "10.244.0.0/16"})
//	require.Equal(t, "Yield application_installing", r.String())
//	h.AppReady("")
//	require.Equal(t, "OK", h.Provision(Config{PodCIDR: "10.244.0.0/16"}).String())
//
// A config is a struct, a map or raw JSON, for [guest.Module] and [guest.Lean] alike; a map
// is what a person writes, with the names that the module has to know.
//
// # How it fits
//
// A [Harness] plays the host of package abi: every call goes through the JSON of the
// contract, both ways, as it does in a cluster. Applications become ready, blocked or
// gone when the test says so; objects and Secrets are what the test puts there.
//
// Beyond answering, it fails the test for what a real host would refuse or hide: a host
// function or an object that the manifest does not declare, a reason without a sentence,
// the value of a Secret anywhere in what the module sends. The record of all calls reads
// as a trace, to be compared with a golden file; see [Harness.Golden].
package guesttest
