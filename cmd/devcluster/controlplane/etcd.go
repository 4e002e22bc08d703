package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/embed"
)

// maxSocketPath is the longest path that a Unix socket may have: macOS allows 104 bytes with the closing zero, Linux 108.
const maxSocketPath = 103

// etcd is an embedded etcd with one member.
type etcd struct {
	server *embed.Etcd
	// endpoint is the URL for clients.
	endpoint string
	// sockets is the directory of the sockets, to be removed at the end if it is not inside the state directory.
	sockets string
}

// startEtcd serves the data below dir on Unix sockets: other users of the machine cannot reach them, as they could a port, and
// no port has to be found. It returns once requests are answered.
func startEtcd(ctx context.Context, dir string) (*etcd, error) {
	sockets, err := socketDir(dir)
	if err != nil {
		return nil, err
	}
	client := url.URL{Scheme: "unix", Path: filepath.Join(sockets, "etcd.sock")}
	peer := url.URL{Scheme: "unix", Path: filepath.Join(sockets, "peer.sock")}

	config := embed.NewConfig()
	config.Dir = filepath.Join(dir, "etcd")
	config.LogLevel = "fatal"   // failures come back as errors; anything above would only be noise at shutdown
	config.UnsafeNoFsync = true // a development cluster may lose its last writes when the machine crashes
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)

	server, err := embed.StartEtcd(config)
	if err != nil {
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	started := &etcd{server: server, endpoint: client.String(), sockets: sockets}

	select {
	case <-server.Server.ReadyNotify():
		return started, nil
	case err := <-server.Err():
		return nil, fmt.Errorf("serve etcd: %w", err)
	case <-server.Server.StopNotify():
		return nil, errors.New("etcd stopped while it started")
	case <-ctx.Done():
		started.stop()

		return nil, fmt.Errorf("wait for etcd: %w", context.Cause(ctx))
	}
}

// stop closes etcd and writes what is left to write.
func (e *etcd) stop() {
	e.server.Close()
	_ = os.RemoveAll(e.sockets)
}

// socketDir returns an empty directory for the sockets: below dir, or in the system's place for temporary files if dir's path is
// too long for a socket.
func socketDir(dir string) (string, error) {
	sockets := filepath.Join(dir, "run")
	if len(filepath.Join(sockets, "etcd.sock")) > maxSocketPath {
		short, err := os.MkdirTemp("", "devcluster-run-")
		if err != nil {
			return "", fmt.Errorf("create directory for sockets: %w", err)
		}

		return short, nil
	}

	// A killed run leaves its sockets, and one that exists cannot be listened on.
	if err := os.RemoveAll(sockets); err != nil {
		return "", fmt.Errorf("remove old sockets: %w", err)
	}
	if err := os.Mkdir(sockets, 0o700); err != nil {
		return "", fmt.Errorf("create directory for sockets: %w", err)
	}

	return sockets, nil
}
