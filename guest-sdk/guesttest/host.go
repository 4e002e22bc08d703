package guesttest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/guest-sdk"
)

// host answers the host functions of one call.
type host struct {
	h  *Harness
	in *abi.Input
}

var _ guest.Host = (*host)(nil)

// Log implements guest.Host.
func (s *host) Log(level guest.Level, line string) {
	s.h.t.Helper()
	if name, leaked := s.h.secrets.leak(line); leaked {
		s.h.t.Errorf("guesttest: the value of the Secret %s is in the module's log", name)
	}
	s.h.logs = append(s.h.logs, LogLine{Level: level, Line: line})
}

// Call implements guest.Host.
func (s *host) Call(f abi.Function, request []byte) []byte {
	s.h.t.Helper()
	if name, leaked := s.h.secrets.leak(allStrings(request)); leaked {
		s.h.t.Errorf("guesttest: the value of the Secret %s is in a request of %s; use its handle", name, f)
	}
	result, failure := s.answer(f, request)
	raw := s.encode(f, result, failure)
	record := raw
	if secret, ok := result.(rawSecret); ok {
		record = s.encode(f, secret.SecretReadResult, failure)
	}
	s.h.trace.exchange(Exchange{Function: f, Request: request, Response: record})
	return raw
}

func (s *host) encode(f abi.Function, result any, failure *abi.CallError) []byte {
	s.h.t.Helper()
	response := abi.Response{Error: failure}
	if failure == nil {
		raw, err := json.Marshal(result)
		if err != nil {
			s.h.t.Fatalf("guesttest: encode the result of %s: %v", f, err)
		}
		response.Result = raw
	}
	raw, err := json.Marshal(&response)
	if err != nil {
		s.h.t.Fatalf("guesttest: encode the response of %s: %v", f, err)
	}
	return raw
}

func (s *host) answer(f abi.Function, request []byte) (any, *abi.CallError) {
	s.h.t.Helper()
	if !s.h.manifest.Declares(f) {
		s.h.t.Errorf("guesttest: the module calls %s, which its manifest does not declare; no host would load it", f)
		return nil, failure(abi.CodeDenied, "not declared")
	}
	if !s.granted(f) {
		return nil, failure(abi.CodeDenied, "not granted")
	}
	if code := s.h.failures[f]; code != "" {
		return nil, failure(code, "as the test asked")
	}
	switch f {
	case abi.AppEnsure:
		return decoded(request, s.appEnsure)
	case abi.AppRemove:
		return decoded(request, s.appRemove)
	case abi.AppList:
		return decoded(request, s.appList)
	case abi.KubeGet:
		return decoded(request, s.kubeGet)
	case abi.KubeList:
		return decoded(request, s.kubeList)
	case abi.KubeApply:
		return decoded(request, s.kubeApply)
	case abi.KubeDelete:
		return decoded(request, s.kubeDelete)
	case abi.SecretRead:
		return decoded(request, s.secretRead)
	case abi.Event:
		return decoded(request, s.event)
	default:
		return nil, failure(abi.CodeUnsupported, string(f))
	}
}

func (s *host) granted(f abi.Function) bool {
	for _, c := range s.in.Capabilities {
		if c == f {
			return true
		}
	}
	return false
}

func (s *host) event(request *abi.EventRequest) (any, *abi.CallError) {
	s.h.t.Helper()
	if request.Type != string(guest.Normal) && request.Type != string(guest.Warning) {
		return nil, failure(abi.CodeInvalid, "type must be Normal or Warning")
	}
	s.h.checkReason("records an event with the reason", request.Reason)
	return abi.EventResult{}, nil
}

// scope resolves the scope of a request to the ID of a cluster, and refuses one that
// cannot be reached.
func (s *host) scope(scope abi.KubeScope) (string, *abi.CallError) {
	switch scope {
	case abi.ScopeHome:
		return homeID, nil
	case "", abi.ScopeCurrent:
		if s.in.Scope.State != abi.ScopeReady {
			return "", failure(abi.CodeUnavailable, "the scope is "+string(s.in.Scope.State))
		}
		return s.in.Scope.ID, nil
	default:
		return "", failure(abi.CodeInvalid, "scope "+string(scope))
	}
}

// homeID is the ID of the host's own cluster in every envelope.
const homeID = "home"

func failure(code abi.ErrorCode, message string) *abi.CallError {
	return &abi.CallError{Code: code, Message: message}
}

// decoded decodes a request strictly and hands it on.
func decoded[T any](raw []byte, answer func(*T) (any, *abi.CallError)) (any, *abi.CallError) {
	request := new(T)
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(request); err != nil {
		return nil, failure(abi.CodeInvalid, err.Error())
	}
	return answer(request)
}

// allStrings is every string in a JSON document, keys included, one a line: escapes must
// not hide what is looked for.
func allStrings(raw []byte) string {
	var b strings.Builder
	d := json.NewDecoder(bytes.NewReader(raw))
	for {
		token, err := d.Token()
		if err != nil {
			return b.String()
		}
		if text, ok := token.(string); ok {
			b.WriteString(text)
			b.WriteByte('\n')
		}
	}
}

// errNotNamed says that an object has no name.
var errNotNamed = errors.New("the object has no metadata.name")

func inBase64(value string) string { return base64.StdEncoding.EncodeToString([]byte(value)) }
