package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// removal is what was seen of the registration while the Stack went.
type removal struct {
	sawRegistration bool
	// early says what was still there when the registration was seen to be gone.
	early []string
	err   error
}

func (r removal) check() error {
	switch {
	case r.err != nil:
		return r.err
	case !r.sawRegistration:
		return errors.New("the remote was not seen to be registered")
	case len(r.early) > 0:
		return fmt.Errorf("the remote was deregistered while these were still there: %s", strings.Join(r.early, ", "))
	default:
		return nil
	}
}

// watchRegistration looks at the registration of the remote and at what runs there until
// the context ends.
func (d *demo) watchRegistration(ctx context.Context) <-chan removal {
	result := make(chan removal, 1)
	go func() {
		var seen removal
		for ctx.Err() == nil {
			seen = d.lookOnce(ctx, seen)
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
		result <- seen
	}()
	return result
}

// lookOnce ends a look that has begun although nobody wants more of them: client-go says on
// standard error that an answer was cut off.
func (d *demo) lookOnce(ctx context.Context, seen removal) removal {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), soon)
	defer cancel()
	return d.lookAtRegistration(ctx, seen)
}

// lookAtRegistration asks for the registration first: if that is gone, whatever is still
// there afterwards was there too early.
func (d *demo) lookAtRegistration(ctx context.Context, seen removal) removal {
	kept := &corev1.SecretList{}
	if err := d.home.client.List(ctx, kept, client.InNamespace(operatorNamespace)); err != nil {
		return seen
	}
	for _, secret := range kept.Items {
		if strings.HasPrefix(secret.Name, registrationPrefix) {
			seen.sawRegistration = true
			return seen
		}
	}
	if workloads, err := d.workload.workloads(ctx); err == nil && seen.sawRegistration && len(workloads) > 0 {
		seen.early = workloads
	}
	return seen
}
