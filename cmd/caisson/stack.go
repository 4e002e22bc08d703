package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

func newStackCommand(e *environment) *cobra.Command {
	cmd := group("stack", "Look at Stacks",
		"A Stack is a tree of provisioners. These commands show what it is doing.",
		`  caisson stack tree platform --namespace platform --watch
  caisson stack explain platform --namespace platform`)
	cmd.AddCommand(newStackTreeCommand(e), newStackExplainCommand(e))
	return cmd
}

// clusterFlags say which cluster, as kubectl's flags of the same names do.
type clusterFlags struct {
	kubeconfig string
	context    string
	namespace  string
}

func (c *clusterFlags) add(set *pflag.FlagSet) {
	set.StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig file; $KUBECONFIG or ~/.kube/config if not given")
	set.StringVar(&c.context, "context", "", "context of the kubeconfig; its current one if not given")
	set.StringVarP(&c.namespace, "namespace", "n", "", "namespace; that of the context if not given")
}

// connect returns a client and the namespace to use.
func connect(c clusterFlags) (client.WithWatch, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: c.context}
	overrides.Context.Namespace = c.namespace
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	const remedy = "name a cluster with --kubeconfig or $KUBECONFIG"
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, "", failure(remedy, "there is no usable kubeconfig: %w", err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, "", failure(remedy, "there is no usable kubeconfig: %w", err)
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, "", fmt.Errorf("make scheme: %w", err)
	}
	found, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, "", failure("check that the cluster runs and that the kubeconfig is current", "cannot connect to %s: %w", config.Host, err)
	}
	return found, namespace, nil
}
