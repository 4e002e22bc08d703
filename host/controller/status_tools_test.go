package controller

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/provisioner"
)

// seen is an object as a tool meets it.
type seen struct {
	title  string
	object *unstructured.Unstructured
}

// asServed is an object as the API serves it.
func asServed(t *testing.T, kind string, object runtime.Object) *unstructured.Unstructured {
	t.Helper()
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	require.NoError(t, err)
	u := &unstructured.Unstructured{Object: raw}
	u.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind(kind))
	return u
}

// stacksOfEveryPhase are Stacks with statuses that the controller makes.
func stacksOfEveryPhase(t *testing.T) []seen {
	t.Helper()
	folded := func(errs ...error) provisioner.Outcome { return provisioner.OutcomeOf(provisioner.Fold(errs...)) }
	yield, retry := provisioner.Yield(abi.ReasonFactsMissing, ""), provisioner.Retry(abi.ReasonUnexpected, "")
	user, terminal := provisioner.UserActionRequired(abi.ReasonForbidden, ""), provisioner.Terminal(abi.ReasonInvalidConfig, "")
	after := func(o provisioner.Outcome, deleting bool) *v1alpha1.Stack {
		stack := newStack()
		if deleting {
			stack = newDeletedStack(t)
		}
		stack.Status = nextStatus(stack, passResult{outcome: o, deleting: deleting, now: metav1.NewTime(epoch())})
		return stack
	}
	fresh := newStack()
	fresh.Status.ObservedGeneration = -1 // which is what the API server makes of a new one
	edited := after(folded(), false)
	edited.Generation++
	suspended := after(folded(terminal), false)
	suspended.Spec.Suspend = true
	suspended.Status = suspendedStatus(suspended, metav1.NewTime(epoch()))
	unseen := after(folded(), false)
	unseen.DeletionTimestamp = &metav1.Time{Time: epoch()}
	var all []seen
	for _, s := range []struct {
		title string
		stack *v1alpha1.Stack
	}{
		{"new", fresh},
		{"yields", after(folded(yield), false)},
		{"retries", after(folded(retry, yield), false)},
		{"asks somebody, others go on", after(folded(user, yield), false)},
		{"asks somebody", after(folded(user), false)},
		{"cannot go on, others do", after(folded(terminal, yield), false)},
		{"cannot go on", after(folded(terminal), false)},
		{"as desired", after(folded(), false)},
		{"edited, not seen yet", edited},
		{"suspended", suspended},
		{"deleted, not seen yet", unseen},
		{"being removed", after(folded(yield), true)},
		{"being removed, with trouble", after(provisioner.OutcomeOf(provisioner.Unpark(terminal)), true)},
		{"gone", after(folded(), true)},
	} {
		all = append(all, seen{"Stack " + s.title, asServed(t, "Stack", s.stack)})
	}
	return all
}

// modulesOfEveryReason are Modules with statuses that the controller makes.
func modulesOfEveryReason(t *testing.T) []seen {
	t.Helper()
	object := func() *v1alpha1.Module {
		return &v1alpha1.Module{ObjectMeta: metav1.ObjectMeta{Name: "cilium", Generation: 1}, Status: v1alpha1.ModuleStatus{ObservedGeneration: -1}}
	}
	r := &ModuleReconciler{Modules: newModules(t, epoch)}
	all := []seen{{"Module new", asServed(t, "Module", object())}}
	for _, reason := range []string{
		"", v1alpha1.ModuleReasonRegistryUnavailable, v1alpha1.ModuleReasonInvalidReference, v1alpha1.ModuleReasonNotFound,
		v1alpha1.ModuleReasonUnauthorized, v1alpha1.ModuleReasonDigestMismatch, v1alpha1.ModuleReasonTooLarge, v1alpha1.ModuleReasonNotAModule,
		v1alpha1.ModuleReasonLoadFailed, v1alpha1.ModuleReasonInvalidManifest, v1alpha1.ModuleReasonNotGranted,
	} {
		var err error
		if reason != "" {
			err = &ModuleError{Reason: reason, Message: "Said by " + reason + ".", Err: errors.New("password=hunter2")}
		}
		m := object()
		m.Status = r.nextStatus(m, nil, "sha256:1", err)
		all = append(all, seen{strings.TrimSpace("Module " + reason), asServed(t, "Module", m)})
	}
	edited := object()
	edited.Status = r.nextStatus(edited, nil, "sha256:1", nil)
	edited.Generation++
	return append(all, seen{"Module edited, not seen yet", asServed(t, "Module", edited)})
}

// TestWhatToolsSay is the table of what kubectl wait, Flux and Argo CD make of every phase:
// kstatus by its own library, Argo CD by running the script that we ship in the machine
// that it uses.
func TestWhatToolsSay(t *testing.T) {
	script, err := os.ReadFile(filepath.Join("..", "..", "deploy", "argocd", "health.lua"))
	require.NoError(t, err)
	var out strings.Builder
	fmt.Fprintf(&out, "%-42s %-9s %-12s %-12s %s\n", "OBJECT", "AVAILABLE", "KSTATUS", "ARGO CD", "MESSAGE")
	for _, s := range append(stacksOfEveryPhase(t), modulesOfEveryReason(t)...) {
		computed, err := status.Compute(s.object)
		require.NoError(t, err, s.title)
		health, message := argoHealth(t, string(script), s.object)
		available := conditionStatus(t, s.object, v1alpha1.ConditionReady)
		if s.object.GetKind() == "Stack" {
			require.Equal(t, available, conditionStatus(t, s.object, v1alpha1.ConditionAvailable), "%s: Ready always equals Available", s.title)
		}
		require.NotContains(t, message, "hunter", s.title)
		fmt.Fprintf(&out, "%-42s %-9s %-12s %-12s %s\n", s.title, available, computed.Status, health, message)

		// The tools agree, but for what only one of them has a word for.
		switch {
		case health == "Suspended", computed.Status == status.TerminatingStatus:
		case computed.Status == status.CurrentStatus:
			require.Equal(t, "Healthy", health, s.title)
		case computed.Status == status.FailedStatus:
			require.Equal(t, "Degraded", health, s.title)
		default:
			require.Equal(t, "Progressing", health, s.title)
		}
	}
	compareGolden(t, "tools.txt", out.String())
}

// conditionStatus is what kubectl wait --for=condition= looks at.
func conditionStatus(t *testing.T, object *unstructured.Unstructured, kind string) string {
	t.Helper()
	conditions, _, err := unstructured.NestedSlice(object.Object, "status", "conditions")
	require.NoError(t, err)
	for _, c := range conditions {
		if condition, ok := c.(map[string]any); ok && condition["type"] == kind {
			return condition["status"].(string)
		}
	}
	return "-"
}

// argoHealth runs a health script as Argo CD does: the object is the global obj, and the
// answer a table with status and message.
func argoHealth(t *testing.T, script string, object *unstructured.Unstructured) (health, message string) {
	t.Helper()
	vm := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer vm.Close()
	for name, open := range map[string]lua.LGFunction{lua.LoadLibName: lua.OpenPackage, lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable} {
		vm.Push(vm.NewFunction(open))
		vm.Push(lua.LString(name))
		vm.Call(1, 0)
	}
	vm.SetGlobal("obj", luaValue(vm, object.Object))
	require.NoError(t, vm.DoString(script))
	answer, ok := vm.Get(-1).(*lua.LTable)
	require.True(t, ok, "the script returns a table")
	return lua.LVAsString(answer.RawGetString("status")), lua.LVAsString(answer.RawGetString("message"))
}

func luaValue(vm *lua.LState, value any) lua.LValue {
	switch v := value.(type) {
	case map[string]any:
		table := vm.NewTable()
		for key, item := range v {
			table.RawSetString(key, luaValue(vm, item))
		}
		return table
	case []any:
		table := vm.NewTable()
		for _, item := range v {
			table.Append(luaValue(vm, item))
		}
		return table
	case string:
		return lua.LString(v)
	case bool:
		return lua.LBool(v)
	case int64:
		return lua.LNumber(v)
	case float64:
		return lua.LNumber(v)
	default:
		return lua.LNil
	}
}

// A module's transition times move with the status of the condition only.
func TestModuleConditionsKeepTheirTimes(t *testing.T) {
	r := &ModuleReconciler{Modules: newModules(t, epoch)}
	m := &v1alpha1.Module{ObjectMeta: metav1.ObjectMeta{Name: "cilium", Generation: 1}}
	missing := &ModuleError{Reason: v1alpha1.ModuleReasonNotFound, Message: "No."}
	m.Status = r.nextStatus(m, nil, "", missing)
	long := metav1.NewTime(epoch().Add(-time.Hour))
	for i := range m.Status.Conditions {
		m.Status.Conditions[i].LastTransitionTime = long
	}
	require.Equal(t, m.Status, r.nextStatus(m, nil, "", missing), "the same again is no change")
	next := r.nextStatus(m, nil, "", &ModuleError{Reason: v1alpha1.ModuleReasonUnauthorized, Message: "No."})
	require.Equal(t, long, meta.FindStatusCondition(next.Conditions, v1alpha1.ConditionStalled).LastTransitionTime)
	next = r.nextStatus(m, nil, "", &ModuleError{Reason: v1alpha1.ModuleReasonRegistryUnavailable, Message: "No."})
	require.Nil(t, meta.FindStatusCondition(next.Conditions, v1alpha1.ConditionStalled))
	require.NotNil(t, meta.FindStatusCondition(next.Conditions, v1alpha1.ConditionReconciling))
	next = r.nextStatus(m, nil, "sha256:1", nil)
	require.Len(t, next.Conditions, 1)
}

// TestEventsAreEdges: nothing is written and nobody is told while nothing happens, however
// often a pass runs.
func TestEventsAreEdges(t *testing.T) {
	cases := map[string]struct {
		reason string
		err    error
		event  string
		woken  bool
	}{
		"as desired": {reason: "a resync that finds nothing", event: "Normal Provisioned"},
		"yields":     {reason: "what is under way is no news", err: provisioner.Yield(abi.ReasonApplicationInstalling, ""), event: "Normal Provisioning"},
		"retries":    {reason: "the same failure again is no news", err: provisioner.Retry(abi.ReasonChartUnavailable, "try 1"), event: "Warning Retrying"},
		"asks":       {reason: "a parked Stack is not looked at, and a driver's look finds the same", err: provisioner.UserActionRequired(abi.ReasonApplicationStuck, ""), event: "Warning UserActionRequired"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newStack())
			if tc.err != nil {
				w.provision = returns(tc.err)
				o := provisioner.OutcomeOf(tc.err)
				w.nodes[0].State, w.nodes[0].Reason = o.Headline.Disposition.String(), o.Headline.Reason
			}
			w.reconcile()
			require.Len(t, w.events, 1, tc.reason)
			require.True(t, strings.HasPrefix(w.events[0], tc.event+" "), w.events[0])
			before := w.stack()
			passes := 0
			for range 50 {
				w.steps()
				w.pass(12 * time.Minute)
				w.Wakes.Add(theStack(), Wake{Driver: true})
				w.reconcile()
				for _, s := range w.steps() {
					require.NotContains(t, string(s), "patch", tc.reason)
					if s == "provision" {
						passes++
					}
				}
			}
			require.Equal(t, 50, passes, "each was a pass")
			require.Len(t, w.events, 1, tc.reason)
			require.Equal(t, before, w.stack(), tc.reason)
		})
	}
}

// Somebody who has put one thing right is told what is next.
func TestEventForAnotherAction(t *testing.T) {
	w := newWorld(t, newStack())
	w.provision = returns(provisioner.UserActionRequired(abi.ReasonApplicationStuck, ""))
	w.reconcile()
	w.provision = returns(provisioner.UserActionRequired(abi.ReasonFieldConflict, ""))
	w.Wakes.Add(theStack(), Wake{Driver: true})
	w.reconcile()
	require.Len(t, w.events, 2)
	require.Contains(t, w.events[1], "("+abi.ReasonFieldConflict+")")

	w = newWorld(t, newStack())
	for _, reason := range []string{abi.ReasonChartUnavailable, abi.ReasonRemoteUnreachable} {
		w.provision = returns(provisioner.Retry(reason, ""))
		w.reconcile()
	}
	require.Len(t, w.events, 1, "what is tried again by itself asks nobody")
}

// TestRemediesAndTheController: what the table of remedies says of the driver is what the
// controller does.
func TestRemediesAndTheController(t *testing.T) {
	for _, r := range abi.HostRemedies() {
		require.Equal(t, r.Revival == abi.RevivedByDriver, mendsUnseen(r.Code, nil), r.Code)
		remote := []v1alpha1.InputRecord{{Scope: "a1b2", Kind: inputSecret, Name: "token"}}
		secret := r.Code == abi.ReasonSecretMissing || r.Code == abi.ReasonInvalidKubeconfig
		require.Equal(t, r.Revival == abi.RevivedByDriver || secret, mendsUnseen(r.Code, remote), r.Code)
		require.False(t, secret && r.Revival != abi.RevivedByInput, r.Code)
	}
}
