package sandbox

import (
	"bytes"
	"fmt"
	"io"
)

// logSink is where one call's lines go: to the parent, within the call's budget.
type logSink struct {
	out   io.Writer
	id    uint32
	lines int
	bytes int
	// maxLines and maxBytes are what there was of both.
	maxLines, maxBytes int
	// dropped counts the lines that were over the budget, tail keeps the last lines on
	// standard error whether they were over it or not.
	dropped int
	tail    []string
	stdout  lineWriter
	stderr  lineWriter
	err     error // the pipe's, which ends the worker
}

func newLogSink(out io.Writer, id uint32, lines, size int) *logSink {
	s := &logSink{out: out, id: id, lines: lines, bytes: size, maxLines: lines, maxBytes: size}
	s.stdout.line = func(line []byte) { s.send(streamStdout, levelInfo, line) }
	s.stderr.line = func(line []byte) {
		if len(s.tail) == maxTailLines {
			s.tail = append(s.tail[:0], s.tail[1:]...)
		}
		s.tail = append(s.tail, clean(string(line), maxLineBytes/8))
		s.send(streamStderr, levelWarn, line)
	}
	return s
}

// send passes one line on, shortened, or counts it as dropped.
func (s *logSink) send(stream logStream, level logLevel, line []byte) {
	if len(line) > maxLineBytes {
		line = line[:maxLineBytes]
	}
	if s.err != nil || s.lines == 0 || len(line) > s.bytes {
		s.dropped++
		return
	}
	s.lines--
	s.bytes -= len(line)
	s.err = writeFrame(s.out, frameLog, s.id, []byte{byte(stream), byte(level)}, line)
}

// close passes on what is left of unfinished lines, and one line about what was
// dropped.
func (s *logSink) close() {
	s.stdout.flush()
	s.stderr.flush()
	if s.dropped == 0 || s.err != nil {
		return
	}
	text := fmt.Appendf(nil, "%d lines over the limits of this call's log were dropped; it has %d of %d lines and %d of %d bytes",
		s.dropped, s.maxLines-s.lines, s.maxLines, s.maxBytes-s.bytes, s.maxBytes)
	s.err = writeFrame(s.out, frameLog, s.id, []byte{byte(streamHost), byte(levelWarn)}, text)
}

// lineWriter cuts a stream into lines of bounded length.
type lineWriter struct {
	line    func([]byte)
	pending []byte
}

// Write implements io.Writer. It never fails: a guest cannot learn what is logged.
func (w *lineWriter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		part := p
		if end >= 0 {
			part = p[:end]
		}
		if room := maxLineBytes - len(w.pending); len(part) > room {
			// What is over the length of a line becomes the next one.
			w.pending = append(w.pending, part[:room]...)
			p = p[room:]
			w.flush()
			continue
		}
		w.pending = append(w.pending, part...)
		if end < 0 {
			break
		}
		p = p[end+1:]
		w.flush()
	}
	return n, nil
}

// flush passes on the unfinished line, if there is one.
func (w *lineWriter) flush() {
	if len(w.pending) == 0 {
		return
	}
	w.line(w.pending)
	w.pending = w.pending[:0]
}
