package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func main() {
	log.SetLogger(logr.Discard()) // Clients complain if there is none.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchscale:", err)
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	sizes    []load
	window   time.Duration
	deadline time.Duration
	fairness bool
	profiles string
	output   string
	file     string
}

func parseFlags(args []string, help io.Writer) (options, error) {
	var o options
	set := flag.NewFlagSet("benchscale", flag.ContinueOnError)
	set.SetOutput(help)
	sizes := set.String("n", "100,1000", "how many Stacks, one number for each size; 5000/0 are 5000 Stacks without applications")
	applications := set.Int("applications", 1, "how many of the seven leaves of a Stack are Helm applications, where a size does not say; the others are modules")
	set.DurationVar(&o.window, "window", time.Minute, "how long to watch the operator while nothing happens")
	set.DurationVar(&o.deadline, "deadline", 2*time.Hour, "how long one size may take to become Available")
	set.BoolVar(&o.fairness, "fairness", true, "measure at the end of the smallest size what the others notice of Stacks that misbehave")
	set.StringVar(&o.profiles, "profiles", "", "directory for profiles of the operator; none are taken if empty")
	set.StringVar(&o.output, "o", "markdown", "markdown or json")
	set.StringVar(&o.file, "write", "", "file that gets the report; standard output if empty")
	if err := set.Parse(args); err != nil {
		return o, err
	}
	for _, text := range strings.Split(*sizes, ",") {
		size, err := parseLoad(strings.TrimSpace(text), *applications)
		if err != nil {
			return o, fmt.Errorf("-n %s: %w", *sizes, err)
		}
		o.sizes = append(o.sizes, size)
	}
	if o.output != "markdown" && o.output != "json" {
		return o, fmt.Errorf("-o %s: it is markdown or json", o.output)
	}
	return o, nil
}

// parseLoad reads a number of Stacks, with a number of applications behind a slash.
func parseLoad(text string, applications int) (load, error) {
	number, rest, given := strings.Cut(text, "/")
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 {
		return load{}, fmt.Errorf("%q is not a number of Stacks", number)
	}
	if given {
		if applications, err = strconv.Atoi(rest); err != nil {
			return load{}, fmt.Errorf("%q is not a number of applications", rest)
		}
	}
	if applications < 0 || applications > leaves {
		return load{}, fmt.Errorf("%d applications: a Stack has %d leaves", applications, leaves)
	}
	return load{stacks: n, applications: applications}, nil
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	o, err := parseFlags(args, progress)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	say := func(format string, a ...any) { _, _ = fmt.Fprintf(progress, format+"\n", a...) }
	say("building the operator and the worker")
	p, err := build()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stock, err := openShelf(ctx, p.worker)
	if err != nil {
		return err
	}
	var found report
	for i, size := range o.sizes {
		say("%d Stacks with %d applications each", size.stacks, size.applications)
		if err := found.add(ctx, p, stock, size, o, say); err != nil {
			return fmt.Errorf("%d Stacks: %w", size.stacks, err)
		}
		o.fairness = false // once is enough
		// Each size takes minutes: what is known is not lost with the next one.
		if err := found.write(o, out, i == len(o.sizes)-1); err != nil {
			return err
		}
	}
	return nil
}

// write writes the report to the file at any time, and to out only when it is complete.
func (r *report) write(o options, out io.Writer, complete bool) error {
	var b bytes.Buffer
	render := r.markdown
	if o.output == "json" {
		render = r.json
	}
	if err := render(&b); err != nil {
		return err
	}
	switch {
	case o.file != "":
		return os.WriteFile(o.file, b.Bytes(), 0o644)
	case complete:
		_, err := out.Write(b.Bytes())
		return err
	default:
		return nil
	}
}

// add measures one size on a control plane of its own.
func (r *report) add(ctx context.Context, p programs, stock *shelf, l load, o options, say func(string, ...any)) error {
	ctx, cancel := context.WithTimeout(ctx, o.deadline)
	defer cancel()
	s, err := open(ctx, p, stock, o)
	if err != nil {
		return err
	}
	defer s.close()
	measured, err := measure(ctx, s, l, o, say)
	if err != nil {
		return err
	}
	r.Rows = append(r.Rows, measured)
	if !o.fairness {
		return nil
	}
	r.Fairness, err = s.fairness(ctx, l, say)
	return err
}
