package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// updateModule pushes a new version of a module to the tag that is in use.
func (d *demo) updateModule(ctx context.Context) error {
	if err := d.nextCilium(ctx); err != nil {
		return err
	}
	if err := d.life(ctx, "neighbour.yaml"); err != nil {
		return err
	}
	if _, err := d.available(ctx, lifeKey("neighbour")); err != nil {
		return err
	}
	if err := d.quiesce(ctx); err != nil {
		return err
	}
	untouched, err := d.versions(ctx, lifeKey("neighbour"))
	if err != nil {
		return err
	}
	wasm, err := os.ReadFile(d.wasm("cilium-next"))
	if err != nil {
		return fmt.Errorf("read the module: %w", err)
	}
	d.show.sayf("cilium 0.2.0 is pushed to the tag that is in use; the operator goes on as process %d", d.operator.PID)
	if _, err := d.pushModule(ctx, "cilium", wasm); err != nil {
		return err
	}
	took, err := eventually(ctx, "the pods of cilium are of the new version", soon, func(ctx context.Context) (bool, string, error) {
		daemons := &appsv1.DaemonSet{}
		if err := d.workload.client.Get(ctx, types.NamespacedName{Namespace: "kube-system", Name: "cilium"}, daemons); err != nil {
			return false, "", fmt.Errorf("read cilium: %w", err)
		}
		found := daemons.Spec.Template.Annotations[nextAnnotation]
		return found == "0.2.0", "annotation " + found, nil
	})
	if err != nil {
		return err
	}
	if _, err := d.available(ctx, platformKey()); err != nil {
		return err
	}
	if err := d.sameVersions(ctx, untouched); err != nil {
		return err
	}
	if err := d.operator.Signal(0); err != nil {
		return fmt.Errorf("the operator was restarted: %w", err)
	}
	d.show.sayf("in use after %.1f s, by the same process; the Stack neighbour, which has no part in it, was not touched", took.Seconds())
	_, err = d.remove(ctx, lifeKey("neighbour"))
	return err
}

// faultModule pushes a version of a module that kills its worker to a tag, while another
// Stack stays at the digest before.
func (d *demo) faultModule(ctx context.Context) error {
	digest, err := d.pushPulse(ctx, "0.1.0", nil)
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(d.example("life", "modules.yaml"))
	if err != nil {
		return fmt.Errorf("read manifest: %w", err)
	}
	manifest := strings.ReplaceAll(string(raw), placeholder, d.registry)
	manifest = strings.ReplaceAll(manifest, "sha256:"+strings.Repeat("0", 64), digest)
	if err := d.home.applyText(ctx, manifest); err != nil {
		return err
	}
	if err := d.life(ctx, "pulse.yaml"); err != nil {
		return err
	}
	for _, name := range []string{"canary", "pinned"} {
		if _, err := d.available(ctx, lifeKey(name)); err != nil {
			return err
		}
	}
	if err := d.quiesce(ctx); err != nil {
		return err
	}
	untouched, err := d.versions(ctx, lifeKey("pinned"), platformKey())
	if err != nil {
		return err
	}
	d.show.sayf("pulse 0.2.0 is pushed to the tag that canary follows; it kills its worker. pinned stays at the digest before")
	start := time.Now()
	if _, err := d.pushPulse(ctx, "0.2.0", growTable()); err != nil {
		return err
	}
	said, err := d.moduleIs(ctx, "pulse", v1alpha1.ModuleReasonFaulted)
	if err != nil {
		return err
	}
	d.show.sayf("Module pulse is Faulted after %.1f s: %s", time.Since(start).Seconds(), said)
	stack, err := d.stack(ctx, lifeKey("canary"))
	if err != nil {
		return err
	}
	if isAvailable(stack) {
		return errors.New("canary should not say that it is available")
	}
	d.show.sayf("canary: %s", condition(stack))
	if err := d.sameVersions(ctx, untouched); err != nil {
		return err
	}
	d.show.sayf("pinned and the platform stay available and were not touched; pulse 0.3.0 is pushed, which does not kill")
	if _, err := d.pushPulse(ctx, "0.3.0", nil); err != nil {
		return err
	}
	took, err := d.available(ctx, lifeKey("canary"))
	if err != nil {
		return err
	}
	d.show.sayf("canary is available after %.1f s", took.Seconds())
	return d.removePulse(ctx)
}

// pushPulse publishes a version of the smallest module.
func (d *demo) pushPulse(ctx context.Context, version string, provision []byte) (string, error) {
	wasm, err := pulse(version, provision)
	if err != nil {
		return "", err
	}
	return d.pushModule(ctx, "pulse", wasm)
}

// removePulse takes away what faultModule brought.
func (d *demo) removePulse(ctx context.Context) error {
	if _, err := d.remove(ctx, lifeKey("canary"), lifeKey("pinned")); err != nil {
		return err
	}
	for _, name := range []string{"pulse", "pulse-pinned"} {
		module := &v1alpha1.Module{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := d.home.client.Delete(ctx, module); err != nil {
			return fmt.Errorf("delete module %s: %w", name, err)
		}
	}
	return nil
}

// moduleIs waits until the condition of a Module has a reason, and returns its message.
func (d *demo) moduleIs(ctx context.Context, name, reason string) (string, error) {
	var message string
	_, err := eventually(ctx, "Module "+name+" is "+reason, soon, func(ctx context.Context) (bool, string, error) {
		module := &v1alpha1.Module{}
		if err := d.home.client.Get(ctx, client.ObjectKey{Name: name}, module); err != nil {
			return false, "", fmt.Errorf("read module %s: %w", name, err)
		}
		c := meta.FindStatusCondition(module.Status.Conditions, v1alpha1.ModuleReady)
		if c == nil {
			return false, "no condition yet", nil
		}
		message = c.Message
		return c.Reason == reason, c.Reason + ": " + c.Message, nil
	})
	return message, err
}

// versions remembers Stacks as they are.
func (d *demo) versions(ctx context.Context, keys ...types.NamespacedName) (map[types.NamespacedName]string, error) {
	found := map[types.NamespacedName]string{}
	for _, key := range keys {
		stack, err := d.stack(ctx, key)
		if err != nil {
			return nil, err
		}
		if !isAvailable(stack) {
			return nil, fmt.Errorf("%s is not available: %s", key, condition(stack))
		}
		found[key] = stack.ResourceVersion
	}
	return found, nil
}

// sameVersions fails if anything was written to Stacks that were to be left alone.
func (d *demo) sameVersions(ctx context.Context, before map[types.NamespacedName]string) error {
	for key, version := range before {
		now, err := d.versions(ctx, key)
		if err != nil {
			return err
		}
		if now[key] != version {
			return fmt.Errorf("%s was written to, and should have been left alone", key)
		}
	}
	return nil
}
