package helm

import (
	"context"
	"errors"
	"log/slog"
	"sync"
)

// causes collects the errors that Helm logs and does not return: a failed uninstall
// says nothing but the name of the release.
// Helm applies objects concurrently, so it is safe for concurrent use.
type causes struct {
	mu   sync.Mutex
	errs []error
}

// maxCauses bounds what a misbehaving action can pile up.
const maxCauses = 16

func (c *causes) add(errs ...error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, err := range errs {
		if err != nil && len(c.errs) < maxCauses {
			c.errs = append(c.errs, err)
		}
	}
}

// join returns err with everything that was logged on the way.
func (c *causes) join(err error) error {
	if err == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(append([]error{err}, c.errs...)...)
}

// causeHandler is a slog handler that keeps errors and drops everything else: Helm's
// debug log may quote what charts render.
type causeHandler struct {
	causes *causes
}

// Enabled implements slog.Handler. Causes are logged at the debug level.
func (h causeHandler) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (h causeHandler) Handle(_ context.Context, record slog.Record) error {
	record.Attrs(func(attr slog.Attr) bool {
		if attr.Key != "error" {
			return true
		}
		switch err := attr.Value.Any().(type) {
		case error:
			h.causes.add(err)
		case []error:
			h.causes.add(err...)
		}
		return true
	})
	return nil
}

// WithAttrs implements slog.Handler.
func (h causeHandler) WithAttrs([]slog.Attr) slog.Handler { return h }

// WithGroup implements slog.Handler.
func (h causeHandler) WithGroup(string) slog.Handler { return h }
