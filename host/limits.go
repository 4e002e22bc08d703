package host

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/controller"
	"github.com/caisson-dev/caisson/host/sandbox"
)

// ceilingFlag is the flag of caisson-operator that sets [Options.LimitCeilings].
const ceilingFlag = "--module-limit-ceilings"

// terms are the limits that a module is loaded with.
type terms struct {
	sandbox.Limits
	// Concurrency is how many calls may be under way; 0 leaves it to the controller.
	Concurrency int
}

// limit is one field of [v1alpha1.ModuleLimits].
type limit struct {
	// name is the field's, below spec.limits.
	name string
	// asked returns what somebody has set, ask sets it.
	asked func(*v1alpha1.ModuleLimits) (int64, bool)
	ask   func(*v1alpha1.ModuleLimits, int64)
	// read and write are the field of the terms.
	read  func(*terms) int64
	write func(*terms, int64)
	parse func(string) (int64, error)
	show  func(int64) string
}

// moduleLimits lists the fields of [v1alpha1.ModuleLimits] in its own order.
func moduleLimits() []limit {
	return []limit{
		duration("timeout", func(l *v1alpha1.ModuleLimits) **metav1.Duration { return &l.Timeout }, func(t *terms) *time.Duration { return &t.Timeout }),
		duration("cpu", func(l *v1alpha1.ModuleLimits) **metav1.Duration { return &l.CPU }, func(t *terms) *time.Duration { return &t.CPU }),
		size("memory", func(l *v1alpha1.ModuleLimits) **resource.Quantity { return &l.Memory }, func(t *terms) *int64 { return &t.MemoryBytes }),
		count("tableElements", func(l *v1alpha1.ModuleLimits) **int64 { return &l.TableElements }, func(t *terms) *int { return &t.TableElements }),
		size("input", func(l *v1alpha1.ModuleLimits) **resource.Quantity { return &l.Input }, func(t *terms) *int { return &t.InputBytes }),
		size("output", func(l *v1alpha1.ModuleLimits) **resource.Quantity { return &l.Output }, func(t *terms) *int { return &t.OutputBytes }),
		count("hostCalls", func(l *v1alpha1.ModuleLimits) **int64 { return &l.HostCalls }, func(t *terms) *int { return &t.HostCalls }),
		size("hostCallSize", func(l *v1alpha1.ModuleLimits) **resource.Quantity { return &l.HostCallSize }, func(t *terms) *int { return &t.HostCallBytes }),
		size("hostCallTotal", func(l *v1alpha1.ModuleLimits) **resource.Quantity { return &l.HostCallTotal }, func(t *terms) *int { return &t.HostTotalBytes }),
		count("logLines", func(l *v1alpha1.ModuleLimits) **int64 { return &l.LogLines }, func(t *terms) *int { return &t.LogLines }),
		size("logSize", func(l *v1alpha1.ModuleLimits) **resource.Quantity { return &l.LogSize }, func(t *terms) *int { return &t.LogBytes }),
		count("concurrency", func(l *v1alpha1.ModuleLimits) **int64 { return &l.Concurrency }, func(t *terms) *int { return &t.Concurrency }),
	}
}

// of makes a limit out of a field of each type.
func of[Own any, Term ~int | ~int64](name string, own func(*v1alpha1.ModuleLimits) **Own, term func(*terms) *Term, value func(*Own) int64, made func(int64) Own) limit {
	return limit{
		name: name,
		asked: func(l *v1alpha1.ModuleLimits) (int64, bool) {
			if set := *own(l); set != nil {
				return value(set), true
			}
			return 0, false
		},
		ask:   func(l *v1alpha1.ModuleLimits, v int64) { m := made(v); *own(l) = &m },
		read:  func(t *terms) int64 { return int64(*term(t)) },
		write: func(t *terms, v int64) { *term(t) = Term(v) },
	}
}

func duration(name string, own func(*v1alpha1.ModuleLimits) **metav1.Duration, term func(*terms) *time.Duration) limit {
	l := of(name, own, term, func(d *metav1.Duration) int64 { return int64(d.Duration) }, func(v int64) metav1.Duration { return metav1.Duration{Duration: time.Duration(v)} })
	l.parse = func(text string) (int64, error) { d, err := time.ParseDuration(text); return int64(d), err }
	l.show = func(v int64) string { return time.Duration(v).String() }
	return l
}

func size[Term ~int | ~int64](name string, own func(*v1alpha1.ModuleLimits) **resource.Quantity, term func(*terms) *Term) limit {
	made := func(v int64) resource.Quantity { return *resource.NewQuantity(v, resource.BinarySI) }
	l := of(name, own, term, (*resource.Quantity).Value, made)
	l.parse = func(text string) (int64, error) { q, err := resource.ParseQuantity(text); return q.Value(), err }
	l.show = func(v int64) string { q := made(v); return q.String() }
	return l
}

func count(name string, own func(*v1alpha1.ModuleLimits) **int64, term func(*terms) *int) limit {
	l := of(name, own, term, func(n *int64) int64 { return *n }, func(v int64) int64 { return v })
	l.parse = func(text string) (int64, error) { return strconv.ParseInt(text, 10, 64) }
	l.show = func(v int64) string { return strconv.FormatInt(v, 10) }
	return l
}

// ParseModuleLimits reads limits that are written as name and value, in the words of
// spec.limits of a Module: memory=256Mi, timeout=1m, hostCalls=2000. The error names what
// cannot be read, and the names that there are.
func ParseModuleLimits(values map[string]string) (v1alpha1.ModuleLimits, error) {
	var parsed v1alpha1.ModuleLimits
	known, names := map[string]limit{}, []string{}
	for _, l := range moduleLimits() {
		known[l.name] = l
		names = append(names, l.name)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		l, ok := known[name]
		if !ok {
			return parsed, fmt.Errorf("there is no limit %q; there are %s", name, strings.Join(names, ", "))
		}
		v, err := l.parse(values[name])
		if err != nil || v <= 0 {
			return parsed, fmt.Errorf("the limit %s=%s cannot be read; give for instance %s=%s", name, values[name], name, l.show(1<<30))
		}
		l.ask(&parsed, v)
	}
	return parsed, nil
}

// limitPolicy is what an operator says of the limits of modules.
type limitPolicy struct {
	// base is what the program was made with, defaults what the operator was started with.
	base     sandbox.Limits
	defaults v1alpha1.ModuleLimits
	ceilings v1alpha1.ModuleLimits
}

// check reports defaults that are above their own ceilings.
func (p limitPolicy) check() error {
	if over := p.over(&p.defaults, "the default of "); len(over) > 0 {
		return fmt.Errorf("limits of modules: %s", strings.Join(over, "; "))
	}
	return nil
}

// over lists what is asked for above a ceiling, with both numbers.
func (p limitPolicy) over(asking *v1alpha1.ModuleLimits, prefix string) []string {
	var over []string
	for _, l := range moduleLimits() {
		v, asked := l.asked(asking)
		if ceiling, capped := l.asked(&p.ceilings); asked && capped && v > ceiling {
			over = append(over, fmt.Sprintf("%s%s is %s, and this operator allows %s at most", prefix, l.name, l.show(v), l.show(ceiling)))
		}
	}
	return over
}

// resolve returns the terms of a module whose own limits may be nil. Where nobody asked for
// anything, a ceiling lowers what there is; what a Module asks for is never lowered
// silently: above a ceiling it is a [*controller.ModuleError] with both numbers.
func (p limitPolicy) resolve(own *v1alpha1.ModuleLimits) (terms, error) {
	if own == nil {
		own = &v1alpha1.ModuleLimits{}
	}
	t, built := terms{Limits: p.base}, terms{Limits: sandbox.DefaultLimits()}
	if over := p.over(own, "spec.limits."); len(over) > 0 {
		return t, &controller.ModuleError{
			Reason:  v1alpha1.ModuleReasonLimitTooHigh,
			Message: strings.Join(over, "; ") + "; ask for less, or start the operator with higher " + ceilingFlag,
		}
	}
	for _, l := range moduleLimits() {
		v, asked := l.asked(own)
		if !asked {
			v, asked = l.asked(&p.defaults)
		}
		if !asked {
			v = cmp.Or(l.read(&t), l.read(&built))
			// Without any number the controller decides, which a ceiling bounds as well.
			if ceiling, capped := l.asked(&p.ceilings); capped && (v == 0 || v > ceiling) {
				v = ceiling
			}
		}
		l.write(&t, v)
	}
	// Input, output and what the host answers lie in the blocks of a call, so that raising
	// one of them must not end in blocks that do not hold it.
	t.ArenaBytes = max(cmp.Or(t.ArenaBytes, built.ArenaBytes), t.InputBytes+t.OutputBytes+t.HostTotalBytes)
	return t, nil
}

// limitsError puts limits that cannot be honoured into the words of a condition.
func limitsError(err error) error {
	if errors.Is(err, sandbox.ErrInvalidLimits) {
		return &controller.ModuleError{Reason: v1alpha1.ModuleReasonInvalidLimits, Message: err.Error()}
	}
	return err
}
