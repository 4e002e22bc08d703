package main

import (
	"context"
	"fmt"
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

const (
	// troublemakers is how many Stacks misbehave in the same way: more than there are
	// passes or workers at a time.
	troublemakers = 12
	// troubled is the namespace of those Stacks.
	troubled = "scale-trouble"
	// takesHold is how long trouble is given to reach its full size.
	takesHold = 10 * time.Second
)

// unfairness is how long changes of Stacks that behave took while others did not.
type unfairness struct {
	Trouble string `json:"trouble"`
	// MedianSeconds and WorstSeconds are of the changes, the latter their 95th percentile.
	MedianSeconds float64 `json:"medianSeconds"`
	WorstSeconds  float64 `json:"p95Seconds"`
	// Ratio compares the medians with the one of the undisturbed changes before, and
	// WorstRatio the 95th percentiles.
	Ratio      float64 `json:"ratio"`
	WorstRatio float64 `json:"p95Ratio"`
}

// trouble is one way to misbehave.
type trouble struct {
	name string
	spec func(remote string) v1alpha1.StackSpec
}

func troubles() []trouble {
	of := func(module string) func(string) v1alpha1.StackSpec {
		return func(string) v1alpha1.StackSpec {
			return v1alpha1.StackSpec{
				ServiceAccountName: account, Root: "leaf",
				Provisioners: []v1alpha1.Node{{Name: "leaf", Module: &v1alpha1.ModuleNode{Ref: module}}},
			}
		}
	}
	return []trouble{
		{name: "a module that asks to be called again every second", spec: of(moduleWaits)},
		{name: "a module that kills its worker", spec: of(moduleCrashes)},
		{name: "a module that hangs until its deadline", spec: of(moduleHangs)},
		{name: "a remote that accepts connections and says nothing", spec: unreachable},
	}
}

// unreachable is a Stack on a remote with a kubeconfig in a Secret.
func unreachable(secret string) v1alpha1.StackSpec {
	return v1alpha1.StackSpec{
		ServiceAccountName: account, Root: "there",
		Remotes: []v1alpha1.Remote{{Name: "away", Owned: true, Teardown: "Discard", KubeconfigSecret: &v1alpha1.SecretKeyReference{Name: secret}}},
		Provisioners: []v1alpha1.Node{
			{Name: "there", RemoteCluster: &v1alpha1.RemoteClusterNode{Remote: "away", Child: "leaf"}},
			{Name: "leaf", Module: &v1alpha1.ModuleNode{Ref: moduleName(1)}},
		},
	}
}

// fairness makes one kind of trouble after the other, each on top of those before.
func (s *site) fairness(ctx context.Context, l load, say func(string, ...any)) ([]unfairness, error) {
	calm, err := s.changes(ctx, l, changesEach)
	if err != nil {
		return nil, err
	}
	found := []unfairness{compare("none", calm, calm)}
	if err := createTenant(ctx, s.admin, troubled); err != nil {
		return nil, err
	}
	for i, t := range troubles() {
		if err := s.trouble(ctx, i, t); err != nil {
			return nil, err
		}
		if err := pause(ctx, takesHold); err != nil {
			return nil, err
		}
		took, err := s.changes(ctx, l, changesEach)
		if err != nil {
			return nil, err
		}
		found = append(found, compare(fmt.Sprintf("%d Stacks with %s", troublemakers, t.name), calm, took))
		last := found[len(found)-1]
		say("          %s: median ×%.2f, p95 ×%.2f", last.Trouble, last.Ratio, last.WorstRatio)
	}
	return found, nil
}

func compare(name string, calm, took []time.Duration) unfairness {
	u := unfairness{Trouble: name, MedianSeconds: quantile(took, 0.5).Seconds(), WorstSeconds: quantile(took, 0.95).Seconds()}
	u.Ratio = u.MedianSeconds / quantile(calm, 0.5).Seconds()
	u.WorstRatio = u.WorstSeconds / quantile(calm, 0.95).Seconds()
	return u
}

// trouble creates the Stacks that misbehave in one way, each with a remote of its own if
// it is the remotes that do.
func (s *site) trouble(ctx context.Context, kind int, t trouble) error {
	for i := range troublemakers {
		name := fmt.Sprintf("trouble-%d-%d", kind, i)
		if err := s.silentRemote(ctx, name); err != nil {
			return err
		}
		stack := &v1alpha1.Stack{ObjectMeta: metav1.ObjectMeta{Namespace: troubled, Name: name}, Spec: t.spec(name)}
		if err := s.admin.Create(ctx, stack); err != nil {
			return fmt.Errorf("create a Stack that misbehaves: %w", err)
		}
	}
	return nil
}

// silentRemote makes a Secret with the kubeconfig of a server that accepts connections
// and never says a word, until the context ends.
func (s *site) silentRemote(ctx context.Context, name string) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for a silent remote: %w", err)
	}
	go func() {
		<-ctx.Done()
		_ = listener.Close()
	}()
	own, err := clientcmd.Load(s.cluster.Kubeconfig)
	if err != nil {
		return fmt.Errorf("read the certificate of the control plane")
	}
	config := clientcmdapi.NewConfig()
	for _, c := range own.Clusters {
		config.Clusters[name] = &clientcmdapi.Cluster{Server: "https://" + listener.Addr().String(), CertificateAuthorityData: c.CertificateAuthorityData}
	}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: name}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	value, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("write the kubeconfig of a silent remote: %w", err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: troubled, Name: name}, Data: map[string][]byte{"value": value}}
	if err := s.admin.Create(ctx, secret); err != nil {
		return fmt.Errorf("create the kubeconfig of a silent remote: %w", err)
	}
	return nil
}
