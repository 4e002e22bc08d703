package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/client-go/util/keyutil"
)

// tokenBytes is the length of the administrator's token before encoding: 256 bits cannot be guessed.
const tokenBytes = 32

// credentials are the secrets of one start. Files because kube-apiserver reads them from files.
type credentials struct {
	// adminToken is a bearer token of the group system:masters.
	adminToken string
	// tokenFile is kube-apiserver's list of static tokens, which holds adminToken.
	tokenFile string
	// accountKey signs ServiceAccount tokens; accountKeyFile is its PEM file.
	accountKey     *ecdsa.PrivateKey
	accountKeyFile string
}

// newCredentials makes a fresh administrator's token. The key of ServiceAccount tokens is kept in dir, so that tokens which the
// cluster's state holds stay valid when the cluster is started on it again.
func newCredentials(dir string) (*credentials, error) {
	made := &credentials{tokenFile: filepath.Join(dir, "tokens.csv"), accountKeyFile: filepath.Join(dir, "serviceaccount.key")}

	token := make([]byte, tokenBytes)
	if _, err := rand.Read(token); err != nil {
		return nil, fmt.Errorf("make admin token: %w", err)
	}
	made.adminToken = hex.EncodeToString(token)
	line := made.adminToken + ",devcluster-admin,devcluster-admin,system:masters\n"
	if err := os.WriteFile(made.tokenFile, []byte(line), 0o600); err != nil {
		return nil, fmt.Errorf("write token file: %w", err)
	}

	key, err := accountKey(made.accountKeyFile)
	if err != nil {
		return nil, err
	}
	made.accountKey = key

	return made, nil
}

// accountKey reads the key at path, or makes one there.
func accountKey(path string) (*ecdsa.PrivateKey, error) {
	found, err := keyutil.PrivateKeyFromFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return newAccountKey(path)
	}
	if err != nil {
		return nil, fmt.Errorf("read ServiceAccount key: %w", err)
	}
	key, ok := found.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("read ServiceAccount key: %s holds a %T", path, found)
	}

	return key, nil
}

func newAccountKey(path string) (*ecdsa.PrivateKey, error) {
	// An elliptic key is made in microseconds, an RSA key in hundreds of milliseconds.
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make ServiceAccount key: %w", err)
	}
	data, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, fmt.Errorf("encode ServiceAccount key: %w", err)
	}
	if err := keyutil.WriteKey(path, data); err != nil { // mode 0600
		return nil, fmt.Errorf("write ServiceAccount key: %w", err)
	}

	return key, nil
}
