package module

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/caisson-dev/caisson/abi"
)

// maxMessageBytes bounds the text of an error for a guest.
const maxMessageBytes = 1 << 10

// handler answers one host function. Its result is a pointer to a type of package abi.
type handler func(ctx context.Context, s *session, request []byte) (any, *abi.CallError)

// handlerOf returns the handler of a function, or nil.
func handlerOf(f abi.Function) handler {
	switch f {
	case abi.AppEnsure:
		return typed(appEnsure)
	case abi.AppRemove:
		return typed(appRemove)
	case abi.AppList:
		return typed(appList)
	case abi.KubeGet:
		return typed(kubeGet)
	case abi.KubeList:
		return typed(kubeList)
	case abi.KubeApply:
		return typed(kubeApply)
	case abi.KubeDelete:
		return typed(kubeDelete)
	case abi.SecretRead:
		return typed(secretRead)
	case abi.Event:
		return typed(event)
	default:
		return nil
	}
}

// typed decodes a request. Unknown fields are left alone: a newer guest may send them.
func typed[Request, Result any](handle func(ctx context.Context, s *session, r *Request) (*Result, *abi.CallError)) handler {
	return func(ctx context.Context, s *session, raw []byte) (any, *abi.CallError) {
		var request Request
		if len(bytes.TrimSpace(raw)) > 0 {
			if err := json.Unmarshal(raw, &request); err != nil {
				return nil, fail(abi.CodeInvalid, "the request cannot be read: %v", err)
			}
		}
		result, callError := handle(ctx, s, &request)
		if callError != nil {
			return nil, callError
		}
		return result, nil
	}
}

// dispatch is the host's side of every host function: JSON in, JSON of an abi.Response
// out, whatever it is given.
func (s *session) dispatch(ctx context.Context, name string, request []byte) []byte {
	result, callError := s.answer(ctx, abi.Function(name), request)
	log.FromContext(ctx).V(1).Info("host function", "function", clip(name), "scope", s.scope.ID(), "code", codeOf(callError))
	return encodeResponse(result, callError, s.limits.HostCallBytes)
}

// answer checks that the function may be called at all, and calls it.
func (s *session) answer(ctx context.Context, f abi.Function, request []byte) (result any, callError *abi.CallError) {
	if callError := s.admit(); callError != nil {
		return nil, callError
	}
	handle := handlerOf(f)
	switch {
	case handle == nil:
		return nil, fail(abi.CodeUnsupported, "this host has no function %s", clip(string(f)))
	case !s.instance.Manifest.Declares(f):
		return nil, fail(abi.CodeDenied, "the manifest does not declare %s", f)
	case !s.instance.Grant.AllowsFunction(f):
		return nil, fail(abi.CodeDenied, "the grant does not allow %s", f)
	case len(request) > s.limits.HostCallBytes:
		return nil, fail(abi.CodeTooLarge, "the request has %d bytes and %d are allowed", len(request), s.limits.HostCallBytes)
	}
	// A guest must not bring down the host by way of a driver or a client either.
	defer func() {
		if r := recover(); r != nil {
			log.FromContext(ctx).Error(fmt.Errorf("panic: %v", r), "a host function panicked", "function", f)
			result, callError = nil, fail(abi.CodeUnavailable, "the host failed")
		}
	}()
	result, callError = handle(ctx, s, request)
	if callError != nil && (callError.Code == abi.CodeUnavailable || callError.Code == abi.CodeForbidden) {
		s.noteUnwatched()
	}
	if f == abi.AppEnsure || f == abi.AppRemove || f == abi.AppList {
		s.noteCall(f, request, answerDigest(result, callError))
	}
	return result, callError
}

func encodeResponse(result any, callError *abi.CallError, limit int) []byte {
	response := abi.Response{Error: callError}
	if callError == nil {
		raw, err := json.Marshal(result)
		switch {
		case err != nil:
			response.Error = fail(abi.CodeUnavailable, "the answer cannot be encoded")
		case len(raw) > limit:
			response.Error = fail(abi.CodeTooLarge, "the answer has %d bytes and %d are allowed", len(raw), limit)
		default:
			response.Result = raw
		}
	}
	raw, err := json.Marshal(&response)
	if err != nil {
		return []byte(`{"error":{"code":"unavailable"}}`)
	}
	return raw
}

// fail makes the failure of a host function. The text goes to the guest.
func fail(code abi.ErrorCode, format string, args ...any) *abi.CallError {
	message := sanitise(fmt.Sprintf(format, args...))
	if len(message) > maxMessageBytes {
		message = sanitise(message[:maxMessageBytes])
	}
	return &abi.CallError{Code: code, Message: message}
}

func codeOf(callError *abi.CallError) string {
	if callError == nil {
		return "ok"
	}
	return string(callError.Code)
}

// clip keeps hostile text from filling a line.
func clip(text string) string {
	const enough = 80
	if len(text) > enough {
		text = text[:enough]
	}
	return sanitise(text)
}
