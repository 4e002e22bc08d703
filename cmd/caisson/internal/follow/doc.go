// Package follow watches one Stack and shows it as it changes: redrawn in place on a
// terminal, a line for each change elsewhere.
package follow
