package wire

import (
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

// Response is an [abi.Response] whose result has been read, and not decoded yet. Its raw
// parts alias the response.
type Response struct {
	Result Value
	Error  *abi.CallError
}

// DecodeResponse decodes the answer of a host function.
func DecodeResponse(data []byte) (Response, error) {
	var response Response
	root, err := Parse(data)
	if err != nil {
		return response, err
	}
	err = root.fields(responseFields, func(name []byte, v Value) (bool, error) {
		switch string(name) {
		case "result":
			response.Result = v
			return true, nil
		case "error":
			return true, readError(v, &response.Error)
		default:
			return false, nil
		}
	})
	return response, err
}

func readError(v Value, into **abi.CallError) error {
	if v.Kind() == KindNull {
		*into = nil
		return nil
	}
	if *into == nil {
		*into = &abi.CallError{}
	}
	return v.fields(errorFields, func(name []byte, v Value) (bool, error) {
		switch string(name) {
		case "code":
			return true, text(v, &(*into).Code)
		case "message":
			return true, text(v, &(*into).Message)
		default:
			return false, nil
		}
	})
}

// DecodeAppStatus decodes the result of app_ensure and app_remove.
func DecodeAppStatus(result Value) (abi.AppStatus, error) {
	var status abi.AppStatus
	err := result.fields(statusFields, func(name []byte, v Value) (bool, error) {
		switch string(name) {
		case "phase":
			return true, text(v, &status.Phase)
		case "disposition":
			return true, integer(v, &status.Disposition, math.MinInt32, math.MaxInt32)
		case "reason":
			return true, text(v, &status.Reason)
		case "retryAfterSeconds":
			return true, integer(v, &status.RetryAfterSeconds, math.MinInt, math.MaxInt)
		default:
			return false, nil
		}
	})
	return status, err
}

// DecodeAppList decodes the result of app_list.
func DecodeAppList(result Value) (abi.AppListResult, error) {
	var apps abi.AppListResult
	err := result.fields(appListFields, func(name []byte, v Value) (bool, error) {
		if string(name) != appListFields {
			return false, nil
		}
		return true, list(v, &apps.Applications, readAppEntry)
	})
	return apps, err
}

func readAppEntry(v Value, e *abi.AppEntry) error {
	return v.fields(appEntryFields, func(name []byte, v Value) (bool, error) {
		switch string(name) {
		case "name":
			return true, text(v, &e.Name)
		case "release":
			return true, text(v, &e.Release)
		case "namespace":
			return true, text(v, &e.Namespace)
		case "version":
			return true, text(v, &e.Version)
		default:
			return false, nil
		}
	})
}

// DecodeObject returns the object in the result of kube_get and kube_apply, an
// [abi.KubeGetResult] and an [abi.KubeApplyResult], or none.
func DecodeObject(result Value) (Value, error) {
	var object Value
	err := result.fields(objectFields, func(name []byte, v Value) (bool, error) {
		if string(name) != objectFields {
			return false, nil
		}
		object = v
		return true, nil
	})
	return object, err
}

// KubeList is an [abi.KubeListResult] whose items have been read.
type KubeList struct {
	Items    []Value
	Continue string
}

// DecodeKubeList decodes the result of kube_list.
func DecodeKubeList(result Value) (KubeList, error) {
	var page KubeList
	err := result.fields(kubeListFields, func(name []byte, v Value) (bool, error) {
		switch string(name) {
		case "items":
			return true, list(v, &page.Items, func(v Value, item *Value) error {
				*item = v
				return nil
			})
		case "continue":
			return true, text(v, &page.Continue)
		default:
			return false, nil
		}
	})
	return page, err
}

// DecodeKubeDelete decodes the result of kube_delete.
func DecodeKubeDelete(result Value) (abi.KubeDeleteResult, error) {
	var deleted abi.KubeDeleteResult
	err := result.fields(deleteFields, func(name []byte, v Value) (bool, error) {
		if string(name) != deleteFields {
			return false, nil
		}
		return true, flag(v, &deleted.Gone)
	})
	return deleted, err
}

// DecodeSecret decodes the result of secret_read.
func DecodeSecret(result Value) (abi.SecretReadResult, error) {
	var secret abi.SecretReadResult
	err := result.fields(secretFields, func(name []byte, v Value) (bool, error) {
		switch string(name) {
		case "handle":
			return true, text(v, &secret.Handle)
		case "digest":
			return true, text(v, &secret.Digest)
		case "value":
			return true, octets(v, &secret.Value)
		default:
			return false, nil
		}
	})
	return secret, err
}

// DecodeEvent decodes the result of event, which says nothing.
func DecodeEvent(result Value) (abi.EventResult, error) {
	err := result.fields("", func([]byte, Value) (bool, error) { return false, nil })
	return abi.EventResult{}, err
}
