package module

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/capability"
	"github.com/caisson-dev/caisson/host/provisioner"
)

// secretKey is what Kubernetes accepts as a key of a Secret.
var secretKey = regexp.MustCompile(`^[-._a-zA-Z0-9]+$`)

// minSecretKey is what keeps a digest from being found by trying.
const minSecretKey = 16

// secretRead reads one key of a Secret and answers with a handle, or with the bytes where
// that was granted. The Secret is recorded as an input, so that a change wakes the owner.
func secretRead(ctx context.Context, s *session, r *abi.SecretReadRequest) (*abi.SecretReadResult, *abi.CallError) {
	if len(s.node.options.SecretKey) < minSecretKey {
		return nil, fail(abi.CodeUnsupported, "this host has no key for the digests of secrets")
	}
	where, callError := s.cluster(r.Scope)
	if callError != nil {
		return nil, callError
	}
	namespace := r.Namespace
	if namespace == "" && !where.IsRemote() {
		namespace = where.Owner().Namespace
	}
	if callError := checkSecret(r, namespace); callError != nil {
		return nil, callError
	}
	request := capability.SecretRequest{
		Target: s.policyTarget(r.Scope), Namespace: namespace, Name: r.Name,
		OwnerNamespace: where.Owner().Namespace, Raw: r.Raw,
	}
	if !s.instance.Grant.AllowsSecret(request) {
		return nil, fail(abi.CodeDenied, "the grant does not allow reading Secret %s/%s in scope %s", namespace, r.Name, scopeName(r.Scope))
	}
	if callError := alive(where); callError != nil {
		return nil, callError
	}
	if where.IsRemote() {
		// Nobody watches Secrets of a remote.
		s.noteUnwatched()
	}
	input := provisioner.Input{ScopeID: where.ID(), Kind: "Secret", Namespace: namespace, Name: r.Name}
	var object corev1.Secret
	if err := where.Client().Get(ctx, client.ObjectKey{Namespace: namespace, Name: r.Name}, &object); err != nil {
		if isAbsent(err) {
			input.Absent = true
			s.noteInput(input)
		}
		return nil, kubeFailure(ctx, "read Secret "+namespace+"/"+r.Name, err)
	}
	input.Version = object.ResourceVersion
	s.noteInput(input)
	value, ok := object.Data[r.Key]
	if !ok {
		return nil, fail(abi.CodeAbsent, "Secret %s/%s has no key %s", namespace, r.Name, r.Key)
	}
	return s.handOut(r, value)
}

func (s *session) handOut(r *abi.SecretReadRequest, value []byte) (*abi.SecretReadResult, *abi.CallError) {
	result := &abi.SecretReadResult{Digest: s.digest(value)}
	if r.Raw {
		s.secrets.shown(value)
		result.Value = value
		return result, nil
	}
	if r.Encoding == abi.EncodingText && !utf8.Valid(value) {
		return nil, fail(abi.CodeInvalid, "the value is not UTF-8; ask for encoding base64")
	}
	handle, err := s.secrets.put(value, r.Encoding, result.Digest)
	if err != nil {
		return nil, fail(abi.CodeTooLarge, "%v", err)
	}
	result.Handle = handle
	return result, nil
}

// digest is keyed, and different for each owner: nobody can compare a digest with those
// of secrets that are not theirs.
func (s *session) digest(value []byte) string {
	mac := hmac.New(sha256.New, s.node.options.SecretKey)
	mac.Write([]byte("caisson secret\x00" + s.scope.Owner().UID + "\x00"))
	mac.Write(value)
	return hex.EncodeToString(mac.Sum(nil))
}

func checkSecret(r *abi.SecretReadRequest, namespace string) *abi.CallError {
	switch {
	case namespace == "":
		return fail(abi.CodeInvalid, "namespace: is needed here")
	case !label.MatchString(namespace):
		return fail(abi.CodeInvalid, "namespace: %q is not a DNS label", clip(namespace))
	case !isSubdomain(r.Name):
		return fail(abi.CodeInvalid, "name: %q is not the name of a Secret", clip(r.Name))
	case len(r.Key) > 253 || !secretKey.MatchString(r.Key):
		return fail(abi.CodeInvalid, "key: %q is not a key of a Secret", clip(r.Key))
	case r.Encoding != abi.EncodingText && r.Encoding != abi.EncodingBase64:
		return fail(abi.CodeInvalid, "encoding: %q is neither empty nor base64", clip(string(r.Encoding)))
	}
	return nil
}
