package faults

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// phase is one step in the life of the reference Stack.
type phase string

const (
	phaseUp     phase = "up"
	phaseChange phase = "change"
	phaseDown   phase = "down"
)

func phases() []phase { return []phase{phaseUp, phaseChange, phaseDown} }

// point is where a fault can be placed: the nth time in a phase that something is asked
// for. Counting by what is asked for keeps calls that run side by side apart.
type point struct {
	call string
	nth  int
}

func (p point) String() string { return fmt.Sprintf("%s #%d", p.call, p.nth) }

// of says of which kind the call is.
func (p point) of() target {
	cluster, rest, _ := strings.Cut(p.call, " ")
	method, _, _ := strings.Cut(rest, " ")
	switch {
	case cluster == "worker":
		return targetModule
	case method == http.MethodGet:
		return targetRead
	default:
		return targetWrite
	}
}

// target is a kind of call.
type target string

const (
	targetRead   target = "read"
	targetWrite  target = "write"
	targetModule target = "module call"
)

// fault is what happens at a point.
type fault string

const (
	// faultError answers 500 and does nothing.
	faultError fault = "error 500"
	// faultLost does what was asked for and answers 500.
	faultLost fault = "error 500 after it was done"
	// faultConflict answers 409 and does nothing.
	faultConflict fault = "conflict"
	// faultSilence does not answer, and then breaks the connection.
	faultSilence fault = "timeout"
	// faultCut does what was asked for and breaks the connection.
	faultCut fault = "timeout after it was done"
	// faultKill kills the operator with nothing done, faultKillAfter with everything done.
	faultKill      fault = "kill"
	faultKillAfter fault = "kill after it was done"
	// faultLeader lets another replica lead while the request is under way.
	faultLeader fault = "another leader"
	// faultCrashBegin kills the worker when it is called, faultCrashMiddle when it calls
	// back, faultCrashEnd when it has an answer.
	faultCrashBegin  fault = "worker killed at the beginning"
	faultCrashMiddle fault = "worker killed when it calls back"
	faultCrashEnd    fault = "worker killed with its answer"
	// faultHang lets the worker hang until its deadline.
	faultHang fault = "worker hangs"
)

// faultsAt lists what can happen to a kind of call.
func faultsAt(t target) []fault {
	switch t {
	case targetModule:
		return []fault{faultCrashBegin, faultCrashMiddle, faultCrashEnd, faultHang, faultKill, faultLeader}
	case targetWrite:
		return []fault{faultError, faultLost, faultConflict, faultSilence, faultCut, faultKill, faultKillAfter, faultLeader}
	default:
		return []fault{faultError, faultSilence, faultKill, faultLeader}
	}
}

// injection is a fault at a point.
type injection struct {
	phase phase
	point point
	fault fault
}

func (i injection) String() string {
	return fmt.Sprintf("%s: %s at %s", i.phase, i.fault, i.point)
}

// script counts the calls of a phase, and says at which one the fault is to happen.
type script struct {
	mu     sync.Mutex
	seen   map[string]int
	points []point
	next   *injection
	hit    bool
}

// begin starts a phase with at most one fault.
func (s *script) begin(i *injection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen, s.points, s.next, s.hit = map[string]int{}, nil, i, false
}

// note counts a call and returns the fault that is to happen at it, or nothing.
func (s *script) note(call string) fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		return ""
	}
	s.seen[call]++
	p := point{call: call, nth: s.seen[call]}
	s.points = append(s.points, p)
	if s.next == nil || s.hit || s.next.point != p {
		return ""
	}
	s.hit = true
	return s.next.fault
}

// end returns what was asked for in the phase, and whether the fault happened.
func (s *script) end() ([]point, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.points), s.hit
}

var (
	// hashes are the parts of names that differ from run to run.
	hashes = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{8,}`)
	// laneNames are those of the namespaces of a lane.
	laneNames = regexp.MustCompile(`lane-[a-z0-9-]+`)
)

// callOf names a request, the same in every run; false says that it is not of the Stack:
// watches stay open, and leases are renewed by the clock.
func callOf(cluster string, r *http.Request) (string, bool) {
	query := r.URL.Query()
	if query.Get("watch") != "" || strings.Contains(r.URL.Path, "/leases") {
		return "", false
	}
	path := laneNames.ReplaceAllString(hashes.ReplaceAllString(r.URL.Path, "*"), "LANE")
	what := cluster + " " + r.Method + " " + path
	if query.Get("dryRun") != "" {
		what += " (dry run)"
	}
	return what, true
}
