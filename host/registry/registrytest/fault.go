package registrytest

import (
	"net/http"
	"strings"
	"sync/atomic"
)

// Fault is a way to misbehave, as a layer around the registry.
type Fault func(next http.Handler) http.Handler

// The parts of the protocol that a fault can be limited to.
const (
	Manifests = "manifests"
	Blobs     = "blobs"
	// Everything includes the handshake.
	Everything = ""
)

// Status answers the next times requests for a part with a status, and all of them if
// times is 0. The body is what a proxy in front of a registry would send.
func Status(part string, code, times int) Fault {
	var seen atomic.Int64
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if !concerns(req, part) || (times > 0 && seen.Add(1) > int64(times)) {
				next.ServeHTTP(w, req)
				return
			}
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(code)
			_, _ = w.Write([]byte("<html><body>\n" + http.StatusText(code) + "\n</body></html>\n"))
		})
	}
}

// WrongBytes changes the first byte of what is served for a part, and nothing in the
// headers.
func WrongBytes(part string) Fault {
	return onGet(part, func(w http.ResponseWriter) http.ResponseWriter { return &flipper{ResponseWriter: w} })
}

// Oversized sends extra bytes after what is served for a part, without announcing a
// length.
func Oversized(part string, extra int) Fault {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if req.Method != http.MethodGet || !concerns(req, part) {
				next.ServeHTTP(w, req)
				return
			}
			next.ServeHTTP(&headerDropper{ResponseWriter: w, name: "Content-Length"}, req)
			chunk := make([]byte, 4096)
			for left := extra; left > 0; left -= len(chunk) {
				if _, err := w.Write(chunk[:min(left, len(chunk))]); err != nil {
					return
				}
			}
		})
	}
}

// NoDigest leaves out the header that names an answer's digest.
func NoDigest() Fault {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			next.ServeHTTP(&headerDropper{ResponseWriter: w, name: "Docker-Content-Digest"}, req)
		})
	}
}

// Hang holds requests for a part until release is closed or their client leaves.
func Hang(part string, release <-chan struct{}) Fault {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if concerns(req, part) {
				select {
				case <-release:
				case <-req.Context().Done():
					return
				}
			}
			next.ServeHTTP(w, req)
		})
	}
}

// Login demands a user name and a password for everything.
func Login(username, password string) Fault {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if user, pass, ok := req.BasicAuth(); ok && user == username && pass == password {
				next.ServeHTTP(w, req)
				return
			}
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`))
		})
	}
}

// Redirect sends requests for a part to another address, where the path is kept.
func Redirect(part, base string) Fault {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if !concerns(req, part) {
				next.ServeHTTP(w, req)
				return
			}
			http.Redirect(w, req, base+req.URL.Path+"?signature=s3cr3t", http.StatusTemporaryRedirect) //nolint:gosec // A test names the base.
		})
	}
}

func concerns(req *http.Request, part string) bool {
	return part == Everything || strings.Contains(req.URL.Path, "/"+part+"/")
}

func onGet(part string, wrap func(http.ResponseWriter) http.ResponseWriter) Fault {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if req.Method == http.MethodGet && concerns(req, part) {
				w = wrap(w)
			}
			next.ServeHTTP(w, req)
		})
	}
}

// flipper changes the first byte that is written.
type flipper struct {
	http.ResponseWriter
	done bool
}

// Write implements io.Writer.
func (f *flipper) Write(b []byte) (int, error) {
	if f.done || len(b) == 0 {
		return f.ResponseWriter.Write(b)
	}
	f.done = true
	changed := append([]byte{b[0] ^ 1}, b[1:]...)
	return f.ResponseWriter.Write(changed)
}

// headerDropper removes a header just before the headers are sent.
type headerDropper struct {
	http.ResponseWriter
	name string
}

// WriteHeader implements http.ResponseWriter.
func (d *headerDropper) WriteHeader(code int) {
	d.Header().Del(d.name)
	d.ResponseWriter.WriteHeader(code)
}
