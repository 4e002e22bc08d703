package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/guest-sdk/guesttest"
)

func TestLife(t *testing.T) {
	h := guesttest.New(t, module)
	cfg := Config{
		Repo: "oci://registry.example/charts", Chart: "hello", Version: "1.0.0",
		Values: map[string]json.RawMessage{"replicas": json.RawMessage("2"), "affinity": json.RawMessage("null")},
	}

	require.Equal(t, "Yield application_installing", h.Provision(cfg).String())
	h.AppReady("")
	require.Equal(t, "OK", h.Provision(cfg).String())
	require.Equal(t, map[string]any{"replicas": 2.0, "affinity": nil}, h.AppValues(""))

	require.Equal(t, "Yield application_deleting", h.Deprovision(cfg).String())
	h.AppGone("")
	require.Equal(t, "OK", h.Deprovision(cfg).String())
	h.Golden("testdata/life.trace")
}

func TestConfig(t *testing.T) {
	whole := Config{Repo: "oci://registry.example/charts", Chart: "hello", Version: "1.0.0"}
	cases := map[string]struct {
		reason string
		change func(*Config)
	}{
		"Repo":    {reason: "a chart without a place cannot be found", change: func(c *Config) { c.Repo = "" }},
		"Chart":   {reason: "a place has many charts", change: func(c *Config) { c.Chart = "" }},
		"Version": {reason: "a chart has many versions", change: func(c *Config) { c.Version = "" }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cfg := whole
			c.change(&cfg)
			require.Equal(t, "Terminal invalid_config", guesttest.New(t, module).Provision(cfg).String(), c.reason)
		})
	}
}
