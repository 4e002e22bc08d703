package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/cmd/caisson/internal/explain"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// explainFlags are the flags of stack explain.
type explainFlags struct {
	cluster clusterFlags
	output  format
}

func newStackExplainCommand(e *environment) *cobra.Command {
	f := &explainFlags{}
	cmd := &cobra.Command{
		Use:   "explain NAME",
		Short: "Say in words why a Stack is not Available, and what would revive it",
		Long: `Say in words how a Stack is: why it is not Available, which node is the cause and what that
acts on, since when, what would revive it, what happens by itself, and what the other
nodes are doing.

With -o json or yaml the same is printed for machines: version (1; fields may be added to
a version, none goes away or changes its meaning), namespace, name, phase, available,
parked, headline, since (RFC 3339) and sinceSeconds, leaves, findings (path, kind, actsOn,
disposition, reason, says, since, sinceSeconds, steps), steps (text, commands), next,
others (disposition, nodes), modules (name, reason, says), retained, abandoned and unread.
The first finding is the one that decides. What is empty is left out. Decide by phase,
disposition and reason; the sentences are for people, and may be improved.`,
		Example: `  caisson stack explain platform -n platform
  caisson stack explain platform -n platform -o json | jq -r '.findings[0].reason'`,
		Args: exactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return stackExplain(cmd.Context(), e, f, args[0])
		},
	}
	f.cluster.add(cmd.Flags())
	addFormatFlag(cmd, &f.output, formatText)
	return cmd
}

func stackExplain(ctx context.Context, e *environment, f *explainFlags, name string) error {
	c, namespace, err := e.connect(f.cluster)
	if err != nil {
		return err
	}
	key := types.NamespacedName{Namespace: namespace, Name: name}
	cluster := explain.Cluster{Stack: &v1alpha1.Stack{}}
	if err := c.Get(ctx, key, cluster.Stack); err != nil {
		return absentOr(ctx, c, err, key)
	}
	if err := readCatalogue(ctx, c, &cluster); err != nil {
		return readFailure(err, key)
	}
	x := explain.Of(cluster, time.Now())
	return f.output.print(e.out, x, func(w io.Writer) error {
		for _, line := range explain.Lines(x, styleOf(e.out)) {
			if _, err := fmt.Fprintln(w, line); err != nil {
				return err
			}
		}
		return nil
	})
}

// readCatalogue reads what the Stack refers to. Whoever may read a Stack need not be
// allowed to read what belongs to the cluster; then less is said.
func readCatalogue(ctx context.Context, c client.Client, cluster *explain.Cluster) error {
	modules, applications := &v1alpha1.ModuleList{}, &v1alpha1.ApplicationList{}
	for _, list := range []struct {
		name string
		into client.ObjectList
	}{{"Modules", modules}, {"Applications", applications}} {
		switch err := c.List(ctx, list.into); {
		case apierrors.IsForbidden(err), meta.IsNoMatchError(err):
			cluster.Unread = append(cluster.Unread, list.name)
		case err != nil:
			return fmt.Errorf("list %s: %w", list.name, err)
		}
	}
	cluster.Modules, cluster.Applications = modules.Items, applications.Items
	return nil
}

// absentOr says which Stack may have been meant if there is none of the name.
func absentOr(ctx context.Context, c client.Client, err error, key types.NamespacedName) error {
	if !apierrors.IsNotFound(err) {
		return readFailure(err, key)
	}
	var names []string
	for _, s := range explain.Similar(key, stackNames(ctx, c, key.Namespace)) {
		names = append(names, s.String())
	}
	if len(names) == 0 {
		return readFailure(err, key)
	}
	return failure("did you mean "+strings.Join(names, ", or ")+"?", "there is no stack %s", key)
}

// stackNames are the Stacks that the person may list; those of the namespace if not all.
// This is for a hint only, so what cannot be read is not an error.
func stackNames(ctx context.Context, c client.Client, namespace string) []types.NamespacedName {
	for _, where := range []string{metav1.NamespaceAll, namespace} {
		list := &v1alpha1.StackList{}
		if err := c.List(ctx, list, client.InNamespace(where)); err != nil {
			continue
		}
		names := make([]types.NamespacedName, 0, len(list.Items))
		for i := range list.Items {
			names = append(names, client.ObjectKeyFromObject(&list.Items[i]))
		}
		return names
	}
	return nil
}
