package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/cmd/caisson/internal/follow"
	"github.com/caisson-dev/caisson/cmd/caisson/internal/tree"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// treeFlags are the flags of stack tree.
type treeFlags struct {
	cluster clusterFlags
	output  format
	watch   bool
	until   string
	timeout time.Duration
}

func newStackTreeCommand(e *environment) *cobra.Command {
	f := &treeFlags{}
	cmd := &cobra.Command{
		Use:   "tree NAME",
		Short: "Show the nodes of a Stack, and what each is doing",
		Long: `Show a Stack as the tree that it is, with the disposition of each node, why it is so and
since when. With --watch it is redrawn as it changes; where the output is no terminal, a
line is printed for each change.`,
		Example: `  caisson stack tree platform -n platform
  caisson stack tree platform -n platform --watch
  caisson stack tree platform -n platform --until available --timeout 10m
  caisson stack tree platform -n platform -o json`,
		Args: exactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error { return stackTree(cmd.Context(), e, f, args[0]) },
	}
	f.cluster.add(cmd.Flags())
	addFormatFlag(cmd, &f.output, formatTable)
	cmd.Flags().BoolVarP(&f.watch, "watch", "w", false, "keep showing until interrupted")
	cmd.Flags().StringVar(&f.until, "until", "", "keep showing until the Stack is available or gone")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 0, "give up after so long; 0 never does")
	return cmd
}

func stackTree(ctx context.Context, e *environment, f *treeFlags, name string) error {
	until := follow.Until(f.until)
	switch until {
	case follow.Forever, follow.Available, follow.Gone:
	default:
		return failure("give available or gone", "--until %q is nothing that can be waited for", f.until)
	}
	c, namespace, err := e.connect(f.cluster)
	if err != nil {
		return err
	}
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if f.watch || until != follow.Forever {
		return followStack(ctx, e, f, c, key, until)
	}
	stack := &v1alpha1.Stack{}
	if err := c.Get(ctx, key, stack); err != nil {
		return readFailure(err, key)
	}
	view := tree.Of(stack, time.Now())
	return f.output.print(e.out, view, func(w io.Writer) error {
		for _, line := range tree.Lines(view, styleOf(e.out)) {
			if _, err := fmt.Fprintln(w, line); err != nil {
				return err
			}
		}
		return nil
	})
}

func followStack(ctx context.Context, e *environment, f *treeFlags, c client.WithWatch, key types.NamespacedName, until follow.Until) error {
	if f.output != formatTable {
		return failure("leave out -o, or --watch and --until", "a Stack can be followed as a table only")
	}
	if f.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.timeout)
		defer cancel()
	}
	report, err := follow.Stack(ctx, c, key, until, newScreen(e.out, time.Now()))
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded) && until == follow.Forever:
		return nil // it was to be watched for so long
	case errors.Is(err, context.DeadlineExceeded):
		return failure("see what it says above", "stack %s is not %s after %s: it is %s", key, until, f.timeout, report.Last.Phase)
	case errors.Is(err, context.Canceled) && until == follow.Forever:
		return nil // that is how one ends it
	default:
		return readFailure(err, key)
	}
}

// readFailure says what is wrong in words that lead on.
func readFailure(err error, key types.NamespacedName) error {
	switch {
	case errors.Is(err, follow.ErrDeleted):
		return failure("apply it again", "stack %s was deleted", key)
	case errors.Is(err, follow.ErrNotFound), apierrors.IsNotFound(err):
		return failure("list them with: kubectl get stacks -A", "there is no stack %s", key)
	case meta.IsNoMatchError(err):
		return failure("install them with: kubectl apply -k deploy", "the cluster does not know Stacks")
	case apierrors.IsForbidden(err):
		return failure("ask for the right to get and watch stacks.caisson.dev", "you may not read stack %s", key)
	case apierrors.IsUnauthorized(err):
		return failure("log in again, or name another --kubeconfig or --context", "the cluster does not accept these credentials")
	default:
		return failure("check that the cluster runs and that the kubeconfig is current", "cannot read stack %s: %w", key, err)
	}
}

// newScreen returns the screen that fits where the output goes.
func newScreen(out io.Writer, start time.Time) follow.Screen {
	if width, _ := terminalSize(out); width == 0 {
		return follow.NewLineScreen(out, start)
	}
	return follow.NewLiveScreen(out, func() (int, int) { return terminalSize(out) }, styleOf(out))
}

// styleOf colours and wraps on terminals; it does not colour if the person does not want
// it (no-color.org).
func styleOf(out io.Writer) tree.Style {
	width, _ := terminalSize(out)
	return tree.Style{Coloured: width > 0 && os.Getenv("NO_COLOR") == "", Width: width}
}

// terminalSize is the number of columns and rows, or 0 where the output is no terminal
// that can be redrawn.
func terminalSize(out io.Writer) (width, height int) {
	file, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) || os.Getenv("TERM") == "dumb" {
		return 0, 0
	}
	width, height, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0, 0
	}
	return width, height
}
