package module

import (
	"sync"
	"time"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
)

// Memo remembers the last answer of each node, so that a pass in which nothing changed
// needs no module call, and counts the traps of each. It is shared by all nodes of a
// process and safe for concurrent use. A nil Memo remembers nothing.
type Memo struct {
	mu      sync.Mutex
	answers *recent[*memoEntry]
	traps   *recent[trapCount]
	waits   *recent[time.Time]
	stuck   *recent[time.Time]
	flights map[string]map[*memoToken]struct{}
}

// NewMemo returns a Memo for at most that many nodes, or 1; the ones that were not used
// for longest are forgotten first. What is kept of a node is its requests to the
// driver, usually some kilobytes and never more than 1.2 MiB.
func NewMemo(nodes int) *Memo {
	return &Memo{
		answers: newRecent[*memoEntry](nodes),
		traps:   newRecent[trapCount](nodes),
		waits:   newRecent[time.Time](nodes),
		stuck:   newRecent[time.Time](nodes),
		flights: map[string]map[*memoToken]struct{}{},
	}
}

// Forget drops the answers of an owner's nodes, those of a pass that is under way
// included: their modules are called again. The controller does so at a resync and when
// an object that the owner's modules read has changed. Counts of traps stay.
func (m *Memo) Forget(ownerUID string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answers.dropOwner(ownerUID)
	for token := range m.flights[ownerUID] {
		token.void = true
	}
}

// memoEntry is one remembered answer. It is not changed once it is stored.
type memoEntry struct {
	digest      string
	disposition abi.Disposition
	output      abi.Output
	calls       []appCall
	// secrets holds what the handles in calls stand for.
	secrets *secretStore
	// inputs are the Secrets that were read; a replay does not read them again.
	inputs []provisioner.Input
	// expires is when the module wanted to be called again; zero means never.
	expires time.Time
}

// memoToken is one pass over one node. It exists so that a pass that began before a
// Forget cannot store what it learned from the world before.
type memoToken struct {
	memo *Memo
	key  memoKey
	void bool
}

func (m *Memo) begin(key memoKey) *memoToken {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	token := &memoToken{memo: m, key: key}
	if m.flights[key.owner] == nil {
		m.flights[key.owner] = map[*memoToken]struct{}{}
	}
	m.flights[key.owner][token] = struct{}{}
	return token
}

func (t *memoToken) end() {
	if t == nil {
		return
	}
	t.memo.mu.Lock()
	defer t.memo.mu.Unlock()
	flights := t.memo.flights[t.key.owner]
	delete(flights, t)
	if len(flights) == 0 {
		delete(t.memo.flights, t.key.owner)
	}
}

// recall returns what is remembered of an equal envelope, or nil.
func (t *memoToken) recall(digest string) *memoEntry {
	if t == nil {
		return nil
	}
	t.memo.mu.Lock()
	defer t.memo.mu.Unlock()
	if entry, ok := t.memo.answers.get(t.key); ok && !t.void && entry.digest == digest {
		return entry
	}
	return nil
}

func (t *memoToken) store(entry *memoEntry) {
	if t == nil {
		return
	}
	t.memo.mu.Lock()
	defer t.memo.mu.Unlock()
	if !t.void {
		t.memo.answers.put(t.key, entry)
	}
}

// trapID tells traps apart; equal ones count up.
type trapID struct {
	digest     string
	generation int64
	operation  string
	text       string
}

type trapCount struct {
	id    trapID
	count int
}

// trapped counts a trap and returns how many equal ones there were in a row.
func (m *Memo) trapped(key memoKey, id trapID) int {
	if m == nil {
		return 1
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	last, _ := m.traps.get(key)
	if last.id != id {
		last = trapCount{id: id}
	}
	last.count++
	m.traps.put(key, last)
	return last.count
}

// succeeded ends a row of traps.
func (m *Memo) succeeded(key memoKey) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.traps.drop(key)
}

// unavailableSince returns since when a node has been without its module. Without a Memo
// that is for ever, so that nothing can wait for it.
func (m *Memo) unavailableSince(key memoKey, now time.Time) time.Time {
	if m == nil {
		return time.Time{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	since, ok := m.waits.get(key)
	if !ok {
		since = now
		m.waits.put(key, since)
	}
	return since
}

// available ends the wait of a node for its module.
func (m *Memo) available(key memoKey) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waits.drop(key)
}

// stuckSince returns since when a module has not come to an end on a cluster that is gone.
// Without a Memo that is only now, so that nothing is given up.
func (m *Memo) stuckSince(key memoKey, now time.Time) time.Time {
	if m == nil {
		return now
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	since, ok := m.stuck.get(key)
	if !ok {
		since = now
		m.stuck.put(key, since)
	}
	return since
}
