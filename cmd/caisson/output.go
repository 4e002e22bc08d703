package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// format is how a command prints what it found.
type format string

// The formats.
const (
	formatTable format = "table"
	formatText  format = "text"
	formatJSON  format = "json"
	formatYAML  format = "yaml"
)

// formatValue is the value of a flag -o.
type formatValue struct {
	into *format
	// people is the format that people read: a table, or text.
	people format
}

// String implements pflag.Value.
func (v formatValue) String() string {
	if v.into == nil {
		return ""
	}
	return string(*v.into)
}

// Type implements pflag.Value.
func (v formatValue) Type() string { return "format" }

// Set implements pflag.Value.
func (v formatValue) Set(s string) error {
	switch format(s) {
	case v.people, formatJSON, formatYAML:
		*v.into = format(s)
		return nil
	default:
		return fmt.Errorf("must be %s, json or yaml", v.people)
	}
}

// addFormatFlag gives a command the flag -o. people is the format that people read, and
// the default.
func addFormatFlag(cmd *cobra.Command, f *format, people format) {
	*f = people
	cmd.Flags().VarP(formatValue{into: f, people: people}, "output", "o", fmt.Sprintf("how to print: %s, json or yaml", people))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{string(people), "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
}

// print writes data in the format, with people for the one that they read.
func (f format) print(w io.Writer, data any, people func(io.Writer) error) error {
	switch f {
	case formatJSON:
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(data); err != nil {
			return fmt.Errorf("print as JSON: %w", err)
		}
		return nil
	case formatYAML:
		text, err := yaml.Marshal(data)
		if err != nil {
			return fmt.Errorf("print as YAML: %w", err)
		}
		_, err = w.Write(text)
		return err
	default:
		return people(w)
	}
}

// properties prints names and values in two columns.
type properties struct{ w *tabwriter.Writer }

func newProperties(w io.Writer) properties {
	return properties{w: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
}

// add prints one line, or one for each value; without values it prints a dash.
func (p properties) add(name string, values ...string) {
	if len(values) == 0 {
		values = []string{"-"}
	}
	for _, value := range values {
		_, _ = fmt.Fprintf(p.w, "%s\t%s\n", name, printable(value))
		name = ""
	}
}

func (p properties) flush() error { return p.w.Flush() }

// printable keeps names out of a stranger's module from moving the cursor or breaking a
// line of a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '\uFFFD'
	}, s)
}

// printableLines is printable for a text that may have lines, such as the end of a log. All
// but the first are indented, so that none can pass for a line of ours.
func printableLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = printable(line)
	}
	return strings.Join(lines, "\n  ")
}

// sizeText is a number of bytes for people and for calculators.
func sizeText(n int) string {
	switch {
	case n >= 1_000_000:
		return fmt.Sprintf("%.1f MB (%d bytes)", float64(n)/1e6, n)
	case n >= 1_000:
		return fmt.Sprintf("%.1f kB (%d bytes)", float64(n)/1e3, n)
	default:
		return fmt.Sprintf("%d bytes", n)
	}
}

// join is a list for one line.
func join[T ~string](items []T) string {
	if len(items) == 0 {
		return "none"
	}
	texts := make([]string, len(items))
	for i, item := range items {
		texts[i] = string(item)
	}
	return strings.Join(texts, ", ")
}
