package guest

import (
	"strconv"
	"strings"
)

// Level is the level of a log line.
type Level int

// The levels, numbered as in Extism. Its level 0, trace, is left out: go-pdk 1.1.3 sends
// it to the host as an error.
const (
	LevelDebug Level = iota + 1
	LevelInfo
	LevelWarn
	LevelError
)

// String returns the level in lower case.
func (l Level) String() string {
	switch l {
	case LevelDebug:
		return "debug"
	case LevelInfo:
		return "info"
	case LevelWarn:
		return "warn"
	case LevelError:
		return "error"
	default:
		return "level" + strconv.Itoa(int(l))
	}
}

// Log writes to the operator's log. Its methods take pairs of a key and a value after the
// message. Nothing that is logged reaches users; secrets do not belong into it.
type Log struct{ call *Call }

// Log returns the log of this call.
func (c *Call) Log() Log { return Log{call: c} }

// Debug logs what helps to follow a call step by step.
func (l Log) Debug(message string, pairs ...string) { l.write(LevelDebug, message, pairs) }

// Info logs what an operator wants to know of a normal call.
func (l Log) Info(message string, pairs ...string) { l.write(LevelInfo, message, pairs) }

// Warn logs what is odd but does not stop the module.
func (l Log) Warn(message string, pairs ...string) { l.write(LevelWarn, message, pairs) }

// Error logs a failure that the handler does not return.
func (l Log) Error(message string, pairs ...string) { l.write(LevelError, message, pairs) }

func (l Log) write(level Level, message string, pairs []string) {
	line := logLine(message, pairs)
	if l.call.host != nil {
		l.call.host.Log(level, line)
		return
	}
	hostLog(level, line)
}

// logLine is the message and key="value" for each pair; quoting keeps it to one line.
func logLine(message string, pairs []string) string {
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(message, "\n", " "))
	for i := 0; i < len(pairs); i += 2 {
		value := "(missing)"
		if i+1 < len(pairs) {
			value = pairs[i+1]
		}
		b.WriteByte(' ')
		b.WriteString(pairs[i])
		b.WriteByte('=')
		b.WriteString(strconv.Quote(value))
	}
	return b.String()
}
