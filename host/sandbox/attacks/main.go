package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"syscall"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/caisson-dev/caisson/host/sandbox/internal/wasmtest"
)

// options are the command line.
type options struct {
	output string
	only   string
	write  string
	slow   bool
}

func main() {
	var o options
	flag.StringVar(&o.output, "o", "table", "table or json")
	flag.StringVar(&o.only, "only", "", "regular expression of the attacks to run; all if empty")
	flag.StringVar(&o.write, "write", "", "file that the report is written to as well")
	flag.BoolVar(&o.slow, "slow", true, "run the attacks that take minutes too")
	flag.Parse()
	log.SetLogger(logr.Discard()) // What the client has to say is in its errors.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "attacks:", err)
		stop()
		os.Exit(1) //nolint:gocritic // Nothing else is deferred.
	}
}

// run attacks, and prints the report on out and what happens meanwhile on progress. It
// fails if an attack is not contained or somebody else is hurt.
func run(ctx context.Context, o options, out, progress io.Writer) error {
	if o.output != "table" && o.output != "json" {
		return fmt.Errorf("unknown output %q; give table or json", o.output)
	}
	chosen, err := choose(o)
	if err != nil {
		return err
	}
	s, err := newSite(ctx, progress)
	if s != nil {
		defer s.close()
	}
	if err != nil {
		return err
	}
	r, err := s.attackWith(ctx, chosen, progress)
	if err != nil {
		return err
	}
	if o.write != "" {
		if err := os.WriteFile(o.write, []byte(r.markdown()), 0o644); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
	}
	if o.output == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(r)
	} else {
		_, err = io.WriteString(out, r.table())
	}
	return errors.Join(err, r.verdict())
}

func choose(o options) ([]wasmtest.Attack, error) {
	only, err := regexp.Compile(o.only)
	if err != nil {
		return nil, fmt.Errorf("read -only: %w", err)
	}
	var chosen []wasmtest.Attack
	for _, a := range wasmtest.Attacks() {
		if only.MatchString(a.Name) && (o.slow || !a.Slow) {
			chosen = append(chosen, a)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no attack matches %q", o.only)
	}
	return chosen, nil
}
