package scope

// KubeconfigReason says what is wrong with a kubeconfig.
type KubeconfigReason string

// The reasons for which a kubeconfig is refused.
const (
	KubeconfigMalformed        KubeconfigReason = "Malformed"
	KubeconfigTooLarge         KubeconfigReason = "TooLarge"
	KubeconfigNoCurrentContext KubeconfigReason = "NoCurrentContext"
	KubeconfigUnknownContext   KubeconfigReason = "UnknownContext"
	KubeconfigUnknownCluster   KubeconfigReason = "UnknownCluster"
	KubeconfigUnknownUser      KubeconfigReason = "UnknownUser"
	KubeconfigBadServer        KubeconfigReason = "BadServer"
	KubeconfigBadCertificate   KubeconfigReason = "BadCertificate"
	KubeconfigBadCredential    KubeconfigReason = "BadCredential" //nolint:gosec // It names a fault, not a credential.
	KubeconfigExec             KubeconfigReason = "Exec"
	KubeconfigAuthProvider     KubeconfigReason = "AuthProvider"
	KubeconfigFile             KubeconfigReason = "File"
	KubeconfigImpersonation    KubeconfigReason = "Impersonation"
	KubeconfigInsecure         KubeconfigReason = "Insecure"
	KubeconfigProxy            KubeconfigReason = "Proxy"
)

// KubeconfigError says that a kubeconfig cannot be used as it is, and what to do. The
// text is fixed for each reason: nothing of the kubeconfig is in it. Trying again
// with the same kubeconfig is of no use.
type KubeconfigError struct {
	Reason KubeconfigReason
}

// Error implements error.
func (e *KubeconfigError) Error() string { return "kubeconfig refused: " + e.remedy() }

func (e *KubeconfigError) remedy() string {
	switch e.Reason {
	case KubeconfigMalformed:
		return "it is not a kubeconfig of version v1"
	case KubeconfigTooLarge:
		return "it is larger than 256 KiB; keep the one context that is needed"
	case KubeconfigNoCurrentContext:
		return "it has no current-context; set one with kubectl config use-context"
	case KubeconfigUnknownContext:
		return "its current-context names no context; set one with kubectl config use-context"
	case KubeconfigUnknownCluster:
		return "its current context names no cluster that it has"
	case KubeconfigUnknownUser:
		return "its current context names no user that it has"
	case KubeconfigBadServer:
		return "its server or proxy-url is not a usable URL; use https://host:port"
	case KubeconfigBadCertificate:
		return "its certificate or key data is not valid PEM, or key and certificate do not match"
	case KubeconfigBadCredential:
		return "its token, user name or password is not usable; give either a token or a user name with a password"
	case KubeconfigExec:
		return "it would run a program (exec); use a token or a client certificate"
	case KubeconfigAuthProvider:
		return "it uses an auth-provider; use a token or a client certificate"
	case KubeconfigFile:
		return "it refers to files; embed them with kubectl config view --flatten"
	case KubeconfigImpersonation:
		return "it impersonates somebody; use a credential of the identity itself"
	case KubeconfigInsecure:
		return "it does not verify the server; embed certificate-authority-data and use https"
	case KubeconfigProxy:
		return "it uses a proxy-url, which this operator does not allow"
	default:
		return "it cannot be used"
	}
}
