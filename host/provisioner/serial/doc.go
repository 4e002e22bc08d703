// Package serial runs provisioners one after the other, and takes them down in reverse.
//
// It is the combinator for "this needs that". A child that is not OK holds up those
// behind it, and only them: they are reached in a later pass, because every pass starts
// at the first child again. Children are idempotent, so that is cheap, and nothing has
// to be remembered in between.
package serial
