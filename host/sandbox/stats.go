package sandbox

import "sync/atomic"

// Stats is what a sandbox has done since it was made, and has at the moment.
type Stats struct {
	// Workers is how many worker processes exist, IdleWorkers how many of them wait.
	Workers, IdleWorkers int
	// Compilations counts the modules that were compiled because their native code was not
	// in the cache, or was not to be trusted.
	Compilations uint64
	// Discarded counts native code in the cache that was not what its seal says.
	Discarded uint64
	// RestoredCalls and FreshCalls count the calls that returned: those that found an
	// instance whose state had been put back, and those that had one made for them. A
	// module that only ever has the second kind says why in [Module.FreshReason], or in
	// its initialiser uses functions that belong to a call.
	RestoredCalls, FreshCalls uint64
}

// counters are the counted part of [Stats].
type counters struct {
	compilations, discarded, restored, fresh atomic.Uint64
}

// Stats returns the current numbers.
func (s *Sandbox) Stats() Stats {
	return Stats{
		Workers: s.Workers(), IdleWorkers: s.pool.idleWorkers(),
		Compilations: s.counters.compilations.Load(), Discarded: s.counters.discarded.Load(),
		RestoredCalls: s.counters.restored.Load(), FreshCalls: s.counters.fresh.Load(),
	}
}

// MaxWorkers returns how many worker processes can exist at a time, which is how many calls
// can be under way.
func (s *Sandbox) MaxWorkers() int { return s.maxWorkers }

// Workers returns how many worker processes exist, idle ones included.
func (s *Sandbox) Workers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.processes)
}

// counted counts a call that returned.
func (s *Sandbox) counted(origin stateOrigin) {
	if origin == originRestored {
		s.counters.restored.Add(1)
		return
	}
	s.counters.fresh.Add(1)
}
