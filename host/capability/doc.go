// Package capability decides what a module may do. It is pure policy: it knows what a
// module declares and what an admin granted, and touches no cluster.
//
// A declaration is a request and a [Grant] is the answer. [Check] refuses a module that
// declares more than it was granted before it is ever run, and the Allows methods decide
// on each single call. What is unset and what is empty mean the same: nothing. The API
// server has the last word with the RBAC of the tenant's identity, which is not decided
// here.
package capability
