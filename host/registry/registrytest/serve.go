package registrytest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	ggcr "github.com/google/go-containerregistry/pkg/registry"
)

const (
	// readHeaderTimeout keeps a silent client from holding a connection.
	readHeaderTimeout = 10 * time.Second
	// shutdownTimeout is how long running requests may take when the context ends.
	shutdownTimeout = 2 * time.Second
)

// NewHandler returns a registry with the referrers API that keeps its blobs under
// storageDir, or in memory if that is empty. The directory must exist.
func NewHandler(storageDir string) http.Handler {
	options := []ggcr.Option{
		ggcr.Logger(log.New(io.Discard, "", 0)),
		ggcr.WithReferrersSupport(true),
	}
	if storageDir != "" {
		options = append(options, ggcr.WithBlobHandler(ggcr.NewDiskBlobHandler(storageDir)))
	}
	return ggcr.New(options...)
}

// Serve answers on listener until ctx ends, and then returns nil; any other end is an
// error. It closes the listener. There is no login: let it listen on loopback only.
func Serve(ctx context.Context, listener net.Listener, storageDir string) error {
	server := &http.Server{
		Handler:           NewHandler(storageDir),
		ReadHeaderTimeout: readHeaderTimeout,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve the registry on %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(bounded); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("stop the registry on %s: %w", listener.Addr(), err)
	}
	_ = server.Close()
	return nil
}
