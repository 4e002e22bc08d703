package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"
)

// quietFor is how long the operator must have asked nothing before it counts as
// settled: events are written and series of them closed in the background.
const quietFor = 8 * time.Second

// row is what one size has cost. Its JSON is what -o json prints.
type row struct {
	Stacks       int `json:"stacks"`
	Nodes        int `json:"nodes"`
	Applications int `json:"applications"`

	// Of bringing them up.
	ReadySeconds    float64 `json:"readySeconds"`
	UpCPUSeconds    float64 `json:"upCPUSeconds"`
	UpWorkerSeconds float64 `json:"upWorkerCPUSeconds"`
	UpPasses        float64 `json:"upPasses"`
	UpCalls         float64 `json:"upModuleCalls"`
	UpReads         float64 `json:"upReads"`
	UpWrites        float64 `json:"upWrites"`

	// Of the window in which nothing happens.
	WindowSeconds float64 `json:"windowSeconds"`
	IdleCPUShare  float64 `json:"idleCPUShare"`
	IdleWakes     float64 `json:"idleWakes"`
	IdlePasses    float64 `json:"idlePasses"`
	IdleCalls     float64 `json:"idleModuleCalls"`
	IdleReads     float64 `json:"idleReads"`
	IdleWrites    float64 `json:"idleWrites"`

	// At its end, and before there were any Stacks.
	EmptyBytes    float64 `json:"emptyResidentBytes"`
	ResidentBytes float64 `json:"residentBytes"`
	PeakBytes     float64 `json:"peakResidentBytes"`
	HeapBytes     float64 `json:"heapBytes"`
	Goroutines    float64 `json:"goroutines"`

	// OneMoreSeconds are those from a change of one Stack to its being Available, while
	// all others exist and do nothing; the median.
	OneMoreSeconds float64 `json:"oneMoreSeconds"`
}

// measure brings up one size and watches it.
func measure(ctx context.Context, s *site, l load, o options, say func(string, ...any)) (row, error) {
	r := row{Stacks: l.stacks, Nodes: leaves + 3, Applications: l.applications}
	empty, err := s.settle(ctx)
	if err != nil {
		return r, err
	}
	began := time.Now()
	if err := l.create(ctx, s.admin); err != nil {
		return r, err
	}
	say("%6.1f s  %d Stacks are created", time.Since(began).Seconds(), l.stacks)
	stopProfile := s.profileWhile(ctx, l, o, say)
	if err := l.awaitAvailable(ctx, s.admin, say); err != nil {
		return r, err
	}
	r.ReadySeconds = time.Since(began).Seconds()
	stopProfile()
	say("%6.1f s  all are Available", r.ReadySeconds)
	up, err := s.settle(ctx)
	if err != nil {
		return r, err
	}
	say("%6.1f s  the operator has settled; watching it for %s", time.Since(began).Seconds(), o.window)
	r.up(empty, up)
	if err := pause(ctx, o.window); err != nil {
		return r, err
	}
	idle, err := s.operator.sample(ctx)
	if err != nil {
		return r, err
	}
	r.idle(up, idle)
	if o.profiles != "" {
		if err := s.operator.writeProfile(ctx, "heap", filepath.Join(o.profiles, fmt.Sprintf("heap-%d.pprof", l.stacks))); err != nil {
			return r, err
		}
	}
	changes, err := s.changes(ctx, l, changesEach)
	if err != nil {
		return r, err
	}
	r.OneMoreSeconds = quantile(changes, 0.5).Seconds()
	return r, nil
}

// up and idle fill in what happened between two samples.
func (r *row) up(before, after sample) {
	d := after.minus(before.counts)
	r.UpCPUSeconds, r.UpWorkerSeconds = after.cpu-before.cpu, after.workers-before.workers
	r.UpPasses, r.UpCalls, r.UpReads, r.UpWrites = d.passes, d.calls, d.reads(), d.writes()
	r.EmptyBytes = before.resident
}

func (r *row) idle(before, after sample) {
	d := after.minus(before.counts)
	r.WindowSeconds = after.at.Sub(before.at).Seconds()
	r.IdleCPUShare = (after.cpu - before.cpu) / r.WindowSeconds
	r.IdleWakes, r.IdlePasses, r.IdleCalls, r.IdleReads, r.IdleWrites = d.wakes, d.passes, d.calls, d.reads(), d.writes()
	r.ResidentBytes, r.PeakBytes, r.HeapBytes, r.Goroutines = after.resident, after.peak, after.heap, after.goroutines
}

// settle waits until the operator has asked nothing and done no pass for a while.
func (s *site) settle(ctx context.Context) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	last, err := s.operator.sample(ctx)
	if err != nil {
		return last, err
	}
	for since := time.Now(); time.Since(since) < quietFor; {
		if err := pause(ctx, time.Second); err != nil {
			return last, fmt.Errorf("the operator did not settle: %w", err)
		}
		now, err := s.operator.sample(ctx)
		if err != nil {
			return last, err
		}
		if now.all() != last.all() || now.passes != last.passes {
			since = time.Now()
		}
		last = now
	}
	return last, nil
}

// profileWhile takes profiles of the CPU until it is told to stop, if any are wanted.
func (s *site) profileWhile(ctx context.Context, l load, o options, say func(string, ...any)) (stop func()) {
	if o.profiles == "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		path := filepath.Join(o.profiles, fmt.Sprintf("cpu-%d.pprof", l.stacks))
		if err := s.operator.writeProfile(ctx, "profile?seconds=20", path); err != nil && ctx.Err() == nil {
			say("no profile: %v", err)
		}
	}()
	return func() {
		// A profile that is half done is waited for: a size may be up before it is over.
		<-done
		cancel()
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
