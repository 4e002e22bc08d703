package explain

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/cmd/caisson/internal/tree"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// remedy is what takes the cause of a finding away: the general words of the table of
// reasons, and the names that this Stack has for them.
func (e *explainer) remedy(p place, f Finding) []Step {
	known, ok := abi.HostRemedy(f.Reason)
	if !ok {
		return e.strange(p, f)
	}
	step := Step{Text: known.Text}
	switch known.Revival {
	case abi.RevivedByInput:
		step = e.inputStep(p, known)
	case abi.RevivedBySpec:
		step.Text += " " + e.field(p) + " is the place; a change of it is seen at once."
		step.Commands = []string{fmt.Sprintf("kubectl edit stack -n %s %s", e.view.Namespace, e.view.Name)}
	case abi.RevivedByModule:
		step = e.moduleStep(p, known)
	case abi.RevivedByCatalogue:
		step = e.catalogueStep(p, known)
	case abi.RevivedByDriver:
		step.Text += " What runs " + where(p) + " is watched, and looked at again about every " + resyncText + "."
	case abi.RevivedByRetry:
		if waits(f) {
			step.Text += " Nobody watches that, so make it try again when it is done, as below."
		}
	case abi.RevivedByTime:
		step.Text += e.remoteHint(p, f)
	}
	return append([]Step{step}, e.goneStep(p, f)...)
}

// waits reports whether nothing happens to the node before somebody acts.
func waits(f Finding) bool {
	return f.Disposition == abi.UserActionRequired.String() || f.Disposition == abi.Terminal.String()
}

// strange is the remedy for a reason that a module declared itself: its sentence is all
// that is known.
func (e *explainer) strange(p place, f Finding) []Step {
	if !waits(f) || p.node == nil || p.node.Module == nil {
		return nil
	}
	return []Step{{Text: fmt.Sprintf("Module %s says so; its sentence above is what there is to do. A change of %s, of the Module, or of a Secret or ConfigMap at home that it read is seen at once.",
		tree.Clean(p.node.Module.Ref), e.field(p))}}
}

// inputStep names the Secrets and ConfigMaps that a node waits for.
func (e *explainer) inputStep(p place, known abi.Remedy) Step {
	if known.Code == abi.ReasonInvalidKubeconfig {
		return Step{Text: known.Text + e.kubeconfigHint(p, " It is in %s.")}
	}
	const seen = " The operator sees that at once."
	const unseen = " Nobody watches there, but it is looked at again about every " + resyncText + "; to be quicker, make it try again, as below."
	missing := e.missing(p)
	switch {
	case len(missing) == 1 && atHome(missing[0]):
		return Step{Text: "Create the " + object(missing[0]) + "." + seen}
	case len(missing) == 1:
		return Step{Text: "Create the " + object(missing[0]) + "." + unseen}
	case len(missing) > 1:
		return Step{Text: "Create what is missing: " + objects(missing) + "." + seen}
	}
	if p.node != nil && p.node.RemoteCluster != nil {
		if hint := e.kubeconfigHint(p, "%s"); hint != "" {
			return Step{Text: "Add " + hint + ": the Secret is there, and the key is not." + seen}
		}
	}
	if read := e.readBy(p); len(read) > 0 {
		return Step{Text: "Add the key that is missing: everything that was read is there, namely " + objects(read) + "." + seen}
	}
	return Step{Text: known.Text + seen}
}

// missing are the absent inputs that a node can be waiting for. The record does not say
// who read what, but the spec does for all but modules.
func (e *explainer) missing(p place) []v1alpha1.InputRecord {
	var mine, all []v1alpha1.InputRecord
	for _, i := range e.Stack.Status.Inputs {
		if !i.Absent || i.Kind != kindSecret && i.Kind != kindConfigMap {
			continue
		}
		all = append(all, i)
		if e.belongs(p, i) {
			mine = append(mine, i)
		}
	}
	if len(mine) > 0 {
		return mine
	}
	return all
}

// readBy are the inputs that are there and that a node can have read.
func (e *explainer) readBy(p place) []v1alpha1.InputRecord {
	var read []v1alpha1.InputRecord
	for _, i := range e.Stack.Status.Inputs {
		if !i.Absent && (i.Kind == kindSecret || i.Kind == kindConfigMap) && e.belongs(p, i) {
			read = append(read, i)
		}
	}
	return read
}

// belongs reports whether an input is one that the spec of the node names; for a module,
// that no other node names it.
func (e *explainer) belongs(p place, i v1alpha1.InputRecord) bool {
	switch {
	case p.node == nil:
		return false
	case p.node.RemoteCluster != nil:
		r := e.remoteOf(p)
		return r != nil && isKubeconfig(r, i)
	case p.node.Application != nil:
		return isValues(p.node.Application, i, needed)
	case p.node.Module == nil:
		return false
	}
	for n := range e.Stack.Spec.Provisioners {
		if app := e.Stack.Spec.Provisioners[n].Application; app != nil && isValues(app, i, named) {
			return false
		}
	}
	for n := range e.Stack.Spec.Remotes {
		if isKubeconfig(&e.Stack.Spec.Remotes[n], i) {
			return false
		}
	}
	return true
}

func isKubeconfig(r *v1alpha1.Remote, i v1alpha1.InputRecord) bool {
	_, name, _ := kubeconfigOf(r)
	return i.Kind == kindSecret && i.Name == name
}

func isValues(app *v1alpha1.ApplicationNode, i v1alpha1.InputRecord, which func(v1alpha1.ValuesReference) bool) bool {
	for _, v := range app.ValuesFrom {
		if v.Kind == i.Kind && v.Name == i.Name && which(v) {
			return true
		}
	}
	return false
}

// named and needed tell the values that a node reads from those that it cannot do without.
func named(v1alpha1.ValuesReference) bool    { return true }
func needed(v v1alpha1.ValuesReference) bool { return !v.Optional }

// moduleStep names the Module, and says what it says of itself.
func (e *explainer) moduleStep(p place, known abi.Remedy) Step {
	if p.node == nil || p.node.Module == nil {
		return Step{Text: known.Text}
	}
	ref := tree.Clean(p.node.Module.Ref)
	step := Step{Text: known.Text + " It is Module " + ref + ".", Commands: []string{"kubectl describe module " + ref}}
	switch known.Code {
	case abi.ReasonModuleNotFound:
		step = Step{Text: known.Text + " The node asks for " + ref + alike(ref, e.moduleNames()) + ".", Commands: []string{"kubectl get modules"}}
	case abi.ReasonModuleNotAllowed:
		step.Text = fmt.Sprintf("An admin has to add %s to spec.allowedNamespaces of Module %s.", e.view.Namespace, ref)
		step.Commands = []string{"kubectl edit module " + ref}
	}
	for _, m := range e.modules() {
		if m.Name == ref {
			step.Text += fmt.Sprintf(" It says: %s (%s)", m.Says, m.Reason)
		}
	}
	return step
}

// catalogueStep names the Application, and the versions that it has.
func (e *explainer) catalogueStep(p place, known abi.Remedy) Step {
	if p.node == nil || p.node.Application == nil {
		return Step{Text: known.Text, Commands: []string{"kubectl get applications.caisson.dev"}}
	}
	node := p.node.Application
	ref := tree.Clean(node.Ref)
	if known.Code == abi.ReasonApplicationNotFound {
		return Step{Text: known.Text + " The node asks for " + ref + alike(ref, e.applicationNames()) + ".", Commands: []string{"kubectl get applications.caisson.dev"}}
	}
	step := Step{Text: known.Text, Commands: []string{"kubectl edit application.caisson.dev " + ref}}
	for _, a := range e.Applications {
		if a.Name != node.Ref {
			continue
		}
		var versions []string
		for _, v := range a.Spec.Versions {
			versions = append(versions, tree.Clean(v.Version))
		}
		step.Text += fmt.Sprintf(" The node asks for %s of %s, which has %s.", cmp.Or(tree.Clean(node.Version), "any version"), ref, strings.Join(versions, ", "))
	}
	return step
}

// field is where in the spec a node is configured.
func (e *explainer) field(p place) string {
	switch {
	case p.node == nil && e.Stack.Spec.ServiceAccountName == "" && strings.HasSuffix(e.view.Message, "("+abi.ReasonServiceAccountMissing+")"):
		return "spec.serviceAccountName"
	case p.node == nil:
		return "spec.provisioners"
	default:
		return fmt.Sprintf("spec.provisioners[name=%s].%s", tree.Clean(p.node.Name), p.node.Kind())
	}
}

// remoteHint says where the kubeconfig is expected.
func (e *explainer) remoteHint(p place, f Finding) string {
	switch f.Reason {
	case abi.ReasonRemotePending:
		return e.kubeconfigHint(p, " It is expected in %s.")
	case abi.ReasonRemoteUnreachable:
		return e.kubeconfigHint(p, " The operator goes by %s.")
	default:
		return ""
	}
}

// kubeconfigHint puts the place of a remote's kubeconfig into a text.
func (e *explainer) kubeconfigHint(p place, format string) string {
	r := e.remoteOf(p)
	if r == nil {
		return ""
	}
	namespace, name, key := kubeconfigOf(r)
	if name == "" {
		return ""
	}
	text := fmt.Sprintf("key %s of Secret %s in namespace %s", key, name, cmp.Or(namespace, e.Stack.Namespace))
	if r.Within != "" {
		text += " on remote " + r.Within
	}
	return fmt.Sprintf(format, tree.Clean(text))
}

// goneStep is the last resort of a deletion whose cluster is not coming back.
func (e *explainer) goneStep(p place, f Finding) []Step {
	r := e.remoteOf(p)
	if !e.deleting() || r == nil || f.Reason != abi.ReasonRemoteUnreachable && f.Reason != abi.ReasonRemotePending {
		return nil
	}
	text := "If the cluster is not coming back, say so: its records are dropped, and what may still run there is left."
	if f.Reason == abi.ReasonRemoteUnreachable {
		grace := v1alpha1.DefaultUnreachableGrace
		if r.UnreachableGrace != nil {
			grace = r.UnreachableGrace.Duration
		}
		if grace > 0 {
			text += fmt.Sprintf(" After %s of silence it counts as gone anyway.", tree.Age(grace))
		}
	}
	return []Step{{Text: text, Commands: []string{
		fmt.Sprintf("kubectl annotate stack -n %s %s %s=%s --overwrite", e.view.Namespace, e.view.Name, v1alpha1.GoneAnnotation, tree.Clean(r.Name)),
	}}}
}
