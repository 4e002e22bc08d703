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
// to go whatever became of it. "Does not answer" is never read as "gone". Only at the
// end of a deletion pass, when all nodes reported OK and no application addresses the
// remote, is it deregistered.
package remotecluster
