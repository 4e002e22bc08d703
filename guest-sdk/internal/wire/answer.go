package wire

import (
	"encoding/json"
	"math"

	"github.com/caisson-dev/caisson/abi"
)

const (
	responseFields = "result error"
	errorFields    = "code message"
	statusFields   = "phase disposition reason retryAfterSeconds"
	appListFields  = "applications"
	appEntryFields = "name release namespace version"
	objectFields   = "object"
	kubeListFields = "items continue"
	deleteFields   = "gone"
	secretFields   = "handle digest value"
)

// DecodeResponse decodes the answer of a host function. The raw result aliases data.
func DecodeResponse(data []byte) (abi.Response, error) {
	var response abi.Response
	err := document(data, func(r *Reader) error {
		return r.fields(responseFields, func(name string) (bool, error) {
			switch name {
			case "result":
				return true, raw(r, &response.Result)
			case "error":
				return true, readError(r, &response.Error)
			default:
				return false, nil
			}
		})
	})
	return response, err
}

func readError(r *Reader, into **abi.CallError) error {
	if null, err := r.Null(); null || err != nil {
		*into = nil
		return err
	}
	if *into == nil {
		*into = &abi.CallError{}
	}
	return r.fields(errorFields, func(name string) (bool, error) {
		switch name {
		case "code":
			return true, text(r, &(*into).Code)
		case "message":
			return true, text(r, &(*into).Message)
		default:
			return false, nil
		}
	})
}

// DecodeAppStatus decodes the result of app_ensure and app_remove.
func DecodeAppStatus(data []byte) (abi.AppStatus, error) {
	var status abi.AppStatus
	err := document(data, func(r *Reader) error {
		return r.fields(statusFields, func(name string) (bool, error) {
			switch name {
			case "phase":
				return true, text(r, &status.Phase)
			case "disposition":
				return true, integer(r, &status.Disposition, math.MinInt32, math.MaxInt32)
			case "reason":
				return true, text(r, &status.Reason)
			case "retryAfterSeconds":
				return true, integer(r, &status.RetryAfterSeconds, math.MinInt, math.MaxInt)
			default:
				return false, nil
			}
		})
	})
	return status, err
}

// DecodeAppList decodes the result of app_list.
func DecodeAppList(data []byte) (abi.AppListResult, error) {
	var result abi.AppListResult
	err := document(data, func(r *Reader) error {
		return r.fields(appListFields, func(name string) (bool, error) {
			if name != "applications" {
				return false, nil
			}
			return true, list(r, &result.Applications, func(e *abi.AppEntry) error { return readAppEntry(r, e) })
		})
	})
	return result, err
}

func readAppEntry(r *Reader, e *abi.AppEntry) error {
	return r.fields(appEntryFields, func(name string) (bool, error) {
		switch name {
		case "name":
			return true, text(r, &e.Name)
		case "release":
			return true, text(r, &e.Release)
		case "namespace":
			return true, text(r, &e.Namespace)
		case "version":
			return true, text(r, &e.Version)
		default:
			return false, nil
		}
	})
}

// DecodeKubeGet decodes the result of kube_get. The object aliases data.
func DecodeKubeGet(data []byte) (abi.KubeGetResult, error) {
	var result abi.KubeGetResult
	err := document(data, func(r *Reader) error {
		return r.fields(objectFields, func(name string) (bool, error) {
			if name != "object" {
				return false, nil
			}
			return true, raw(r, &result.Object)
		})
	})
	return result, err
}

// DecodeKubeApply decodes the result of kube_apply. The object aliases data.
func DecodeKubeApply(data []byte) (abi.KubeApplyResult, error) {
	result, err := DecodeKubeGet(data)
	return abi.KubeApplyResult(result), err
}

// DecodeKubeList decodes the result of kube_list. The items alias data.
func DecodeKubeList(data []byte) (abi.KubeListResult, error) {
	var result abi.KubeListResult
	err := document(data, func(r *Reader) error {
		return r.fields(kubeListFields, func(name string) (bool, error) {
			switch name {
			case "items":
				return true, list(r, &result.Items, func(item *json.RawMessage) error { return raw(r, item) })
			case "continue":
				return true, text(r, &result.Continue)
			default:
				return false, nil
			}
		})
	})
	return result, err
}

// DecodeKubeDelete decodes the result of kube_delete.
func DecodeKubeDelete(data []byte) (abi.KubeDeleteResult, error) {
	var result abi.KubeDeleteResult
	err := document(data, func(r *Reader) error {
		return r.fields(deleteFields, func(name string) (bool, error) {
			if name != "gone" {
				return false, nil
			}
			return true, flag(r, &result.Gone)
		})
	})
	return result, err
}

// DecodeSecret decodes the result of secret_read.
func DecodeSecret(data []byte) (abi.SecretReadResult, error) {
	var result abi.SecretReadResult
	err := document(data, func(r *Reader) error {
		return r.fields(secretFields, func(name string) (bool, error) {
			switch name {
			case "handle":
				return true, text(r, &result.Handle)
			case "digest":
				return true, text(r, &result.Digest)
			case "value":
				return true, octets(r, &result.Value)
			default:
				return false, nil
			}
		})
	})
	return result, err
}

// DecodeEvent decodes the result of event, which says nothing.
func DecodeEvent(data []byte) (abi.EventResult, error) {
	err := document(data, func(r *Reader) error {
		return r.fields("", func(string) (bool, error) { return false, nil })
	})
	return abi.EventResult{}, err
}
