package helm

import "slices"

// queue hands out jobs to a bounded number of workers. The owner that has the fewest
// workers comes first, and none gets them all: with slow hooks, one could keep everybody
// else waiting for as long as hooks may run. It is not safe for concurrent use.
type queue struct {
	workers int
	waiting []*job
	// busy counts the workers of each owner, by UID.
	busy map[string]int
	// total is the sum of busy.
	total int
}

func newQueue(workers int) queue { return queue{workers: workers, busy: map[string]int{}} }

func (q *queue) add(j *job) { q.waiting = append(q.waiting, j) }

// take returns the job that is to run next and counts its worker as busy, or returns nil
// if no job may run.
func (q *queue) take() *job {
	if q.total >= q.workers {
		return nil
	}
	best := -1
	for i, j := range q.waiting {
		busy := q.busy[j.owner.UID]
		if busy >= q.share() {
			continue
		}
		if best < 0 || busy < q.busy[q.waiting[best].owner.UID] {
			best = i
		}
		if busy == 0 {
			break // Nobody has fewer. Thousands may wait after a restart, most of whom have none.
		}
	}
	if best < 0 {
		return nil
	}
	j := q.waiting[best]
	q.waiting = slices.Delete(q.waiting, best, best+1)
	q.busy[j.owner.UID]++
	q.total++
	return j
}

// share is how many workers one owner may have.
func (q *queue) share() int { return max(1, q.workers-1) }

// done gives back the worker of a job that was taken.
func (q *queue) done(j *job) {
	q.total--
	if q.busy[j.owner.UID]--; q.busy[j.owner.UID] == 0 {
		delete(q.busy, j.owner.UID)
	}
}

// clear returns the jobs that were never taken, and forgets them.
func (q *queue) clear() []*job {
	waiting := q.waiting
	q.waiting = nil
	return waiting
}
