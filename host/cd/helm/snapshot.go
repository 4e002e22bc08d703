package helm

import (
	"strings"
	"sync"
	"time"
)

// snapshotAge is how long a snapshot counts. Nobody else writes inventories, but people
// delete Secrets: within the interval of the resync that is noticed, and mended.
const snapshotAge = 10 * time.Minute

// holding is what an owner's Secret holds. It is not changed once it is remembered.
type holding struct {
	entries map[string]entry
	// broken says of which keys nothing is known because they cannot be read.
	broken map[string]error
}

func decodeHolding(data map[string][]byte) holding {
	held := holding{entries: map[string]entry{}, broken: map[string]error{}}
	for key, raw := range data {
		if !strings.HasPrefix(key, applicationPrefix) {
			continue
		}
		e, err := decodeEntry(raw)
		if err != nil {
			held.broken[key] = err
			continue
		}
		held.entries[key] = e
	}
	return held
}

// snapshots remembers what the Secrets of owners hold. What cannot be read is not
// remembered, so that an error lasts no longer than its cause. It is safe for concurrent
// use; the zero value with a clock is ready.
type snapshots struct {
	now func() time.Time

	mu    sync.Mutex
	known map[string]snapshot
	// swept is when those that count no more were dropped last.
	swept time.Time
}

type snapshot struct {
	held holding
	at   time.Time
}

func (s *snapshots) get(ownerUID string) (holding, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := s.known[ownerUID]
	if !ok || s.now().Sub(k.at) >= snapshotAge {
		return holding{}, false
	}
	return k.held, true
}

func (s *snapshots) set(ownerUID string, held holding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(held.broken) > 0 {
		delete(s.known, ownerUID)
		return
	}
	now := s.now()
	s.sweep(now)
	if s.known == nil {
		s.known = map[string]snapshot{}
	}
	s.known[ownerUID] = snapshot{held: held, at: now}
}

// sweep drops what does not count any more: owners that are gone would stay for ever. It
// looks at all of them, so it does that once in a while and not with every write. It needs
// the lock.
func (s *snapshots) sweep(now time.Time) {
	if now.Sub(s.swept) < snapshotAge {
		return
	}
	s.swept = now
	for uid, k := range s.known {
		if now.Sub(k.at) >= snapshotAge {
			delete(s.known, uid)
		}
	}
}

func (s *snapshots) drop(ownerUID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, ownerUID)
}
