package main

import "fmt"

// userError is an error of the person at the keyboard, with what they can do.
type userError struct {
	cause  error
	remedy string
}

// Error implements error: one sentence and the remedy.
func (e *userError) Error() string { return e.cause.Error() + "; " + e.remedy }

// Unwrap returns the cause.
func (e *userError) Unwrap() error { return e.cause }

// failure makes a [userError]; format is as for fmt.Errorf.
func failure(remedy, format string, args ...any) error {
	return &userError{cause: fmt.Errorf(format, args...), remedy: remedy}
}
