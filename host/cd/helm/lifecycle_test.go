package helm

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/release/common"
	release "helm.sh/helm/v4/pkg/release/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/cd/cdtest"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

var update = flag.Bool("update", false, "write golden files")

// trace records what the calls of a sequence came to, repetitions once.
type trace struct{ lines []string }

func (tr *trace) watch(name string, step func() error) func() error {
	return func() error {
		err := step()
		o := provisioner.OutcomeOf(err)
		line := strings.TrimSpace(fmt.Sprintf("%s: %s %s", name, o.Headline.Disposition, o.Headline.Reason))
		if len(tr.lines) == 0 || tr.lines[len(tr.lines)-1] != line {
			tr.lines = append(tr.lines, line)
		}
		return err
	}
}

func (tr *trace) say(text string) { tr.lines = append(tr.lines, "# "+text) }

func (tr *trace) requireGolden(t *testing.T, name string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	got := strings.Join(tr.lines, "\n") + "\n"
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func TestLifecycleTrace(t *testing.T) {
	b := newBench(t)
	tr := &trace{}
	app := b.balanced()
	ensure, remove := tr.watch("ensure", b.ensure(t, app)), tr.watch("remove", b.remove(t, app))

	tr.say("install; the cloud takes its time")
	cdtest.UntilReason(t, ensure, abi.ReasonApplicationWaiting)
	b.clock.advance(11 * time.Minute)
	require.Error(t, ensure())
	b.tenant.GiveAddress(t)
	cdtest.Ready(t, ensure)

	tr.say("a version that does not exist, then one that does")
	app.Version = "9.9.9"
	cdtest.Settle(t, ensure)
	app.Version = "2.0.0"
	cdtest.Ready(t, ensure)

	tr.say("the operator is killed during an upgrade")
	process := b.NewProcess(t, cdtest.KilledAtWrite(2))
	killed := newDriver(t, process.Operator, b.Namespace, func(o *Options) { o.Now = b.clock.now })
	app.Values["greeting"] = "moin"
	home := process.Scope(t, b.tenant)
	cdtest.Until(t, func() error { return killed.Ensure(t.Context(), home, app) }, func(provisioner.Outcome) bool { return process.Dead() })
	require.Equal(t, common.StatusPendingUpgrade, b.status(t)[len(b.status(t))-1])
	b.driver = newDriver(t, b.Operator, b.Namespace, func(o *Options) { o.Now = b.clock.now })
	cdtest.Ready(t, ensure)

	tr.say("a person's helm dies during an upgrade")
	b.rewrite(t, func(r *release.Release) {
		r.SetStatus(common.StatusPendingUpgrade, "")
		r.Info.LastDeployed = b.clock.now()
	})
	require.Error(t, ensure())
	b.clock.advance(12 * time.Minute)
	cdtest.Ready(t, ensure)

	tr.say("somebody deletes an object")
	require.NoError(t, b.Admin.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: b.tenant.Namespace, Name: "app-settings"}}))
	cdtest.Ready(t, ensure)

	tr.say("removal, with an object that does not go")
	release := b.tenant.Hold(t)
	cdtest.Until(t, remove, func(o provisioner.Outcome) bool { return strings.Contains(o.Headline.Why, "example.com/hold") })
	b.clock.advance(16 * time.Minute)
	require.Error(t, remove())
	release()
	cdtest.Ready(t, remove)
	tr.requireGolden(t, "lifecycle")
}

// root is the home cluster with every right.
func (b *bench) root() scope.Scope { return scope.NewHome(b.tenant.Owner(), b.Config, b.Admin) }

// widgetCRD is the CRD of a group that belongs to one test.
func widgetCRD(group string) string {
	return fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.%[1]s}
spec:
  group: %[1]s
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`, group)
}

func widgetChart(group string, files map[string]string) cdtest.Chart {
	c := cdtest.DemoChart("1.0.0")
	c.Name = "widgets"
	c.Files["templates/widget.yaml"] = fmt.Sprintf("apiVersion: %s/v1\nkind: Widget\nmetadata: {name: w}\nspec: {size: 1}\n", group)
	for name, content := range files {
		c.Files[name] = content
	}
	return c
}

func TestChartWithCRDs_B46(t *testing.T) {
	b := newBench(t)
	group := b.tenant.Namespace + ".example.com"
	b.Repository.Publish(t, widgetChart(group, map[string]string{"crds/widgets.yaml": widgetCRD(group)}))
	app := b.tenant.Application()
	app.Chart = "widgets"
	ensure := func() error { return b.driver.Ensure(t.Context(), b.root(), app) }
	remove := func() error { return b.driver.Remove(t.Context(), b.root(), app.ID) }
	cdtest.Ready(t, ensure)
	listed, err := b.driver.List(t.Context(), b.tenant.Owner())
	require.NoError(t, err)
	require.Contains(t, listed[0].Retained, "CustomResourceDefinition/widgets."+group)

	crd := &unstructured.Unstructured{}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	crd.SetName("widgets." + group)
	require.NoError(t, b.Admin.Delete(t.Context(), crd))
	cdtest.Poll(t, func() (bool, string) {
		err := b.Admin.Get(t.Context(), client.ObjectKeyFromObject(crd), crd)
		return client.IgnoreNotFound(err) == nil && err != nil, "the CRD is still there"
	})
	outcome := cdtest.UntilReason(t, ensure, abi.ReasonApplicationUnknown)
	require.Equal(t, abi.Yield, outcome.Class, "a kind may come back")
	cdtest.Ready(t, remove)
	require.Nil(t, b.tenant.Settings(t), "a kind that is gone does not keep the rest from being removed")
	require.Empty(t, b.records(t))
}

func TestKindThatIsNotThereYet_B46(t *testing.T) {
	b := newBench(t)
	group := b.tenant.Namespace + ".example.com"
	b.Repository.Publish(t, widgetChart(group, nil))
	app := b.tenant.Application()
	app.Chart = "widgets"
	ensure := func() error { return b.driver.Ensure(t.Context(), b.root(), app) }
	outcome := cdtest.UntilReason(t, ensure, abi.ReasonRenderFailed)
	require.Equal(t, abi.Yield, outcome.Class)
	c := cdtest.DemoChart("1.0.0")
	c.Name, c.Files = "crds", map[string]string{"templates/crd.yaml": widgetCRD(group)}
	b.Repository.Publish(t, c)
	crds := b.tenant.Application()
	crds.ID.Path, crds.Chart, crds.Release = "all/crds", "crds", "crds"
	cdtest.Ready(t, func() error { return b.driver.Ensure(t.Context(), b.root(), crds) })
	cdtest.Ready(t, ensure)
	for _, app := range []*cd.Application{app, crds} {
		cdtest.Ready(t, func() error { return b.driver.Remove(t.Context(), b.root(), app.ID) })
	}
}

func TestCreateNamespace(t *testing.T) {
	b := newBench(t)
	app := b.tenant.Application()
	app.CreateNamespace = true
	cdtest.Ready(t, b.ensure(t, app))
	listed, err := b.driver.List(t.Context(), b.tenant.Owner())
	require.NoError(t, err)
	require.NotContains(t, listed[0].Retained, "Namespace/"+app.Namespace, "it was there, and a tenant may not apply it")
	cdtest.Ready(t, b.remove(t, app))

	app.Namespace = b.tenant.Namespace + "-made"
	ensure := func() error { return b.driver.Ensure(t.Context(), b.root(), app) }
	cdtest.Ready(t, ensure)
	listed, err = b.driver.List(t.Context(), b.tenant.Owner())
	require.NoError(t, err)
	require.Contains(t, listed[0].Retained, "Namespace/"+app.Namespace)
	app.Values = map[string]any{"greeting": "again"}
	cdtest.Ready(t, ensure)
	listed, err = b.driver.List(t.Context(), b.tenant.Owner())
	require.NoError(t, err)
	require.Contains(t, listed[0].Retained, "Namespace/"+app.Namespace, "an upgrade does not forget it")
	cdtest.Ready(t, func() error { return b.driver.Remove(t.Context(), b.root(), app.ID) })
	ns := &corev1.Namespace{}
	require.NoError(t, b.Admin.Get(t.Context(), client.ObjectKey{Name: app.Namespace}, ns))
	require.Nil(t, ns.DeletionTimestamp, "namespaces are never removed")
	require.NoError(t, b.Admin.Delete(t.Context(), ns))
}

func TestMissingNamespace(t *testing.T) {
	b := newBench(t)
	app := b.tenant.Application()
	app.Namespace = b.tenant.Namespace + "-missing"
	outcome := cdtest.UntilReason(t, func() error { return b.driver.Ensure(t.Context(), b.root(), app) }, abi.ReasonAwaitingDependency)
	require.Equal(t, abi.Yield, outcome.Class, "somebody may be about to make it")
}

func TestInstallFromOCI(t *testing.T) {
	b := newBench(t)
	archive := cdtest.DemoChart("1.0.0").Archive(t)
	s := newSite(t)
	s.putOCI(t, "charts/demo", "1.0.0", archive, chartLayer(archive))
	app := b.tenant.Application()
	app.Repo = s.oci("/charts")
	cdtest.Ready(t, b.ensure(t, app))
	require.Equal(t, "1.0.0", b.tenant.Settings(t)["version"])
}

func TestHooksRunAndAreReported(t *testing.T) {
	b := newBench(t)
	c := cdtest.DemoChart("1.0.0")
	c.Name = "hooked"
	c.Files["templates/hooks.yaml"] = `apiVersion: v1
kind: ConfigMap
metadata: {name: stays, annotations: {"helm.sh/hook": pre-install}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: goes, annotations: {"helm.sh/hook": post-install, "helm.sh/hook-delete-policy": hook-succeeded}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: tests, annotations: {"helm.sh/hook": test}}
`
	b.Repository.Publish(t, c)
	app := b.tenant.Application()
	app.Chart = "hooked"
	cdtest.Ready(t, b.ensure(t, app))
	listed, err := b.driver.List(t.Context(), b.tenant.Owner())
	require.NoError(t, err)
	require.Equal(t, []string{"ConfigMap/app-kept", "ConfigMap/stays"}, listed[0].Retained)
	before := b.Writes()
	require.NoError(t, b.ensure(t, app)())
	require.Equal(t, before, b.Writes())
}

func TestFinishedJobIsNoDrift(t *testing.T) {
	b := newBench(t)
	c := cdtest.DemoChart("1.0.0")
	c.Name = "job"
	c.Files["templates/job.yaml"] = `apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec:
  ttlSecondsAfterFinished: 0
  template: {spec: {restartPolicy: Never, containers: [{name: c, image: example.invalid/c:1}]}}
`
	b.Repository.Publish(t, c)
	app := b.tenant.Application()
	app.Chart = "job"
	cdtest.Ready(t, b.ensure(t, app))
	job := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}}
	cdtest.Poll(t, func() (bool, string) {
		err := b.Admin.Get(t.Context(), client.ObjectKey{Namespace: b.tenant.Namespace, Name: "once"}, job)
		return err != nil && client.IgnoreNotFound(err) == nil, "the job is still there"
	})
	require.NoError(t, b.ensure(t, app)())
	require.Len(t, b.records(t), 1, "it is not run again and again")
}

// TestEnsureHammer ensures and then removes one application from many goroutines: Helm
// is asked once for each.
func TestEnsureHammer(t *testing.T) {
	b := newBench(t)
	app := b.tenant.Application()
	hammer := func(step func() error) {
		cdtest.Poll(t, func() (bool, string) {
			var group sync.WaitGroup
			errs := make([]error, 8)
			for n := range errs {
				group.Go(func() { errs[n] = step() })
			}
			group.Wait()
			for _, err := range errs {
				if err != nil {
					return false, err.Error()
				}
			}
			return true, ""
		})
	}
	hammer(b.ensure(t, app))
	require.Len(t, b.records(t), 1)
	hammer(b.remove(t, app))
	require.Empty(t, b.records(t))
}

func TestWatchesAreRebuiltAfterARestart(t *testing.T) {
	b := newBench(t)
	app := b.tenant.Application()
	cdtest.Ready(t, b.ensure(t, app))
	b.driver = newDriver(t, b.Operator, b.Namespace)
	told := make(chan scope.Owner, 16)
	b.driver.Subscribe(t.Context(), func(o scope.Owner) {
		select {
		case told <- o:
		default:
		}
	})
	require.NoError(t, b.ensure(t, app)())
	key := releaseKey{scope: scope.HomeID, namespace: b.tenant.Namespace, name: "app"}
	cdtest.Poll(t, func() (bool, string) { return b.driver.hub.watching(key), "no watch" })
	require.NoError(t, b.Admin.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: b.tenant.Namespace, Name: "app-settings"}}))
	cdtest.Poll(t, func() (bool, string) {
		select {
		case owner := <-told:
			return owner == b.tenant.Owner(), "another owner"
		default:
			return false, "the drift was not announced"
		}
	})
	cdtest.Ready(t, b.ensure(t, app))
}
