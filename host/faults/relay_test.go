package faults

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// relayArgument makes the test binary a relay: it stands between the operator and its
// worker, and asks the test at each call what is to happen.
const relayArgument = "faults-relay"

// The frames of the worker's protocol that a relay has to know; see host/sandbox. With
// wrong ones a phase would have no module calls, which the test does not take.
const (
	frameHeader   = 9
	frameCall     = 7
	frameHostCall = 8
	frameResult   = 11
	frameFault    = 12
)

// runRelayIfRequested does not return in a relay. Its arguments are the socket of the
// test, the program of the worker, and what the operator gives a worker.
func runRelayIfRequested() {
	if len(os.Args) < 5 || os.Args[1] != relayArgument {
		return
	}
	if err := relay(os.Args[2], os.Args[3], os.Args[4:]); err != nil {
		fmt.Fprintln(os.Stderr, "relay:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// writeRelay writes the program that an operator of a lane starts as its worker. The
// environment of a worker is empty, so that everything is in the script.
func writeRelay(dir, socket, worker string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the test binary: %w", err)
	}
	path := filepath.Join(dir, "worker")
	script := fmt.Sprintf("#!/bin/sh\nexec '%s' %s '%s' '%s' \"$@\"\n", self, relayArgument, socket, worker)
	return path, os.WriteFile(path, []byte(script), 0o700) // It is to be run.
}

func relay(socket, worker string, args []string) error {
	// A child is told of the death of the thread that started it.
	runtime.LockOSThread()
	command := exec.Command(worker, args...) // It ends with the relay.
	command.Env, command.Dir, command.Stderr = []string{}, "/", os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := command.StdinPipe()
	if err != nil {
		return err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	die := func() {
		_ = command.Process.Kill()
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	fates := make(chan fault, 1)
	go func() {
		_ = frames(os.Stdin, in, func(typ byte, payload []byte) {
			if typ != frameCall {
				return
			}
			fate := ask(socket, payload)
			switch fate {
			case faultCrashBegin, faultKill:
				die()
			case faultHang:
				time.Sleep(time.Hour) // until the operator's patience ends
			default:
				fates <- fate
			}
		})
		_ = in.Close()
	}()
	fate := fault("")
	err = frames(out, os.Stdout, func(typ byte, _ []byte) {
		ends := typ == frameResult || typ == frameFault
		if !ends && typ != frameHostCall {
			return
		}
		select {
		case fate = <-fates:
		default:
		}
		if fate == faultCrashMiddle || ends && fate == faultCrashEnd {
			die()
		}
	})
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return command.Wait()
}

// frames copies frames, and shows each before it is passed on.
func frames(from io.Reader, to io.Writer, see func(typ byte, payload []byte)) error {
	reader := bufio.NewReader(from)
	for {
		header := make([]byte, frameHeader)
		if _, err := io.ReadFull(reader, header); err != nil {
			return err
		}
		frame := make([]byte, frameHeader+int(binary.LittleEndian.Uint32(header)))
		copy(frame, header)
		if _, err := io.ReadFull(reader, frame[frameHeader:]); err != nil {
			return err
		}
		see(header[4], frame[frameHeader:])
		if _, err := to.Write(frame); err != nil {
			return err
		}
	}
}

// ask tells the test of a call, and returns what is to happen.
func ask(socket string, payload []byte) fault {
	if len(payload) < 1 || len(payload) < 1+int(payload[0]) {
		return ""
	}
	name, input := string(payload[1:1+payload[0]]), payload[1+payload[0]:]
	var envelope struct {
		Node struct{ Path string }
	}
	_ = json.Unmarshal(input, &envelope) // describe has none
	if envelope.Node.Path == "" {
		return ""
	}
	conn, err := net.Dial("unix", socket) // The test answers at once.
	if err != nil {
		return ""
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn, "worker %s %s\n", name, envelope.Node.Path); err != nil {
		return ""
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return ""
	}
	return fault(strings.TrimSpace(answer))
}

// answerRelays answers the relays of a lane until the listener is closed. A call during
// which the operator dies or another one leads is answered when that has happened.
func (l *lane) answerRelays(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		l.work.Go(func() {
			defer func() { _ = conn.Close() }()
			call, err := bufio.NewReader(conn).ReadString('\n')
			if err != nil {
				return
			}
			f := l.script.note(strings.TrimSpace(call))
			switch f {
			case faultKill:
				l.killLeader()
			case faultLeader:
				l.changeLeader()()
			default:
			}
			_, _ = fmt.Fprintln(conn, string(f))
		})
	}
}
