package module

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

// outcome is what a guest answered, with the session in which it did.
type outcome struct {
	disposition abi.Disposition
	output      abi.Output
	session     *session
}

// call runs the guest once. An error is a fault, already mapped.
func (p *Provisioner) call(ctx context.Context, s scope.Scope, instance *Instance, input *abi.Input) (*outcome, error) {
	limits := instance.Limits.orDefaults()
	// The deadline of the pass may come first; the guest is told which one it is. The time
	// of the call itself is the runtime's to keep: it knows when the guest begins.
	budget := limits.Timeout
	if deadline, ok := ctx.Deadline(); ok {
		budget = min(budget, time.Until(deadline))
	}
	envelope, err := stamp(input, p.options.Clock(), budget)
	if err != nil {
		return nil, err
	}
	sess := p.newSession(s, instance, newSecretStore())
	code, raw, err := instance.Runtime.Call(ctx, s.Tenant(), input.Operation, envelope, sess.dispatch)
	sess.close()
	if err != nil {
		return nil, p.fault(ctx, sess, input, err)
	}
	p.options.Memo.succeeded(p.key())
	return p.answer(ctx, sess, input, code, raw)
}

// answer checks the result and the output of a call that ended well.
func (p *Provisioner) answer(ctx context.Context, sess *session, input *abi.Input, code int32, raw []byte) (*outcome, error) {
	output, err := decodeOutput(raw, sess.limits.OutputBytes)
	if err == nil {
		err = checkState(input, &output)
	}
	if err == nil {
		err = sess.secrets.checkSecrets(&output)
	}
	d := abi.Disposition(code)
	if !d.Valid() {
		return nil, p.report(ctx, provisioner.Retry(abi.ReasonModuleBadCode, joinWhy(d.String(), sess.secrets.redact(sanitise(output.Why)))))
	}
	var bad *outputError
	if errors.As(err, &bad) {
		return nil, p.report(ctx, provisioner.Retry(bad.reason, sess.secrets.redact(bad.why)))
	}
	if d != abi.OK && output.Reason == "" {
		// A verdict without a reason is not believed (DESIGN.md §6).
		d, output.Reason = abi.Retry, abi.ReasonUnspecified
	}
	return &outcome{disposition: d, output: output, session: sess}, nil
}

// faultReasons are the reasons that a runtime may give for a call that did not end well.
func faultReasons() []string {
	return []string{
		abi.ReasonTimeout, abi.ReasonCPUExceeded, abi.ReasonMemoryExceeded, abi.ReasonTableExceeded, abi.ReasonInputTooLarge, abi.ReasonOutputTooLarge,
		abi.ReasonHostCallsExceeded, abi.ReasonHostBytesExceeded, abi.ReasonModuleTrap, abi.ReasonModuleCrashed,
		abi.ReasonModuleFaulted, abi.ReasonModuleNotReady, abi.ReasonWorkerBusy,
	}
}

// busyPause is when a pass that found every worker busy asks again.
const busyPause = 5 * time.Second

// trapsUntilTerminal is after how many identical traps a module is taken to be unable to
// handle its input: DESIGN.md §5.
const trapsUntilTerminal = 5

// fault maps a fault to an error. A shutdown, or the end of the pass's own time, is no
// fault of the module.
func (p *Provisioner) fault(ctx context.Context, sess *session, input *abi.Input, err error) error {
	if interrupted := provisioner.Interrupted(ctx); interrupted != nil {
		return interrupted
	}
	var typed *provisioner.Error
	if errors.As(err, &typed) {
		return p.report(ctx, typed)
	}
	why := sanitise(sess.secrets.redact(err.Error()))
	var reasoned interface{ Reason() string }
	if !errors.As(err, &reasoned) && errors.Is(err, context.DeadlineExceeded) {
		// The guest was not even called: every worker was busy with others all the time.
		return p.report(ctx, provisioner.Retry(abi.ReasonDeadlineExceeded, why))
	}
	if !errors.As(err, &reasoned) || !slices.Contains(faultReasons(), reasoned.Reason()) {
		return p.report(ctx, provisioner.Retry(abi.ReasonUnexpected, why))
	}
	reason := reasoned.Reason()
	if reason == abi.ReasonWorkerBusy {
		// Nothing is wrong with the module, nor with what it was to do.
		return p.report(ctx, provisioner.Yield(reason, why).WithRetryAfter(busyPause))
	}
	if reason == abi.ReasonModuleTrap {
		trap := trapID{digest: sess.instance.Digest, generation: input.Owner.Generation, operation: input.Operation, text: trapText(err, why)}
		if p.options.Memo.trapped(p.key(), trap) >= trapsUntilTerminal {
			return p.report(ctx, provisioner.Terminal(reason, why))
		}
	}
	return p.report(ctx, provisioner.Retry(reason, why))
}

// trapText tells traps apart: by what the runtime has to say about that, or else by the
// first line, because the trace below may differ in addresses.
func trapText(err error, why string) string {
	var trap interface{ Trap() string }
	if errors.As(err, &trap) && trap.Trap() != "" {
		return trap.Trap()
	}
	text, _, _ := strings.Cut(why, "\n")
	return text
}

// conclude publishes what a valid answer brought and turns its disposition into an error.
func (p *Provisioner) conclude(ctx context.Context, instance *Instance, input *abi.Input, o *outcome) error {
	if err := p.publish(ctx, input, o.disposition, &o.output); err != nil {
		return err
	}
	if o.disposition == abi.OK {
		return nil
	}
	return p.report(ctx, resultError(instance, o))
}

func (p *Provisioner) publish(ctx context.Context, input *abi.Input, disposition abi.Disposition, output *abi.Output) error {
	if len(output.Facts) > 0 && p.options.Facts != nil {
		if err := p.options.Facts.Publish(ctx, p.options.Node.Path, output.Facts); err != nil {
			return wrap("publish the facts of "+p.options.Node.Path, err)
		}
	}
	if input.Operation == abi.ExportDeprovision && disposition == abi.OK {
		// What is left by a removal that is over goes with the node.
		return nil
	}
	before := keptBy(input)
	return p.save(ctx, before, before.after(output))
}

// report logs an error of the module once, where its operator looks for it.
func (p *Provisioner) report(ctx context.Context, e *provisioner.Error) error {
	logger := log.FromContext(ctx).WithValues("disposition", e.Disposition().String(), "reason", e.Reason(), "why", e.Why())
	if e.Disposition() == abi.Yield {
		logger.V(1).Info("the module yielded")
		return e
	}
	logger.Error(nil, "the module did not succeed")
	return e
}

func sameJSON(a, b json.RawMessage) bool {
	return string(compact(a)) == string(compact(b))
}
