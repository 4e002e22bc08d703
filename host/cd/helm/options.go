package helm

import (
	"errors"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Options say what a driver is made of. Namespace, Client and CacheDir are required.
type Options struct {
	// Namespace is the operator's own. Inventories and cluster registrations are
	// Secrets in it, out of the reach of tenants.
	Namespace string
	// Client reaches the operator's own cluster with the operator's own rights. It must
	// read Secrets from the API server and not from a cache: the inventory is the truth.
	Client client.Client
	// CacheDir is where chart archives are kept, by digest, and which archive a version
	// last was. It is the only place on disk that the driver uses. If it outlives the
	// process, so does what is known of repositories that are away.
	CacheDir string
	// PlainHTTP lists hosts, as host or host:port, that charts may be fetched from
	// without TLS. Loopback addresses need no listing.
	PlainHTTP []string
	// Logger receives what operators need to know; the zero value discards it.
	Logger logr.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Workers is how many actions run at the same time; 0 means 4. Unless it is the only
	// one, one of them is left for others than an owner that has many to do.
	Workers int
	// Timeouts bounds everything that is waited for.
	Timeouts Timeouts
	// FieldManager owns what is applied; "" means "caisson". Helm keeps it in a variable
	// of its package, so all drivers of a process share one.
	FieldManager string
}

// Timeouts are the driver's deadlines. A zero field means the default in brackets.
type Timeouts struct {
	// Progress is how long an application may take to become ready, and how long a
	// failing action is repeated, before it is reported as UserActionRequired (10 min).
	Progress time.Duration
	// Action is how long hooks may run, and the age from which a pending revision that
	// no action of ours made is taken over (5 min). One of ours is taken over at once.
	Action time.Duration
	// Degraded is how long failed workloads may take to recover by themselves before
	// they are reported as UserActionRequired (2 min).
	Degraded time.Duration
	// Removal is how long objects may take to disappear before they are reported as
	// UserActionRequired (15 min).
	Removal time.Duration
	// Recheck is the pause after which a blocked application is looked at again though
	// nothing was seen to change (10 min, jittered).
	Recheck time.Duration
	// Pull is how long the download of one chart may take (1 min).
	Pull time.Duration
	// Resolve is how long a chart repository may take to say what a version is, if the
	// archive that it had for it is cached (10 s). One that hangs would otherwise keep a
	// worker for the time of Pull, at every action.
	Resolve time.Duration
	// Request is how long one request to an API server may take inside an action
	// (1 min), so that a server that never answers cannot keep a worker.
	Request time.Duration
}

// defaultWorkers keeps a burst of applications from loading charts and rendering them
// all at once: an action holds a chart and its rendered manifest in memory.
const defaultWorkers = 4

// defaultFieldManager is the name that managedFields show.
const defaultFieldManager = "caisson"

func (o Options) withDefaults() (Options, error) {
	if o.Namespace == "" || o.Client == nil || o.CacheDir == "" {
		return o, errors.New("helm driver needs a namespace, a client and a cache directory")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Workers <= 0 {
		o.Workers = defaultWorkers
	}
	if o.FieldManager == "" {
		o.FieldManager = defaultFieldManager
	}
	if o.Logger.GetSink() == nil {
		o.Logger = logr.Discard()
	}
	o.Timeouts = o.Timeouts.withDefaults()
	return o, nil
}

func (t Timeouts) withDefaults() Timeouts {
	t.Progress = orDefault(t.Progress, 10*time.Minute)
	t.Action = orDefault(t.Action, 5*time.Minute)
	t.Degraded = orDefault(t.Degraded, 2*time.Minute)
	t.Removal = orDefault(t.Removal, 15*time.Minute)
	t.Recheck = orDefault(t.Recheck, 10*time.Minute)
	t.Pull = orDefault(t.Pull, time.Minute)
	t.Resolve = orDefault(t.Resolve, 10*time.Second)
	t.Request = orDefault(t.Request, time.Minute)
	return t
}

func orDefault(d, def time.Duration) time.Duration {
	if d <= 0 {
		return def
	}
	return d
}
