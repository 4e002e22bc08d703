package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"
)

// tailBytes is how much of the log is shown when a cluster fails.
const tailBytes = 16 << 10

// openLog directs klog, which all of Kubernetes logs with, to the file errors.log in dir. Only errors are kept, and even those
// are no news for standard error: healthy controllers log as errors every conflict and every object that went away under them.
func openLog(dir string) (*os.File, error) {
	set := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(set)
	// Without "one_output" errors would also go where warnings go.
	for name, value := range map[string]string{"logtostderr": "false", "stderrthreshold": "FATAL", "one_output": "true"} {
		if err := set.Set(name, value); err != nil {
			return nil, fmt.Errorf("set up logging: %w", err)
		}
	}

	file, err := os.OpenFile(filepath.Join(dir, "errors.log"), os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create log: %w", err)
	}
	klog.SetOutput(io.Discard)
	klog.SetOutputBySeverity("ERROR", file)

	return file, nil
}

// copyTail copies the end of the log to output, for a cluster that failed: the reason is often only there.
func copyTail(output io.Writer, log *os.File) error {
	klog.Flush()

	info, err := log.Stat()
	if err != nil {
		return fmt.Errorf("inspect log: %w", err)
	}
	begin := max(info.Size()-tailBytes, 0)
	if _, err := io.Copy(output, io.NewSectionReader(log, begin, tailBytes)); err != nil {
		return fmt.Errorf("copy log: %w", err)
	}

	return nil
}

// redirectStderr sends what is written to standard error, by whatever part, to the log. kube-apiserver's etcd client logs to
// standard error with a logger of its own that nothing else reaches, most of all at a normal end. A crash of the program is still
// shown where it belongs. The returned function puts standard error back.
func redirectStderr(log *os.File) (func() error, error) {
	fd := int(os.Stderr.Fd())
	kept, err := unix.Dup(fd)
	if err != nil {
		return nil, fmt.Errorf("keep standard error: %w", err)
	}
	unix.CloseOnExec(kept)
	original := os.NewFile(uintptr(kept), "stderr")
	if err := debug.SetCrashOutput(original, debug.CrashOptions{}); err != nil {
		return nil, fmt.Errorf("direct crashes to standard error: %w", err)
	}
	if err := unix.Dup2(int(log.Fd()), fd); err != nil {
		return nil, fmt.Errorf("redirect standard error: %w", err)
	}

	return func() error {
		// Through the file, which would otherwise be collected, and its descriptor closed, before this runs.
		if err := unix.Dup2(int(original.Fd()), fd); err != nil {
			return fmt.Errorf("put standard error back: %w", err)
		}

		return nil
	}, nil
}
