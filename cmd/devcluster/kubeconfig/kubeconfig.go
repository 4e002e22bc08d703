package kubeconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// contextPrefix begins the context's name in every file of ours. Prepare recognises them by it.
const contextPrefix = "devcluster-"

// ErrForeign says that a file at the kubeconfig's path was not written by devcluster and was left alone. The caller should ask
// for another path.
var ErrForeign = errors.New("file exists and was not written by devcluster")

// Access is how to reach a cluster as its administrator.
type Access struct {
	// Name tells the cluster from others; the kubeconfig's entries are named after it.
	Name string
	// Server is the API server's URL.
	Server string
	// CA is the PEM bundle that the server's certificate is verified with.
	CA []byte
	// Token is the administrator's bearer token.
	Token string
}

// Encode returns the kubeconfig as YAML.
func Encode(access Access) ([]byte, error) {
	name := contextPrefix + access.Name

	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: access.Server, CertificateAuthorityData: access.CA}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: access.Token}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name

	data, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("encode kubeconfig: %w", err)
	}

	return data, nil
}

// Prepare makes way for a kubeconfig at path: it creates the directory, and removes what an earlier devcluster left, so that a
// file there means a cluster that is ready. It returns ErrForeign if something else is there.
func Prepare(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("create directory of kubeconfig: %w", err)
	}

	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read existing kubeconfig: %w", err)
	}
	// The parser's error could quote the file, so it is not passed on.
	config, err := clientcmd.Load(data)
	if err != nil || !strings.HasPrefix(config.CurrentContext, contextPrefix) {
		return fmt.Errorf("kubeconfig %s: %w", path, ErrForeign)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove stale kubeconfig: %w", err)
	}

	return nil
}

// Write puts data at path, readable for the owner alone. A reader sees all of it or no file.
func Write(path string, data []byte) error {
	// CreateTemp makes files with mode 0600.
	file, err := os.CreateTemp(filepath.Dir(path), ".kubeconfig-*")
	if err != nil {
		return fmt.Errorf("create kubeconfig: %w", err)
	}
	defer func() { _ = os.Remove(file.Name()) }() // gone already, unless something failed

	if _, err := file.Write(data); err != nil {
		_ = file.Close()

		return fmt.Errorf("write kubeconfig: %w", err)
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("close kubeconfig: %w", err)
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return fmt.Errorf("put kubeconfig in place: %w", err)
	}

	return nil
}
