package sandbox

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"time"
)

// fakePrefix begins the argument that makes the test binary a false worker.
const fakePrefix = "fake:"

// FakeWorker is the argument that makes the test binary a program that only pretends
// to be a worker, in the way that name says.
func FakeWorker(name string) string { return fakePrefix + name }

// RunFakeIfRequested turns the test binary into a false worker.
func RunFakeIfRequested() {
	if len(os.Args) > 2 && len(os.Args[1]) > len(fakePrefix) && os.Args[1][:len(fakePrefix)] == fakePrefix {
		if os.Args[2] == forkServerArgument {
			os.Exit(0) // which has its parent start the fake by itself
		}
		fake(os.Args[1][len(fakePrefix):])
		os.Exit(0)
	}
}

// fake plays one of the programs that a parent may find at the other end.
func fake(name string) {
	out, in := os.Stdout, bufio.NewReader(os.Stdin)
	say := func(typ frameType, id uint32, payload string) {
		if writeFrame(out, typ, id, []byte(payload)) != nil {
			os.Exit(0) // the parent is gone
		}
	}
	if play, known := systemFakes()[name]; known {
		play()
		return
	}
	switch name {
	case "silent":
		time.Sleep(time.Hour)
	case "attributes":
		fmt.Println(attributes())
		time.Sleep(time.Hour)
	case "exits":
		os.Exit(3)
	case "text":
		fmt.Println("usage: something-else [flags]")
		return
	case "garbage":
		_, _ = out.Write(bytes.Repeat([]byte{0xff}, 1000))
		time.Sleep(time.Hour)
	case "version":
		say(frameHello, 0, "caisson-worker-v9\n")
		time.Sleep(time.Hour)
	}
	say(frameHello, 0, helloText)
	// A worker from here on: it takes its setup and its module.
	if _, err := readFrame(in, maxPayloadBytes); err != nil {
		return
	}
	switch name {
	case "layers":
		say(frameHardened, 0, "not JSON")
		time.Sleep(time.Hour)
	case "unsetup":
		os.Exit(1)
	case "mute":
		time.Sleep(time.Hour)
	}
	say(frameHardened, 0, `[{"name":"landlock","missing":"it is\u001b[2J a fake"}]`)
	if name == "unread" {
		time.Sleep(time.Hour)
	}
	if _, err := readFrame(in, maxPayloadBytes); err != nil {
		return
	}
	switch name {
	case "verdict":
		say(frameResult, 0, "")
		return
	case "refuses":
		say(frameRejected, 0, "no\x1b[2J\nway")
		return
	case "dies-loading":
		fmt.Fprintln(os.Stderr, "fatal error: runtime: out of memory")
		os.Exit(2)
	}
	say(frameReady, 0, "")
	for {
		f, err := readFrame(in, maxPayloadBytes)
		if err != nil {
			return
		}
		if export, _, _ := unpackNamed(f.payload); export == "describe" {
			if name == "deaf-idle" {
				os.Stdin.Close()
			}
			say(frameResult, f.call, string(packResult(0, originFresh))+"{}")
			switch name {
			case "dies-idle":
				return
			case "deaf-idle":
				time.Sleep(time.Hour)
			}
			continue
		}
		misbehave(name, f.call, say)
	}
}

// attributes is what a process can see of how it was started.
func attributes() string {
	dir, _ := os.Getwd()
	text := fmt.Sprintf("pid %d, dir %s, environment %q, files", os.Getpid(), dir, os.Environ())
	for fd := range 64 {
		if target, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err == nil {
			text += fmt.Sprintf(" %d=%s", fd, target)
		}
	}
	return text
}

// misbehave answers a call of provision.
func misbehave(name string, id uint32, say func(frameType, uint32, string)) {
	code := string(packResult(0, originFresh))
	switch name {
	case "dies":
		fmt.Fprintln(os.Stderr, "panic: boom")
		os.Exit(4)
	case "dies-of-memory":
		fmt.Fprintln(os.Stderr, "runtime: out of memory: cannot allocate 123-byte block")
		os.Exit(2)
	case "closes":
		os.Stdout.Close()
		time.Sleep(time.Hour)
	case "other-call":
		say(frameResult, id+1, code)
	case "out-of-place":
		say(frameReady, id, "")
	case "short-result":
		say(frameResult, id, "x")
	case "large-frame":
		_, _ = os.Stdout.Write([]byte{255, 255, 255, 127, byte(frameResult), byte(id), 0, 0, 0})
	case "large-output":
		say(frameResult, id, code+string(make([]byte, 5000)))
	case "forged-timeout":
		say(frameFault, id, `{"kind":"timeout","text":"it was the network"}`)
	case "not-imported":
		say(frameHostCall, id, string(packNamed("secret_read"))+"{}")
	case "short-host-call":
		say(frameHostCall, id, "\xff")
	case "bad-log":
		say(frameLog, id, "\x09\x09")
	case "log-flood":
		for {
			say(frameLog, id, "\x00\x02spam")
		}
	case "stderr-flood":
		for {
			if _, err := io.WriteString(os.Stderr, "there is no end to what I have to say\n"); err != nil {
				os.Exit(0)
			}
		}
	case "hang":
		time.Sleep(time.Hour)
	default:
		say(frameResult, id, code+"{}")
	}
	time.Sleep(time.Hour)
}
