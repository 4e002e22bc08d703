package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

const (
	// workerCPU is how long a worker may compute. The kernel kills one that computes for
	// longer than this and one call more.
	workerCPU = time.Hour
	// workerAge is how old a worker gets: it is replaced after the call in which it comes
	// of age. On all of its threads it can by then have computed for workerCPU and that
	// call, so the kernel never meets one that has only served for long.
	workerAge = workerCPU / workerThreads
)

// seconds rounds up.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// probe starts a worker to see whether it is one, and how well it can be confined here.
// What is missing is logged, once in the life of a sandbox.
func (s *Sandbox) probe() error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*s.startTimeout)
	defer cancel()
	p, err := s.launchProbe(ctx)
	if err != nil {
		return err
	}
	l := s.limits
	var layers []Layer
	err = p.under(ctx, func() (err error) {
		layers, err = p.confine(setup{
			CacheDir: s.cacheDir, MemoryBytes: l.MemoryBytes, NativeBytes: l.NativeBytes, ArenaBytes: l.ArenaBytes,
			CPUSeconds: seconds(workerCPU), NoNamespaces: s.noNamespaces,
		})
		return err
	})
	layers = append(layers, processorTime(p), processorPriority(p))
	if err != nil {
		exit := p.bury(deathGrace)
		words := firstLine(p.stderr.String())
		return fmt.Errorf("%w: %s: it could not confine itself (%s): %s: %w", ErrWorkerUnusable, s.command[0], exit, clean(words, maxDetailBytes), err)
	}
	p.bury(0)
	s.layers = layers
	s.yields = layers[len(layers)-1].Missing == ""
	for _, layer := range layers {
		if layer.Missing != "" {
			s.logger.LogAttrs(ctx, slog.LevelWarn, "workers lack a layer of their confinement; the others hold",
				slog.String("layer", layer.Name), slog.String("why", layer.Missing))
		}
	}
	return nil
}

// processorTime is the layer that needs nothing of the worker.
func processorTime(p *process) Layer {
	layer := Layer{Name: LayerProcessorTime}
	if _, err := p.cpuTime(); err != nil {
		layer.Missing = clean(err.Error(), maxDetailBytes)
	}
	return layer
}

// processorPriority tries what a call that computes for long needs: there and back.
func processorPriority(p *process) Layer {
	layer := Layer{Name: LayerProcessorPriority}
	if err := errors.Join(p.setImportance(givesWay), p.setImportance(asImportant)); err != nil {
		layer.Missing = clean(err.Error(), maxDetailBytes)
	}
	return layer
}

// launchProbe starts the first worker, in the best of the ways that the system allows.
func (s *Sandbox) launchProbe(ctx context.Context) (*process, error) {
	var whyNot error
	for {
		p, err := s.launch(ctx, s.limits, inWorker)
		var refused *startError
		if s.spawner.isolation == withoutNamespaces || !errors.As(err, &refused) {
			if err == nil && s.spawner.isolation == withoutNamespaces {
				s.noNamespaces = clean(fmt.Sprintf("the system does not let this process make them: %v", whyNot), maxDetailBytes)
			}
			return p, err
		}
		whyNot = refused.err
		s.logger.LogAttrs(ctx, slog.LevelDebug, "workers are not started in the best way", slog.Any("why", whyNot))
		s.spawner.isolation++
	}
}

// startError says that the system did not start a program.
type startError struct{ err error }

func (e *startError) Error() string { return e.err.Error() }
func (e *startError) Unwrap() error { return e.err }
