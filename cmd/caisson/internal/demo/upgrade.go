package demo

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

const (
	// metricsNode is the node whose application is upgraded, metricsApplication its entry
	// in the catalogue, chart and Deployment.
	metricsNode        = "metrics"
	metricsApplication = "metrics-server"
)

// upgrade publishes a version of a chart that wants two pods instead of one, and one that
// is not there.
func (d *demo) upgrade(ctx context.Context) error {
	before, err := d.standing(ctx)
	if err != nil {
		return err
	}
	d.show.sayf("metrics-server 3.13.1 is published and put into the catalogue; the node asks for 3.x")
	dir := filepath.Join(d.env.Dir(), "charts", metricsApplication)
	if err := variant(d.example("charts", metricsApplication), dir, metricsEdits()...); err != nil {
		return err
	}
	pusher, err := d.pusher()
	if err != nil {
		return err
	}
	if err := d.pushChart(ctx, pusher, dir); err != nil {
		return err
	}
	if err := d.offer(ctx, "3.13.1"); err != nil {
		return err
	}
	took, err := d.workloadIs(ctx, metricsApplication+" 2/2")
	if err != nil {
		return err
	}
	if _, err := d.available(ctx, platformKey()); err != nil {
		return err
	}
	after, err := d.standing(ctx)
	if err != nil {
		return err
	}
	if differ := changes(before.settled(), after.settled()); len(differ) > 0 {
		return fmt.Errorf("the upgrade was not in place: %s", strings.Join(differ, ", "))
	}
	revisions, err := d.revisionsOf(ctx, metricsApplication)
	if err != nil {
		return err
	}
	d.show.sayf("upgraded in place after %.1f s: the same Deployment (UID %s) has 2 pods, %s",
		took.Seconds(), after.object(d.workload, "Deployment", "kube-system", metricsApplication).uid, revisions)
	return d.badVersion(ctx)
}

// metricsEdits make the next version of the chart.
func metricsEdits() []edit {
	return []edit{{"Chart.yaml", "version: 3.13.0", "version: 3.13.1"}, {"values.yaml", "replicas: 1", "replicas: 2"}}
}

// badVersion offers a version that the registry does not have.
func (d *demo) badVersion(ctx context.Context) error {
	d.show.sayf("the catalogue offers 3.14.0, which nobody has published")
	if err := d.offer(ctx, "3.14.0"); err != nil {
		return err
	}
	if _, err := d.nodeIs(ctx, platformKey(), metricsNode, abi.Terminal.String(), abi.ReasonChartNotFound); err != nil {
		return err
	}
	stack, err := d.parked(ctx, platformKey())
	if err != nil {
		return err
	}
	said := condition(stack)
	d.show.sayf("it says: %s", said)
	sentence, _ := abi.HostSentence(abi.ReasonChartNotFound)
	if !strings.Contains(said, metricsNode+": ") || !strings.Contains(said, sentence) {
		return fmt.Errorf("the condition should name the node %s and say %q", metricsNode, sentence)
	}
	d.show.sayf("the spec is corrected: version 3.13.x")
	err = d.patch(ctx, platformKey(), func(s *v1alpha1.Stack) { metricsOf(s).Version = "3.13.x" })
	if err != nil {
		return err
	}
	took, err := d.available(ctx, platformKey())
	if err != nil {
		return err
	}
	d.show.sayf("revived and available after %.2f s", took.Seconds())
	return d.withdraw(ctx, "3.14.0")
}

// metricsOf returns the node that is upgraded; an empty one if there is none.
func metricsOf(s *v1alpha1.Stack) *v1alpha1.ApplicationNode {
	for i := range s.Spec.Provisioners {
		if n := &s.Spec.Provisioners[i]; n.Name == metricsNode && n.Application != nil {
			return n.Application
		}
	}
	return &v1alpha1.ApplicationNode{}
}

// offer adds a version to the catalogue entry, like the first of it in all else.
func (d *demo) offer(ctx context.Context, version string) error {
	return d.catalogue(ctx, func(versions []v1alpha1.ApplicationVersion) []v1alpha1.ApplicationVersion {
		next := *versions[0].DeepCopy()
		next.Version = version
		return append(versions, next)
	})
}

// withdraw takes a version out of the catalogue entry.
func (d *demo) withdraw(ctx context.Context, version string) error {
	return d.catalogue(ctx, func(versions []v1alpha1.ApplicationVersion) []v1alpha1.ApplicationVersion {
		return slices.DeleteFunc(versions, func(v v1alpha1.ApplicationVersion) bool { return v.Version == version })
	})
}

func (d *demo) catalogue(ctx context.Context, change func([]v1alpha1.ApplicationVersion) []v1alpha1.ApplicationVersion) error {
	entry := &v1alpha1.Application{}
	if err := d.home.client.Get(ctx, client.ObjectKey{Name: metricsApplication}, entry); err != nil {
		return fmt.Errorf("read the catalogue: %w", err)
	}
	entry.Spec.Versions = change(entry.Spec.Versions)
	if err := d.home.client.Update(ctx, entry); err != nil {
		return fmt.Errorf("change the catalogue: %w", err)
	}
	return nil
}

// workloadIs waits until a workload has as many pods as is said, for instance a 2/2.
func (d *demo) workloadIs(ctx context.Context, want string) (time.Duration, error) {
	return eventually(ctx, want+" runs", soon, func(ctx context.Context) (bool, string, error) {
		found, err := d.workload.workloads(ctx)
		if err != nil {
			return false, "", err
		}
		for _, w := range found {
			if w == want {
				return true, "", nil
			}
		}
		return false, strings.Join(found, ", "), nil
	})
}

// revisionsOf says which revision of a release of the platform is deployed.
func (d *demo) revisionsOf(ctx context.Context, part string) (string, error) {
	releases, err := d.workload.releases(ctx)
	if err != nil {
		return "", err
	}
	for name, revision := range releases {
		if strings.Contains(name, part) || strings.Contains(name, metricsNode) {
			return "revision " + revision + " of release " + name, nil
		}
	}
	return "", fmt.Errorf("there is no release of %s", part)
}

// scaleMetrics sets how many pods metrics-server has, by a value of its node.
func (d *demo) scaleMetrics(ctx context.Context, replicas int) error {
	return d.patch(ctx, platformKey(), func(s *v1alpha1.Stack) {
		metricsOf(s).Values = &apiextensionsv1.JSON{Raw: fmt.Appendf(nil, `{"replicas":%d}`, replicas)}
	})
}

// text is a JSON string.
func text(value string) apiextensionsv1.JSON {
	return apiextensionsv1.JSON{Raw: strconv.AppendQuote(nil, value)}
}
