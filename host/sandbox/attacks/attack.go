package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/abi/wasmfile"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/internal/testenv"
	"github.com/caisson-dev/caisson/host/registry/registrytest"
	"github.com/caisson-dev/caisson/host/sandbox/internal/wasmtest"
)

const (
	// controlEvery is after how many attacks the neighbour is timed again without one.
	controlEvery = 4
	// calmChanges is how many changes of the neighbour are timed each time that nobody else works.
	calmChanges = 12
	// usualTime is how long a module stays that is not an attack: about as long as those
	// that are, which have a second.
	usualTime = time.Second
)

// attackWith runs one attack after the other. What the neighbour sees of them is compared
// with what it sees when nobody else works, and when a harmless module comes and goes in
// the place of an attack, both throughout the run: a machine is not the same at its end.
func (s *site) attackWith(ctx context.Context, attacks []wasmtest.Attack, progress io.Writer) (*report, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	w, err := s.watch(ctx)
	if err != nil {
		return nil, err
	}
	r := &report{}
	for i, a := range attacks {
		if i%controlEvery == 0 {
			if err := s.control(ctx, w, r, i/controlEvery); err != nil {
				return nil, err
			}
		}
		result := s.attack(ctx, a)
		result.During = w.take()
		r.Attacks = append(r.Attacks, result)
		_, _ = fmt.Fprintf(progress, "%3d/%d %-24s %-40s %s\n", i+1, len(attacks), a.Name, result.Got, result.mark())
		if result.Problem != "" {
			_, _ = fmt.Fprintf(progress, "the end of the operator's log:\n%s\n", lastLines(s.log.String(), 12))
		}
		if !s.running() {
			r.Ended = s.log.String()
			break
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return r, nil
}

// control times the neighbour without an attack: undisturbed, and beside a harmless module
// that is new in each round.
func (s *site) control(ctx context.Context, w *watcher, r *report, round int) error {
	// What the last attack left is done by then, and counted as a part of it: a change that
	// took so long that it was over after the attack would be nowhere otherwise.
	pause(ctx, usualTime)
	if after := w.take(); len(r.Attacks) > 0 {
		r.Attacks[len(r.Attacks)-1].During.add(after)
	}
	if err := await(ctx, "the changes of an undisturbed neighbour", func() (bool, string) {
		n := w.changes()
		return n >= calmChanges || !s.running(), fmt.Sprint(n, " of them")
	}); err != nil {
		return err
	}
	r.Calm.add(w.take())
	a := wasmtest.Attack{Name: fmt.Sprintf("honest-%d", round), By: wasmtest.ByValue}
	seen := result{Want: expectation(a)}
	if err := s.install(ctx, a, harmless(a.Name), nil, &seen, usualTime); err != nil {
		return fmt.Errorf("run a harmless module in the place of an attack: %w", err)
	}
	r.Honest.add(w.take())
	return nil
}

// harmless is a module that does its work at once.
func harmless(name string) []byte {
	return wasmtest.New().Describing(fmt.Sprintf(`{"abi":1,"name":%q,"version":"1.0.0"}`, name)).Provisioner(wasmtest.I32Const(0))
}

// lastLines returns the end of a text.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// attack lets one module loose, and waits until it ends as expected.
func (s *site) attack(ctx context.Context, a wasmtest.Attack) result {
	began := time.Now()
	r := result{Name: a.Name, Tries: a.Tries, By: a.By}
	r.Want, r.Got = expectation(a), "nothing"
	err := s.unleash(ctx, a, &r)
	r.Seconds = time.Since(began).Seconds()
	if err != nil {
		r.Problem = err.Error()
	}
	return r
}

// expectation is how the Module or the node ends.
func expectation(a wasmtest.Attack) []string {
	switch a.By {
	case wasmtest.ByPreflight:
		// A file without a byte is refused with the artifact that it is in.
		return []string{"Module LoadFailed", "Module NotAModule"}
	case wasmtest.ByCompiler, wasmtest.ByCompileLimit, wasmtest.ByDescribe:
		return []string{"Module LoadFailed"}
	case wasmtest.ByManifest:
		return []string{"Module InvalidManifest"}
	case wasmtest.ByTimeout:
		return []string{"node " + abi.ReasonTimeout}
	case wasmtest.ByCPU:
		return []string{"node " + abi.ReasonCPUExceeded}
	case wasmtest.ByTable:
		return []string{"node " + abi.ReasonTableExceeded}
	case wasmtest.ByHostCalls:
		return []string{"node " + abi.ReasonHostCallsExceeded}
	case wasmtest.ByMemory:
		return []string{"node " + abi.ReasonMemoryExceeded}
	case wasmtest.ByCrash:
		return []string{"Module Faulted"}
	case wasmtest.ByTrap:
		return []string{"node " + abi.ReasonModuleTrap}
	case wasmtest.ByOutput:
		return []string{"node " + abi.ReasonOutputTooLarge}
	case wasmtest.ByValue:
		return []string{strings.TrimSpace("node " + a.Node)}
	default:
		return nil
	}
}

// unleash lets an attack loose until it ends.
func (s *site) unleash(ctx context.Context, a wasmtest.Attack, r *result) error {
	wasm, capabilities, err := dress(a)
	if err != nil {
		return err
	}
	return s.install(ctx, a, wasm, capabilities, r, 0)
}

// push puts a module into the registry.
func (s *site) push(name string, wasm []byte) {
	s.registry.Put(s, "attacks/"+name, "1", registrytest.Artifact{
		ConfigType: "application/vnd.wasm.config.v0+json",
		Layers:     []registrytest.Layer{{MediaType: "application/wasm", Content: wasm}},
	})
}

// install pushes a module, makes a Module and a Stack of it, waits until it ended as r
// wants it to and for as long as it shall stay, and deletes them.
func (s *site) install(ctx context.Context, a wasmtest.Attack, wasm []byte, capabilities []string, r *result, stay time.Duration) error {
	s.push(a.Name, wasm)
	if _, err := testenv.Apply(ctx, s.admin, moduleYAML(s.registry.Ref("attacks/"+a.Name+":1"), a, capabilities)); err != nil {
		return fmt.Errorf("create the Module: %w", err)
	}
	module := &v1alpha1.Module{ObjectMeta: metav1.ObjectMeta{Name: a.Name}}
	defer func() { _ = s.admin.Delete(context.WithoutCancel(ctx), module) }()
	if err := s.awaitVerdict(ctx, module, r); err != nil || r.contained() {
		return err
	}
	if r.Got != "Module "+v1alpha1.ModuleReasonLoaded {
		return fmt.Errorf("the Module is %s", r.Said)
	}
	if _, err := testenv.Apply(ctx, s.admin, fmt.Sprintf(stackYAML, attackerNamespace, a.Name, a.Name, "1")); err != nil {
		return fmt.Errorf("create the Stack: %w", err)
	}
	stack := &v1alpha1.Stack{ObjectMeta: metav1.ObjectMeta{Namespace: attackerNamespace, Name: a.Name}}
	defer func() { _ = s.admin.Delete(context.WithoutCancel(ctx), stack) }()
	err := await(ctx, strings.Join(r.Want, " or "), func() (bool, string) {
		s.look(ctx, module, stack, r)
		return r.contained() || !s.running(), r.Got
	})
	pause(ctx, stay)
	return err
}

// awaitVerdict waits until the Module is judged for the first time.
func (s *site) awaitVerdict(ctx context.Context, module *v1alpha1.Module, r *result) error {
	return await(ctx, "a verdict over the Module", func() (bool, string) {
		if err := s.admin.Get(ctx, client.ObjectKeyFromObject(module), module); err != nil {
			return false, err.Error()
		}
		ready := meta.FindStatusCondition(module.Status.Conditions, v1alpha1.ModuleReady)
		if ready == nil || ready.Status == metav1.ConditionUnknown {
			return !s.running(), "no verdict"
		}
		r.Got, r.Said = "Module "+ready.Reason, ready.Message
		return true, ""
	})
}

// look reads how the Module and the node are.
func (s *site) look(ctx context.Context, module *v1alpha1.Module, stack *v1alpha1.Stack, r *result) {
	if s.admin.Get(ctx, client.ObjectKeyFromObject(module), module) == nil {
		if ready := meta.FindStatusCondition(module.Status.Conditions, v1alpha1.ModuleReady); ready != nil && ready.Reason == v1alpha1.ModuleReasonFaulted {
			r.Got, r.Said = "Module "+ready.Reason, ready.Message
			return
		}
	}
	if s.admin.Get(ctx, client.ObjectKeyFromObject(stack), stack) != nil {
		return
	}
	for _, node := range stack.Status.Nodes {
		if node.Name != "leaf" {
			continue
		}
		switch node.Disposition {
		case abi.OK.String():
			r.Got = "node"
		case v1alpha1.NodeWaiting:
		default:
			r.Got = "node " + node.Reason
		}
	}
}

// attackerNamespace is where the Stacks of the attacks are.
const attackerNamespace = "attacker"

// dress gives an attack a manifest that declares what it imports.
func dress(a wasmtest.Attack) (wasm []byte, capabilities []string, err error) {
	imports, _ := wasmfile.Imports(a.Wasm) // a file that cannot be read imports nothing
	for _, i := range imports {
		if i.Module == abi.ImportUser && abi.Function(i.Name).Known() && !slices.Contains(capabilities, i.Name) {
			capabilities = append(capabilities, i.Name)
		}
	}
	manifest := abi.Manifest{ABI: abi.Version, Name: "attack", Version: "1.0.0"}
	for _, c := range capabilities {
		manifest.Capabilities = append(manifest.Capabilities, abi.Function(c))
		if verb, ok := strings.CutPrefix(c, "kube_"); ok {
			manifest.Kube = append(manifest.Kube, abi.KubeRule{
				Kinds: []string{"ConfigMap"}, Verbs: []string{verb}, Namespaces: []string{attackerNamespace},
			})
		}
	}
	raw, err := json.Marshal(manifest)
	if err != nil {
		return nil, nil, fmt.Errorf("write the manifest: %w", err)
	}
	return a.With(string(raw)), capabilities, nil
}

// moduleYAML is a Module that may do what it declares, with objects that are harmless.
func moduleYAML(reference string, a wasmtest.Attack, capabilities []string) string {
	var rules strings.Builder
	for _, c := range capabilities {
		if verb, ok := strings.CutPrefix(c, "kube_"); ok {
			fmt.Fprintf(&rules, "      - {kinds: [ConfigMap], verbs: [%s], namespaces: [%s]}\n", verb, attackerNamespace)
		}
	}
	kube, secrets := "", ""
	if rules.Len() > 0 {
		kube = "    kube:\n" + rules.String()
	}
	if slices.Contains(capabilities, string(abi.SecretRead)) {
		secrets = "    secrets: [{namespace: $(owner), names: [token]}]\n"
	}
	cpu := ""
	if a.By == wasmtest.ByCPU {
		cpu = ", cpu: 100ms"
	}
	return fmt.Sprintf(`
apiVersion: caisson.dev/v1alpha1
kind: Module
metadata: {name: %s}
spec:
  reference: %s
  pollInterval: 1h
  allowedNamespaces: ["*"]
  limits: {timeout: 1s, memory: 64Mi, tableElements: %d%s}
  grant:
    capabilities: [%s]
%s%s`, a.Name, reference, cmp.Or(a.Tables, 1_000_000), cpu, strings.Join(capabilities, ", "), kube, secrets)
}

// stackYAML is a Stack of one node.
const stackYAML = `
apiVersion: caisson.dev/v1alpha1
kind: Stack
metadata: {namespace: %s, name: %s}
spec:
  serviceAccountName: builder
  parameters: {round: 0}
  root: leaf
  provisioners:
    - {name: leaf, module: {ref: %s, config: {round: "${parameters.round}", first: %s}}}
`
