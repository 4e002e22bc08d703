package cdtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
)

const (
	// patience is how long a test waits for something that takes a second or two.
	patience = time.Minute
	// beat is the pause between two looks.
	beat = 50 * time.Millisecond
)

// Settle repeats a step, as a controller would, until its outcome is neither Yield nor
// Retry, and returns that.
func Settle(t *testing.T, step func() error) provisioner.Outcome {
	t.Helper()
	return Until(t, step, func(o provisioner.Outcome) bool { return o.Class != abi.Yield && o.Class != abi.Retry })
}

// Ready repeats a step until it returns nil.
func Ready(t *testing.T, step func() error) {
	t.Helper()
	Until(t, step, func(o provisioner.Outcome) bool {
		require.NotEqual(t, abi.Terminal, o.Class, "%+v", o)
		return o.OK()
	})
}

// UntilReason repeats a step until its outcome has a reason.
func UntilReason(t *testing.T, step func() error, reason string) provisioner.Outcome {
	t.Helper()
	return Until(t, step, func(o provisioner.Outcome) bool { return o.Headline.Reason == reason })
}

// Until repeats a step until its outcome is accepted, and fails the test if that takes
// too long.
func Until(t *testing.T, step func() error, accept func(provisioner.Outcome) bool) provisioner.Outcome {
	t.Helper()
	var outcome provisioner.Outcome
	Poll(t, func() (bool, string) {
		outcome = provisioner.OutcomeOf(step())
		return accept(outcome), fmt.Sprintf("%v %s: %s", outcome.Class, outcome.Headline.Reason, outcome.Headline.Why)
	})
	return outcome
}

// Poll repeats a look until it is satisfied. The text says what is seen instead.
func Poll(t *testing.T, look func() (bool, string)) {
	t.Helper()
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	deadline := time.Now().Add(patience)
	for {
		ok, seen := look()
		if ok {
			return
		}
		require.True(t, time.Now().Before(deadline), "not within %s; last seen: %s", patience, seen)
		<-ticker.C
	}
}

// configMap reads a ConfigMap of the tenant's, or returns nil.
func (tn *Tenant) configMap(t *testing.T, name string) *corev1.ConfigMap {
	t.Helper()
	cm := &corev1.ConfigMap{}
	err := tn.env.Admin.Get(t.Context(), client.ObjectKey{Namespace: tn.Namespace, Name: name}, cm)
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(t, err)
	return cm
}

// Settings is what the release "app" shows of its values, or nil.
func (tn *Tenant) Settings(t *testing.T) map[string]string {
	t.Helper()
	cm := tn.configMap(t, "app-settings")
	if cm == nil {
		return nil
	}
	return cm.Data
}

// Hold puts a finalizer on the settings of the release "app", so that a deletion
// hangs, and returns what takes it off.
func (tn *Tenant) Hold(t *testing.T) (release func()) {
	t.Helper()
	tn.setFinalizers(t, []string{"example.com/hold"})
	return func() { tn.setFinalizers(t, nil) }
}

func (tn *Tenant) setFinalizers(t *testing.T, finalizers []string) {
	t.Helper()
	cm := tn.configMap(t, "app-settings")
	require.NotNil(t, cm)
	before := cm.DeepCopy()
	cm.Finalizers = finalizers
	require.NoError(t, tn.env.Admin.Patch(t.Context(), cm, client.MergeFrom(before)))
}

// GiveAddress does what a cloud would: the balancer of the release "app" gets an
// address, as soon as it is there.
func (tn *Tenant) GiveAddress(t *testing.T) {
	t.Helper()
	Poll(t, func() (bool, string) {
		svc := &corev1.Service{}
		err := tn.env.Admin.Get(t.Context(), client.ObjectKey{Namespace: tn.Namespace, Name: "app-balancer"}, svc)
		if err != nil {
			return false, err.Error()
		}
		svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
		if err := tn.env.Admin.Status().Update(t.Context(), svc); err != nil {
			return false, err.Error()
		}
		return true, ""
	})
}
