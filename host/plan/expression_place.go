package plan

import (
	"errors"
	"fmt"
)

// placedError is what went wrong with an expression, and the path where that stands.
type placedError struct {
	path string
	err  error
}

// placed says where an error is.
func placed(path string, err error) error { return &placedError{path: path, err: err} }

// Error implements error.
func (e *placedError) Error() string { return fmt.Sprintf("%s: %v", e.path, e.err) }

// Unwrap returns what went wrong.
func (e *placedError) Unwrap() error { return e.err }

// addPlaced takes note of an error at the path that it tells of itself, or else at one that
// is known.
func (f *findings) addPlaced(path string, err error) {
	if at := (*placedError)(nil); errors.As(err, &at) {
		path, err = at.path, at.err
	}
	f.addf(path, "", "%s", clipSentence(err.Error()))
}
