package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/caisson-dev/caisson/host/scope"
)

// maxLines is what an operator like this one may take: it is what embedding promises.
const maxLines = 150

func TestLines(t *testing.T) {
	source, err := os.ReadFile("main.go")
	require.NoError(t, err)
	require.Less(t, bytes.Count(source, []byte("\n")), maxLines)
}

// TestQuota: the native leaf needs nothing of the host but a scope.
func TestQuota(t *testing.T) {
	c := fake.NewClientBuilder().Build()
	ctx := scope.NewContext(t.Context(), scope.NewHome(scope.Owner{Namespace: "team-a"}, &rest.Config{}, c))
	key := client.ObjectKey{Namespace: "team-a", Name: "environment"}
	made := &corev1.ResourceQuota{}

	require.NoError(t, (&quota{pods: 3}).Deprovision(ctx), "what was never made is gone")
	for _, pods := range []int64{3, 3, 5} {
		require.NoError(t, (&quota{pods: pods}).Provision(ctx))
		require.NoError(t, c.Get(ctx, key, made))
		require.Equal(t, pods, made.Spec.Hard.Pods().Value())
	}
	require.NoError(t, (&quota{}).Deprovision(ctx))
	require.True(t, apierrors.IsNotFound(c.Get(ctx, key, made)))
	require.NoError(t, (&quota{}).Deprovision(ctx), "and again")
}
