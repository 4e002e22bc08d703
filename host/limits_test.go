package host

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/controller"
	"github.com/caisson-dev/caisson/host/sandbox"
)

// TestEveryLimitIsApplied: a field of the API that nobody reads would be a promise that
// nobody keeps.
func TestEveryLimitIsApplied(t *testing.T) {
	typ := reflect.TypeFor[v1alpha1.ModuleLimits]()
	limits := moduleLimits()
	require.Len(t, limits, typ.NumField())
	for i, l := range limits {
		name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
		require.Equal(t, name, l.name)
		var own v1alpha1.ModuleLimits
		_, asked := l.asked(&own)
		require.False(t, asked, name)
		const value = int64(7 * time.Minute)
		l.ask(&own, value)
		require.False(t, reflect.ValueOf(own).Field(i).IsNil(), "%s sets another field", name)
		got, asked := l.asked(&own)
		require.True(t, asked)
		require.Equal(t, value, got)
		var before, after terms
		l.write(&after, 3)
		require.EqualValues(t, 3, l.read(&after))
		require.NotEqual(t, before, after, name)
		for j, other := range limits {
			require.Equal(t, j == i, other.read(&after) != 0, "%s and %s are one", name, other.name)
		}
		parsed, err := l.parse(l.show(value))
		require.NoError(t, err)
		require.Equal(t, value, parsed)
	}
}

func TestParseModuleLimits(t *testing.T) {
	parsed, err := ParseModuleLimits(map[string]string{"memory": "1Gi", "timeout": "90s", "hostCalls": "5"})
	require.NoError(t, err)
	require.Equal(t, int64(1<<30), parsed.Memory.Value())
	require.Equal(t, 90*time.Second, parsed.Timeout.Duration)
	require.Equal(t, int64(5), *parsed.HostCalls)
	require.Nil(t, parsed.CPU)

	empty, err := ParseModuleLimits(nil)
	require.NoError(t, err)
	require.Equal(t, v1alpha1.ModuleLimits{}, empty)

	cases := map[string]struct{ reason, name, value, want string }{
		"Unknown":  {"a misspelled limit would be none", "Memory", "1Gi", `there is no limit "Memory"; there are timeout, cpu, memory, tableElements, input, `},
		"Unit":     {"a duration has one", "timeout", "90", "the limit timeout=90 cannot be read; give for instance timeout=1.073741824s"},
		"Quantity": {"of sizes there are those of Kubernetes", "memory", "1GB", "the limit memory=1GB cannot be read; give for instance memory=1Gi"},
		"Fraction": {"calls are whole", "hostCalls", "1.5", "hostCalls=1.5 cannot be read"},
		"Zero":     {"no limit is switched off", "cpu", "0s", "cpu=0s cannot be read"},
		"Negative": {"nor turned around", "logLines", "-1", "logLines=-1 cannot be read"},
		"Empty":    {"nor forgotten", "output", "", "output= cannot be read"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := ParseModuleLimits(map[string]string{c.name: c.value})
			require.ErrorContains(t, err, c.want, c.reason)
		})
	}
}

// parsed writes limits shortly.
func parsed(t *testing.T, text string) v1alpha1.ModuleLimits {
	t.Helper()
	values := map[string]string{}
	for _, part := range strings.Fields(text) {
		name, value, _ := strings.Cut(part, "=")
		values[name] = value
	}
	l, err := ParseModuleLimits(values)
	require.NoError(t, err)
	return l
}

func TestLimitPolicy(t *testing.T) {
	cases := map[string]struct {
		reason                  string
		base                    sandbox.Limits
		defaults, ceilings, own string
		memory                  int64
		timeout                 time.Duration
		concurrency             int
		message                 string
	}{
		"BuiltIn":        {reason: "nobody says anything", memory: 128 << 20, timeout: 30 * time.Second},
		"Program":        {reason: "whoever made the program does", base: sandbox.Limits{MemoryBytes: 1 << 20, Timeout: time.Second}, memory: 1 << 20, timeout: time.Second},
		"Default":        {reason: "whoever started it knows better", base: sandbox.Limits{MemoryBytes: 1 << 20}, defaults: "memory=2Mi", memory: 2 << 20, timeout: 30 * time.Second},
		"Own":            {reason: "and who wrote the Module best", defaults: "memory=2Mi timeout=2s", own: "memory=3Mi", memory: 3 << 20, timeout: 2 * time.Second},
		"UnderCeiling":   {reason: "near miss: as much as there may be", ceilings: "memory=3Mi", own: "memory=3Mi", memory: 3 << 20, timeout: 30 * time.Second},
		"LoweredBuiltIn": {reason: "nobody asked for what a ceiling takes away", ceilings: "memory=3Mi timeout=1s concurrency=2", memory: 3 << 20, timeout: time.Second, concurrency: 2},
		"NotRaised":      {reason: "a ceiling is no default", ceilings: "memory=1Gi timeout=1h", memory: 128 << 20, timeout: 30 * time.Second},
		"OverCeiling":    {reason: "both numbers and the remedy", ceilings: "memory=3Mi", own: "memory=4Mi", message: "spec.limits.memory is 4Mi, and this operator allows 3Mi at most; ask for less, or start the operator with higher --module-limit-ceilings"},
		"OverSeveral":    {reason: "all of them at once", ceilings: "memory=3Mi timeout=1s", own: "memory=4Mi timeout=2s", message: "spec.limits.timeout is 2s, and this operator allows 1s at most; spec.limits.memory is 4Mi, and this operator allows 3Mi at most; "},
		"Concurrency":    {reason: "not every limit is the sandbox's", own: "concurrency=3", memory: 128 << 20, timeout: 30 * time.Second, concurrency: 3},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			own := parsed(t, c.own)
			p := limitPolicy{base: c.base, defaults: parsed(t, c.defaults), ceilings: parsed(t, c.ceilings)}
			require.NoError(t, p.check())
			got, err := p.resolve(&own)
			if c.message != "" {
				var typed *controller.ModuleError
				require.ErrorAs(t, err, &typed, c.reason)
				require.Equal(t, v1alpha1.ModuleReasonLimitTooHigh, typed.Reason)
				require.Contains(t, typed.Message, c.message, c.reason)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.memory, got.MemoryBytes, c.reason)
			require.Equal(t, c.timeout, got.Timeout, c.reason)
			require.Equal(t, c.concurrency, got.Concurrency, c.reason)
			if c.own == "" {
				unset, err := p.resolve(nil)
				require.NoError(t, err)
				require.Equal(t, got, unset, "unset and empty are the same")
			}
		})
	}
	err := limitPolicy{defaults: parsed(t, "memory=2Gi"), ceilings: parsed(t, "memory=1Gi")}.check()
	require.EqualError(t, err, "limits of modules: the default of memory is 2Gi, and this operator allows 1Gi at most", "an operator that refuses every module does not start")
}

// TestLimitsThatGoTogether: what is raised has room.
func TestLimitsThatGoTogether(t *testing.T) {
	own := parsed(t, "input=100Mi")
	got, err := limitPolicy{}.resolve(&own)
	require.NoError(t, err)
	require.Equal(t, (100+4+32)<<20, got.ArenaBytes)
	got, err = limitPolicy{}.resolve(nil)
	require.NoError(t, err)
	require.Equal(t, sandbox.DefaultLimits().ArenaBytes, got.ArenaBytes)
}

func TestLimitsError(t *testing.T) {
	other := errors.New("the disk is full")
	require.Equal(t, other, limitsError(other))
	require.NoError(t, limitsError(nil))
}
