package sandbox

import (
	"fmt"
	"strings"
)

// LoadErrorKind says what is wrong with a module that cannot be loaded.
type LoadErrorKind string

// The kinds of load errors.
const (
	// NotWasm says that the bytes are no Wasm module at all.
	NotWasm LoadErrorKind = "not-wasm"
	// Component says that the file is a component, which this host does not run.
	Component LoadErrorKind = "component"
	// Malformed says that the module breaks the binary format.
	Malformed LoadErrorKind = "malformed"
	// Unsupported says that the module uses a proposal that this host does not run.
	Unsupported LoadErrorKind = "unsupported"
	// TooLarge says that the module exceeds a limit; Limit and Got are set.
	TooLarge LoadErrorKind = "too-large"
	// UnknownImport says that the module asks for something that this host has not.
	UnknownImport LoadErrorKind = "unknown-import"
	// WrongSignature says that an import or export has another type than the ABI's.
	WrongSignature LoadErrorKind = "wrong-signature"
	// MissingExport says that a function of the ABI is not exported.
	MissingExport LoadErrorKind = "missing-export"
	// NoInitializer says that the module is a program instead of a library.
	NoInitializer LoadErrorKind = "no-initializer"
	// CompileFailed says that the compiler refused the module, or did not survive it.
	CompileFailed LoadErrorKind = "compile-failed"
	// DescribeFailed says that the describe export did not answer with code 0.
	DescribeFailed LoadErrorKind = "describe-failed"
)

// LoadError says why a module cannot be loaded. It is final for these bytes and
// these limits. Its text is safe to show to users: names out of the module are
// shortened and quoted.
type LoadError struct {
	// Kind is what a caller branches on.
	Kind LoadErrorKind
	// Section names the Wasm section, or is empty.
	Section string
	// Offset is where in the file the trouble was found, or -1.
	Offset int64
	// Detail says what was found.
	Detail string
	// Remedy says what the author of the module can do, or is empty.
	Remedy string
	// Limit and Got are the two numbers of a limit that was exceeded, or 0.
	Limit, Got int64

	cause error
}

// Error implements error.
func (e *LoadError) Error() string {
	var b strings.Builder
	b.WriteString("the module cannot be loaded: ")
	b.WriteString(e.Detail)
	if e.Limit != 0 || e.Got != 0 {
		fmt.Fprintf(&b, " (%d, the limit is %d)", e.Got, e.Limit)
	}
	switch {
	case e.Section != "" && e.Offset >= 0:
		fmt.Fprintf(&b, ", in the %s section at byte %d", e.Section, e.Offset)
	case e.Section != "":
		fmt.Fprintf(&b, ", in the %s section", e.Section)
	}
	if e.Remedy != "" {
		b.WriteString("; ")
		b.WriteString(e.Remedy)
	}
	return b.String()
}

// Unwrap returns the [Fault] of a compiler or a describe that failed, or nil.
func (e *LoadError) Unwrap() error { return e.cause }
