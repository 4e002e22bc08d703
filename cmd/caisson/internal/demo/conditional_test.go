package demo

import (
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func TestOnlyGPU(t *testing.T) {
	spec, deployment := "~ home: Stack/platform/platform", "- workload: Deployment/gpu-operator/gpu-operator"
	cases := map[string]struct {
		reason string
		differ []string
		want   string
	}{
		"Switched":  {reason: "its objects, its release and its entry", differ: []string{spec, deployment, "- " + entryPrefix + "caisson-inventory-x/application.y", "- workload: Secret/gpu-operator/sh.helm.release.v1.gpu-operator-x.v1"}},
		"Nothing":   {reason: "the spec alone does nothing", differ: []string{spec}, want: "removed no Deployment"},
		"Neighbour": {reason: "another application was upgraded", differ: []string{spec, deployment, "~ workload: Deployment/kube-system/metrics-server"}, want: "should not have done this: ~ workload: Deployment/kube-system/metrics-server"},
		"Remade":    {reason: "another application was installed again", differ: []string{deployment, "! workload: Service/ingress-nginx/controller"}, want: "should not have done this: ! "},
		"Added":     {reason: "nothing is installed by switching off", differ: []string{deployment, "+ workload: Job/gpu-operator/cleanup"}, want: "should not have done this: + "},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := onlyGPU(tc.differ)
			if tc.want == "" {
				require.NoError(t, err, tc.reason)
				return
			}
			require.ErrorContains(t, err, tc.want, tc.reason)
		})
	}
}

func TestObjects(t *testing.T) {
	require.Equal(t, []string{"Deployment/a/b"}, objects([]string{"- workload: Deployment/a/b", "- home: Secret/c/d", "~ workload: Deployment/e/f"}))
}

func TestGPU(t *testing.T) {
	d := quietly(t, scene(t, "available"))
	stack, err := d.stack(t.Context(), platformKey())
	require.NoError(t, err)
	stack.Spec.Parameters = map[string]apiextensionsv1.JSON{"gpu": {Raw: []byte("true")}, "podCIDR": {Raw: []byte(`"10.0.0.0/8"`)}}
	require.NoError(t, d.home.client.Update(t.Context(), stack))
	require.NoError(t, d.gpu(t.Context(), "false"))
	require.NoError(t, d.podCIDR(t.Context(), "10.1.0.0/16"))
	require.NoError(t, d.scaleMetrics(t.Context(), 3))
	stack, err = d.stack(t.Context(), platformKey())
	require.NoError(t, err)
	require.JSONEq(t, "false", string(stack.Spec.Parameters["gpu"].Raw))
	require.JSONEq(t, `"10.1.0.0/16"`, string(stack.Spec.Parameters["podCIDR"].Raw))
	require.JSONEq(t, `{"replicas":3}`, string(metricsOf(stack).Values.Raw))
}
