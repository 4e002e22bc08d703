// Package concurrent runs provisioners side by side.
//
// It is the combinator for things that do not need each other. All children run to
// their end in every pass: none is cancelled because another failed, and one that
// panics takes nobody with it. The result is folded in the order of the children and
// not in that of their finishing, so equal worlds give equal outcomes.
package concurrent
