// Package remotecluster runs provisioners on another cluster.
//
// A [Bracket] stands for one remote that is declared once; [Bracket.On] makes any number
// of nodes that run their child in its scope. All nodes share what one pass finds out
// about the remote: it is resolved, and registered with the driver, at most once, and
// nobody runs on a remote that somebody else of the same pass saw pending. There are no
// counters: what is remembered belongs to a pass, which begins with [Bracket.Begin] and
// ends with [Bracket.Finish], so a tree that is used for a second pass behaves as in its
// first. [Around] does both for a whole tree, which is how a planner uses them.
//
// On the way up, a node waits until the remote is resolved and answers, and registers
// it before anything is installed. On the way down the children always run, with what
// is known of the cluster in their scope, for what was recorded outside the cluster has
// to go whatever became of it. "Does not answer" is not "gone": that takes [Evidence],
// which is the resolver's word, or, only while the owner is being deleted, a human's or a
// silence that outlasts a grace (see [Deletion]). A remote that counts as gone is told to
// its children by the state in their scope, and its registration goes as any other's; what
// may still run there is left, and [Bracket.Evidence] tells whoever reports it. Only at the
// end of a deletion pass, when all nodes reported OK and no application addresses the
// remote, is it deregistered.
package remotecluster
