//go:build !unix

package sandbox

// beNice does nothing here.
func beNice() {}
