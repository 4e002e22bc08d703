package guesttest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"github.com/caisson-dev/caisson/abi"
)

// handlePattern is the form of a secret handle.
var handlePattern = regexp.MustCompile(`caisson-secret:[0-9a-f]{32}:`)

// leakLimit is the shortest value that is looked for: shorter ones turn up by chance.
const leakLimit = 6

type secrets struct {
	// values are the data of each Secret, by cluster, namespace and name.
	values map[string]map[string]string
	// handles of the current call, each with the secret that it stands for.
	handles map[string]string
	issued  int
}

func (s *secrets) newCall() { s.handles = map[string]string{} }

func secretID(cluster, namespace, name string) string {
	return cluster + "/" + namespace + "/" + name
}

// PutSecret puts a Secret into the cluster of that ID ("home" is the host's own),
// replacing the one that was there.
func (h *Harness) PutSecret(cluster, namespace, name string, data map[string]string) {
	id := secretID(cluster, namespace, name)
	h.trace.notef("Secret %s is written", id)
	h.secrets.values[id] = data
}

// DeleteSecret removes a Secret.
func (h *Harness) DeleteSecret(cluster, namespace, name string) {
	id := secretID(cluster, namespace, name)
	h.trace.notef("Secret %s is deleted", id)
	delete(h.secrets.values, id)
}

func (s *host) secretRead(request *abi.SecretReadRequest) (any, *abi.CallError) {
	cluster, f := s.scope(request.Scope)
	if f != nil {
		return nil, f
	}
	namespace := request.Namespace
	if namespace == "" && cluster == homeID {
		namespace = s.in.Owner.Namespace
	}
	if namespace == "" || request.Name == "" || request.Key == "" {
		return nil, failure(abi.CodeInvalid, "namespace, name and key are needed")
	}
	if request.Encoding != abi.EncodingText && request.Encoding != abi.EncodingBase64 {
		return nil, failure(abi.CodeInvalid, "encoding "+string(request.Encoding))
	}
	if request.Raw && !s.h.rawGrant {
		return nil, failure(abi.CodeDenied, "raw values are not granted")
	}
	id := secretID(cluster, namespace, request.Name)
	value, ok := s.h.secrets.values[id][request.Key]
	if !ok {
		return nil, failure(abi.CodeAbsent, "Secret "+id+", key "+request.Key)
	}
	result := abi.SecretReadResult{Digest: digest(value)}
	if request.Raw {
		return rawSecret{SecretReadResult: result, Value: []byte(value)}, nil
	}
	s.h.secrets.issued++
	result.Handle = fmt.Sprintf("caisson-secret:%032x:", s.h.secrets.issued)
	s.h.secrets.handles[result.Handle] = id + "/" + request.Key + "/" + string(request.Encoding) + "/" + result.Digest
	return result, nil
}

// rawSecret is an answer with the bytes, which the record of calls leaves out.
type rawSecret struct {
	abi.SecretReadResult
	Value []byte `json:"value"`
}

// digest is keyed, as a host's is, so that nobody can guess short values from it.
func digest(value string) string {
	mac := hmac.New(sha256.New, []byte("guesttest"))
	mac.Write([]byte(value))
	return hex.EncodeToString(mac.Sum(nil))
}

// leak finds the value of a Secret in a text, as it is or in base64, and names it.
func (s *secrets) leak(text string) (string, bool) {
	for id, data := range s.values {
		for key, value := range data {
			if len(value) < leakLimit {
				continue
			}
			if strings.Contains(text, value) || strings.Contains(text, inBase64(value)) {
				return id + ", key " + key + ",", true
			}
		}
	}
	return "", false
}

// stale reports whether a text has a handle that was not issued in the current call.
func (s *secrets) stale(text string) bool {
	for _, handle := range handlePattern.FindAllString(text, -1) {
		if _, ok := s.handles[handle]; !ok {
			return true
		}
	}
	return false
}

// stable replaces a handle by what it stands for.
func (s *secrets) stable(handle []byte) []byte { return []byte(s.handles[string(handle)]) }
