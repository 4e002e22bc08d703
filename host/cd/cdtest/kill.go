package cdtest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/provisioner"
)

// maxWrites bounds the search for the end of a process's writes: none of the sequences
// below takes half as many.
const maxWrites = 40

func killCases() map[string]func(*testing.T, *fixture) {
	return map[string]func(*testing.T, *fixture){
		"KilledAtAnyWriteOfAnInstall/B14": killedInstalling,
		"KilledAtAnyWriteOfAnUpgrade/B14": killedUpgrading,
		"KilledAtAnyWriteOfARemoval/B15":  killedRemoving,
		"KilledInstallingThenRemoved/B14": killedInstallingThenRemoved,
	}
}

// killEverywhere repeats a sequence, each time with a tenant of its own: before makes
// the tenant's state, then a process does step and is killed after its first write, its
// second, and so on until it survives; each time a new process goes on with after. It
// says how long the slowest of these took.
func (f *fixture) killEverywhere(t *testing.T, before, step, after func(*testing.T, *fixture)) {
	t.Helper()
	var slowest time.Duration
	for nth := 1; ; nth++ {
		require.Less(t, nth, maxWrites, "it writes without end")
		c := &fixture{Env: f.Env, harness: f.harness, tenant: f.NewTenant(t), restart: f.restart}
		c.driver, c.home = f.restart(), c.tenant.Scope()
		before(t, c)
		process := f.NewProcess(t, KilledAtWrite(nth))
		c.driver, c.home = f.harness.New(t, process.Operator, f.Namespace), process.Scope(t, c.tenant)
		c.process = process
		step(t, c)
		survived := !process.Dead()
		process.Kill()

		c.driver, c.home, c.process = f.restart(), c.tenant.Scope(), nil
		started := time.Now()
		after(t, c)
		slowest = max(slowest, time.Since(started))
		if f.harness.Check != nil {
			f.harness.Check(t, f.Env, c.tenant)
		}
		if survived {
			require.Greater(t, nth, 1, "nothing was written")
			t.Logf("killed at each of %d writes; the slowest new process needed %s", nth-1, slowest.Round(time.Millisecond))
			return
		}
	}
}

// untilKilled repeats a step until its process is dead or has done it.
func (f *fixture) untilKilled(t *testing.T, step func() error) {
	t.Helper()
	Until(t, step, func(o provisioner.Outcome) bool { return o.OK() || f.process.Dead() })
}

// requireConverged makes the application ready, and requires that there is one of it and
// that nothing is left to do.
func (f *fixture) requireConverged(t *testing.T, app *cd.Application) {
	t.Helper()
	Ready(t, f.ensure(t.Context(), app))
	require.Equal(t, app.Version, f.tenant.Settings(t)["version"])
	listed, err := f.driver.List(t.Context(), f.tenant.Owner())
	require.NoError(t, err)
	require.Equal(t, []cd.Installed{{
		ID: app.ID, ScopeID: f.home.ID(), Release: app.Release, Namespace: app.Namespace, Version: app.Version,
		Retained: []string{"ConfigMap/app-kept"},
	}}, listed, "what is recorded is what an undisturbed process records")
	writes := f.Writes()
	require.NoError(t, f.ensure(t.Context(), app)())
	require.Equal(t, writes, f.Writes(), "nothing is left to do")
}

func killedInstalling(t *testing.T, f *fixture) {
	f.killEverywhere(t, func(*testing.T, *fixture) {},
		func(t *testing.T, c *fixture) { c.untilKilled(t, c.ensure(t.Context(), c.tenant.Application())) },
		func(t *testing.T, c *fixture) { c.requireConverged(t, c.tenant.Application()) })
}

func killedUpgrading(t *testing.T, f *fixture) {
	upgraded := func(c *fixture) *cd.Application {
		app := c.tenant.Application()
		app.Version = "2.0.0"
		return app
	}
	f.killEverywhere(t,
		func(t *testing.T, c *fixture) { Ready(t, c.ensure(t.Context(), c.tenant.Application())) },
		func(t *testing.T, c *fixture) { c.untilKilled(t, c.ensure(t.Context(), upgraded(c))) },
		func(t *testing.T, c *fixture) { c.requireConverged(t, upgraded(c)) })
}

func killedRemoving(t *testing.T, f *fixture) {
	f.killEverywhere(t,
		func(t *testing.T, c *fixture) { Ready(t, c.ensure(t.Context(), c.tenant.Application())) },
		func(t *testing.T, c *fixture) { c.untilKilled(t, c.remove(t.Context(), c.tenant.Application())) },
		func(t *testing.T, c *fixture) {
			Ready(t, c.remove(t.Context(), c.tenant.Application()))
			c.requireRemoved(t)
		})
}

func killedInstallingThenRemoved(t *testing.T, f *fixture) {
	f.killEverywhere(t, func(*testing.T, *fixture) {},
		func(t *testing.T, c *fixture) { c.untilKilled(t, c.ensure(t.Context(), c.tenant.Application())) },
		func(t *testing.T, c *fixture) {
			Ready(t, c.remove(t.Context(), c.tenant.Application()))
			c.requireRemoved(t)
		})
}

// requireRemoved requires that nothing is left, neither in the cluster nor on record.
func (f *fixture) requireRemoved(t *testing.T) {
	t.Helper()
	require.Nil(t, f.tenant.Settings(t), "left in %s", f.tenant.Namespace)
	f.requireNothingListed(t)
}
