// Package cdtest is the conformance suite for drivers: [Run] says what every one of
// them has to do, against a real API server.
//
// The parts of it serve a driver's own tests as well: an [Env] is an operator's
// namespace in a cluster, a [Tenant] is a namespace with a service account whose scope
// counts its writes, and a [Repository] serves charts that are built in memory.
//
// Case names carry the numbers of the bug corpus, so that it can be read off which bugs
// of other projects cannot come back here.
package cdtest
