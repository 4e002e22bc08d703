// Package depcheck keeps the import rules of this repository: which package may import
// which, so that the architecture stays what the documents say.
//
// [Rules] is the table. [Check] reads the imports of every Go file below a directory,
// of nested modules and of files for other platforms as well, and compares. The test of
// this package runs it over the repository, so a forbidden import fails the build with
// the file that has it and the rule that it breaks. A package that no rule covers fails
// too: whoever adds a package decides what it may import.
package depcheck
