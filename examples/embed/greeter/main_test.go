package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/guest-sdk/guesttest"
)

func TestLife(t *testing.T) {
	h := guesttest.New(t, module)
	require.Equal(t, "Terminal no_text", h.Provision(Config{}).String())
	require.Equal(t, "OK", h.Provision(Config{Text: "Hello."}).String())
	require.Equal(t, "OK", h.Provision(Config{Text: "Hello again."}).String())
	r := h.Deprovision(Config{})
	if r.String() == "Yield removing" {
		r = h.Deprovision(Config{})
	}
	require.Equal(t, "OK", r.String())
	require.Equal(t, "OK", h.Deprovision(Config{}).String(), "what is gone is gone")
}
