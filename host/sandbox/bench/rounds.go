package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/caisson-dev/caisson/host/sandbox"
	"github.com/caisson-dev/caisson/host/sandbox/bench/internal/leaf"
)

// row is one thing that is timed: do runs it n times.
type row struct {
	table, name string
	do          func(n int) error
	// n is how often it runs in each round; 0 means as often as fits into the slice.
	n int
}

// interleave times the rows in turns, each round in another order.
func interleave(ctx context.Context, set settings, r *results, rows []row) error {
	for i := range rows {
		r.declare(rows[i].table, rows[i].name)
		if rows[i].n > 0 {
			continue
		}
		began, runs := time.Now(), 0
		for time.Since(began) < set.slice || runs == 0 { // a warm-up, too
			if err := rows[i].do(1); err != nil {
				return fmt.Errorf("%s, %s: %w", rows[i].table, rows[i].name, err)
			}
			runs++
		}
		rows[i].n = runs
	}
	for round := range set.count {
		progress("round %d of %d", round+1, set.count)
		for _, i := range rand.Perm(len(rows)) {
			if err := ctx.Err(); err != nil {
				return err
			}
			began := time.Now()
			if err := rows[i].do(rows[i].n); err != nil {
				return fmt.Errorf("%s, %s: %w", rows[i].table, rows[i].name, err)
			}
			r.add(rows[i].table, rows[i].name, unitTime, float64(time.Since(began).Nanoseconds())/float64(rows[i].n))
		}
	}
	return nil
}

// measureCalls times one call in every size and way, after proving that all ways do the
// same work.
func measureCalls(ctx context.Context, set settings, a *artefacts, r *results) (err error) {
	s, err := openSandbox(a, sandbox.Options{MaxWorkers: 16, IdleTimeout: time.Hour})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	ways, err := allWays(ctx, a, s)
	defer func() { err = errors.Join(err, closeAll(ways)) }()
	if err != nil {
		return err
	}
	var rows []row
	for _, c := range leaf.Cases() {
		envelope, err := leaf.Envelope(c)
		if err != nil {
			return err
		}
		want, err := ways[0].call(ctx, envelope)
		if err != nil {
			return err
		}
		for _, w := range ways {
			before := asked.Load()
			got, err := w.call(ctx, envelope)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", w.name, c, err)
			}
			if calls := asked.Load() - before; calls != int64(c.Calls) || !leaf.Equal(want, got) {
				return fmt.Errorf("%s, %s does other work: %d host calls, output %s instead of %s", w.name, c, calls, got, want)
			}
			rows = append(rows, row{table: callTable(c), name: w.name, do: func(n int) error {
				for range n {
					if _, err := w.call(ctx, envelope); err != nil {
						return err
					}
				}
				return nil
			}})
		}
	}
	before := s.Stats()
	if err := interleave(ctx, set, r, rows); err != nil {
		return err
	}
	after := s.Stats()
	if after.FreshCalls == before.FreshCalls || after.RestoredCalls == before.RestoredCalls {
		return errors.New("the rows of fresh and restored instances are not what their names say")
	}
	return nil
}

// callTable names the table of a size.
func callTable(c leaf.Case) string {
	return fmt.Sprintf("One call: %d KB envelope, %d host calls", c.Kilobytes, c.Calls)
}
