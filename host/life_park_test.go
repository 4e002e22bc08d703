package host_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
)

// undisturbed is how long a parked Stack is seen to be left alone. It is longer than any
// poll that an operator of this kind makes of what it waits for.
const undisturbed = 12 * time.Second

// lifeSecretAbsent: a Stack that needs a Secret waits for it, without a clock.
func lifeSecretAbsent(t *testing.T, r *rig) {
	l := &life{rig: r, namespace: r.tenant(t, "life-secret")}
	r.guestModule(t, "life-needs-secret", "")
	key, trace := l.start(t, "web", hostileStack("life-needs-secret", "secret"))
	stack := r.awaitStack(t, key, "False/UserActionRequired")
	require.Equal(t, abi.ReasonSecretMissing, stack.Status.Parked.Reason)

	// The last events of its arrival are over when it was quiet for a while.
	var before activity
	began := time.Now()
	eventually(t, "rest", func() (bool, string) {
		now := r.activity(t, l.namespace, "life-needs-secret")
		if now != before {
			before, began = now, time.Now()
		}
		return time.Since(began) > 2*time.Second, fmt.Sprint(now)
	})
	require.Positive(t, before.calls, "the counters see this Stack")
	require.Positive(t, before.requests)
	require.Positive(t, before.said)
	version := r.get(t, key).ResourceVersion
	eventually(t, "the window", func() (bool, string) {
		require.Equal(t, before, r.activity(t, l.namespace, "life-needs-secret"), "no wake, no module call and no request while it is parked")
		return time.Since(began) > undisturbed, ""
	})
	require.Equal(t, version, r.get(t, key).ResourceVersion)

	trace.mark(t, "the Secret is created")
	acted := time.Now()
	r.secret(t, l.namespace, "token", "key", []byte("ohnomysecret"))
	r.awaitStack(t, key, "True/Provisioned")
	t.Logf("revived after %s", time.Since(acted).Round(time.Millisecond))
	trace.mark(t, "it is deleted")
	l.end(t, key)
	trace.compare(t, "secret-absent")
}

// activity is what the operator did for one tenant.
type activity struct {
	// said is how often the log names the namespace, which it does for each look at a Stack.
	said, calls, requests int
}

// activity counts what is done for the Stacks of a namespace, which are alone in using a
// module.
func (r *rig) activity(t *testing.T, namespace, module string) activity {
	t.Helper()
	did := activity{calls: sum(t, r.collectors, "caisson_module_calls_total", "module", module), said: r.log.count(namespace)}
	for _, request := range r.requests.since(0) {
		if strings.Contains(request, namespace) {
			did.requests++
		}
	}
	return did
}
