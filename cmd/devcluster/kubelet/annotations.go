package kubelet

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// ReadyAfterAnnotation on a pod is the age, as a Go duration such as "5s", from which it is ready. Until then it runs but
	// is not ready. Ages have whole seconds, as creationTimestamp has.
	ReadyAfterAnnotation = "devcluster.caisson.dev/ready-after"

	// StateAnnotation on a pod holds it in one of the States. On a Service of type LoadBalancer or a PersistentVolumeClaim,
	// StatePending leaves it without an address or unbound; the other states mean nothing there.
	// Removing the annotation lets the object go on.
	StateAnnotation = "devcluster.caisson.dev/state"
)

// State is a condition that an object is held in on request.
type State string

const (
	// StateNone is the absence of a wish: pods become ready.
	StateNone State = ""
	// StatePending leaves a pod without a node, as a full cluster would.
	StatePending State = "pending"
	// StateCrash lets a pod's containers crash over and over: CrashLoopBackOff.
	StateCrash State = "crash"
	// StateImagePull leaves a pod on its node without an image: ImagePullBackOff.
	StateImagePull State = "imagepull"
	// StateFail ends a pod as Failed. A pod whose restartPolicy is Always never fails in Kubernetes, so that one crashes.
	StateFail State = "fail"
)

// wish is what the annotations of a pod ask for.
type wish struct {
	state      State
	readyAfter time.Duration
}

// left is how long the pod still has to wait before it may be ready, at least zero.
func (w wish) left(pod *corev1.Pod, now time.Time) time.Duration {
	return max(w.readyAfter-now.Sub(pod.CreationTimestamp.Time), 0)
}

// parseWish reads the annotations of a pod. The error is worded for the pod's author: it becomes a condition message.
func parseWish(annotations map[string]string) (wish, error) {
	w := wish{state: State(annotations[StateAnnotation])}

	known := []State{StateNone, StatePending, StateCrash, StateImagePull, StateFail}
	if !slices.Contains(known, w.state) {
		return wish{}, fmt.Errorf("annotation %s: %q is not one of pending, crash, imagepull, fail", StateAnnotation, w.state)
	}

	text := strings.TrimSpace(annotations[ReadyAfterAnnotation])
	if text == "" {
		return w, nil
	}
	after, err := time.ParseDuration(text)
	if err != nil || after < 0 {
		return wish{}, fmt.Errorf("annotation %s: %q is not a duration such as 5s", ReadyAfterAnnotation, text)
	}
	w.readyAfter = after

	return w, nil
}
