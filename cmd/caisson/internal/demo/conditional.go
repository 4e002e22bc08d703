package demo

import (
	"context"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// gpuApplication is the node that is switched off and on, with its chart, Deployment and
// namespace.
const gpuApplication = "gpu-operator"

// switchGPU switches a part of the Stack off and on again.
func (d *demo) switchGPU(ctx context.Context) error {
	before, err := d.standing(ctx)
	if err != nil {
		return err
	}
	d.show.sayf("gpu is switched off: its application goes, the rest is not touched")
	if err := d.gpu(ctx, "false"); err != nil {
		return err
	}
	if _, err := d.nodeIs(ctx, platformKey(), gpuApplication, v1alpha1.NodeRemoved, ""); err != nil {
		return err
	}
	if _, err := d.available(ctx, platformKey()); err != nil {
		return err
	}
	after, err := d.standing(ctx)
	if err != nil {
		return err
	}
	differ := changes(before, after)
	if err := onlyGPU(differ); err != nil {
		return err
	}
	d.show.sayf("off: gone are %s, and the entry of the inventory; nothing else was changed, made anew or removed", strings.Join(objects(differ), ", "))
	if err := d.gpu(ctx, "true"); err != nil {
		return err
	}
	took, err := d.available(ctx, platformKey())
	if err != nil {
		return err
	}
	if after, err = d.standing(ctx); err != nil {
		return err
	}
	if differ := changes(before.settled().names(), after.settled().names()); len(differ) > 0 {
		return fmt.Errorf("off and on is not as before: %s", strings.Join(differ, ", "))
	}
	d.show.sayf("on: everything is as it was after %.1f s", took.Seconds())
	return nil
}

// gpu sets the parameter of the condition.
func (d *demo) gpu(ctx context.Context, value string) error {
	return d.patch(ctx, platformKey(), func(s *v1alpha1.Stack) {
		s.Spec.Parameters["gpu"] = apiextensionsv1.JSON{Raw: []byte(value)}
	})
}

// objects are those that were removed from the workload cluster.
func objects(differ []string) []string {
	var found []string
	for _, c := range differ {
		if object, ok := strings.CutPrefix(c, "- workload: "); ok {
			found = append(found, object)
		}
	}
	return found
}

// onlyGPU fails if something was done to anything but the application that was switched
// off and the spec that says so. Its namespace is kept.
func onlyGPU(differ []string) error {
	removed := false
	for _, c := range differ {
		switch {
		case strings.HasPrefix(c, "- ") && (strings.Contains(c, "/gpu-operator/") || strings.HasPrefix(c, "- "+entryPrefix)):
			removed = removed || strings.Contains(c, "Deployment/")
		case c == "~ home: Stack/"+stackNamespace+"/"+stackName:
		default:
			return fmt.Errorf("switching gpu off should not have done this: %s", c)
		}
	}
	if !removed {
		return fmt.Errorf("switching gpu off removed no Deployment")
	}
	return nil
}
