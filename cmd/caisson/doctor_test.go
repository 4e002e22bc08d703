package main

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/caisson-dev/caisson/cmd/caisson/internal/doctor"
	"github.com/caisson-dev/caisson/host/sandbox"
)

// confined is what a worker reports on a machine that lacks one layer.
func confined(string) ([]sandbox.Layer, error) {
	return []sandbox.Layer{{Name: sandbox.LayerLimits}, {Name: sandbox.LayerFiles, Missing: "the kernel has no Landlock"}}, nil
}

func TestDoctor(t *testing.T) {
	s := newSession(t)
	s.env.layers = confined
	s.connectTo(interceptor.Funcs{}, scene("available"))
	s.golden("doctor", s.ok("doctor"))
	s.golden("doctor-yaml", s.ok("doctor", "-o", "yaml"))
	var d diagnosis
	require.NoError(t, json.Unmarshal([]byte(s.ok("doctor", "--local", "-o", "json")), &d))
	require.Equal(t, doctor.Warning, d.Result)
	require.Len(t, d.Checks, 3)
}

func TestDoctorHelp(t *testing.T) {
	s := newSession(t)
	s.golden("help-doctor", s.ok("doctor", "--help"))
}

// What does not work makes the command fail, after it has printed everything.
func TestDoctorFails(t *testing.T) {
	s := newSession(t)
	s.env.layers = func(worker string) ([]sandbox.Layer, error) {
		require.Equal(t, "/nowhere", worker)
		return nil, errors.New("it cannot be started")
	}
	require.Contains(t, s.fails("doctor", "--local", "--worker", "/nowhere"), "something does not work; see what to do above")
	require.Contains(t, s.out.String(), "failed  ")
	require.Contains(t, s.out.String(), "* worker: name a caisson-worker")
}

// Whoever has no cluster is not told that something is wrong with it; whoever names one is.
func TestDoctorWithoutCluster(t *testing.T) {
	s := newSession(t)
	s.env.layers = confined
	s.env.connect = func(clusterFlags) (client.WithWatch, string, error) {
		return nil, "", failure("name a cluster", "there is no usable kubeconfig")
	}
	require.Contains(t, s.ok("doctor"), "skipped  there is no usable kubeconfig\n")
	s.fails("doctor", "--kubeconfig", "/nowhere")
	require.Contains(t, s.out.String(), "failed   there is no usable kubeconfig\n")
}

// TestDoctorOfThisMachine asks a real worker, which is this program again.
func TestDoctorOfThisMachine(t *testing.T) {
	layers, err := layersOf("")
	require.NoError(t, err)
	require.NotEmpty(t, layers)
	_, err = layersOf("/nowhere/caisson-worker")
	require.ErrorIs(t, err, sandbox.ErrWorkerUnusable)
}
