package module

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/cd"
)

// maxHandles bounds the handles of one call; each keeps a secret in memory.
const maxHandles = 256

// handlePattern is a handle: 128 random bits, so that no module can guess one, between
// marks that do not occur in values by accident.
var handlePattern = regexp.MustCompile(`caisson-secret:[0-9a-f]{32}:`)

var (
	errVoidHandle  = errors.New("a secret handle is not of this call; read the secret again")
	errHandleInKey = errors.New("a secret handle may stand in a string, and not in a key")
	errTooMany     = fmt.Errorf("a call can have %d secret handles and no more", maxHandles)
)

// secretStore keeps the secrets behind the handles of one call. It is safe for concurrent
// use: a driver may expand handles while the module runs on. It lives as long as an
// application or a memo refers to it.
type secretStore struct {
	mu      sync.Mutex
	secrets map[string]keptSecret
	// raw are the values that the module got to see, as they are and in base64.
	raw []string
}

type keptSecret struct {
	text   string
	digest string
}

func newSecretStore() *secretStore { return &secretStore{secrets: map[string]keptSecret{}} }

// put keeps a secret and returns a handle for it, another one each time.
func (s *secretStore) put(value []byte, encoding abi.Encoding, digest string) (string, error) {
	var random [16]byte
	if _, err := rand.Read(random[:]); err != nil {
		return "", fmt.Errorf("make a secret handle: %w", err)
	}
	text := string(value)
	if encoding == abi.EncodingBase64 {
		text = base64.StdEncoding.EncodeToString(value)
	}
	handle := "caisson-secret:" + hex.EncodeToString(random[:]) + ":"
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.secrets) >= maxHandles {
		return "", errTooMany
	}
	s.secrets[handle] = keptSecret{text: text, digest: digest + ":" + string(encoding)}
	return handle, nil
}

// expand replaces the handles in a text by the secrets. It is the cd.SecretExpander of the
// applications of the call. Its error says nothing of the text.
func (s *secretStore) expand(text string) (string, error) {
	return s.replace(text, func(k keptSecret) string { return k.text })
}

// fingerprint replaces the handles in a text by the digests of the secrets.
func (s *secretStore) fingerprint(text string) (string, error) {
	return s.replace(text, func(k keptSecret) string { return "caisson-secret-digest:" + k.digest })
}

func (s *secretStore) replace(text string, by func(keptSecret) string) (string, error) {
	if !strings.Contains(text, "caisson-secret:") {
		return text, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var void error
	replaced := handlePattern.ReplaceAllStringFunc(text, func(handle string) string {
		kept, ok := s.secrets[handle]
		if !ok {
			void = errVoidHandle
			return handle
		}
		return by(kept)
	})
	if void != nil {
		return "", void
	}
	return replaced, nil
}

// valuesDigest identifies values and parameters with the secrets in them: equal in each
// call while nothing changes, and different when a secret does.
func (s *secretStore) valuesDigest(values map[string]any, parameters []cd.Parameter) (string, error) {
	masked, err := s.mask(values)
	if err != nil {
		return "", err
	}
	list := make([][2]string, len(parameters))
	for i, p := range parameters {
		value, err := s.fingerprint(p.Value)
		if err != nil {
			return "", err
		}
		list[i] = [2]string{p.Name, value}
	}
	raw, err := json.Marshal([]any{masked, list})
	if err != nil {
		return "", errors.New("the values cannot be encoded")
	}
	return fmt.Sprintf("%x", sha256.Sum256(raw)), nil
}

// mask returns a copy of value with digests for handles.
func (s *secretStore) mask(value any) (any, error) {
	switch v := value.(type) {
	case string:
		return s.fingerprint(v)
	case map[string]any:
		masked := make(map[string]any, len(v))
		for key, item := range v {
			if containsHandle(key) {
				return nil, errHandleInKey
			}
			inner, err := s.mask(item)
			if err != nil {
				return nil, err
			}
			masked[key] = inner
		}
		return masked, nil
	case []any:
		masked := make([]any, len(v))
		for i, item := range v {
			inner, err := s.mask(item)
			if err != nil {
				return nil, err
			}
			masked[i] = inner
		}
		return masked, nil
	default:
		return v, nil
	}
}

func containsHandle(text string) bool { return handlePattern.MatchString(text) }

// holdsHandle reports whether there is a handle anywhere in a value, keys included.
func holdsHandle(value any) bool {
	switch v := value.(type) {
	case string:
		return containsHandle(v)
	case map[string]any:
		for key, item := range v {
			if containsHandle(key) || holdsHandle(item) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, holdsHandle)
	}
	return false
}
