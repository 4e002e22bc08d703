package demo

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/abi/wasmfile"
)

func TestPulse(t *testing.T) {
	healthy, err := pulse("0.1.0", nil)
	require.NoError(t, err)
	killer, err := pulse("0.2.0", growTable())
	require.NoError(t, err)
	for version, wasm := range map[string][]byte{"0.1.0": healthy, "0.2.0": killer} {
		require.NoError(t, wasmfile.Check(wasm))
		raw, found, err := wasmfile.Manifest(wasm)
		require.NoError(t, err)
		require.True(t, found)
		manifest := abi.Manifest{}
		require.NoError(t, json.Unmarshal(raw, &manifest))
		require.NoError(t, manifest.Validate())
		require.Equal(t, version, manifest.Version)
		require.Empty(t, manifest.Capabilities)

		imports, err := wasmfile.Imports(wasm)
		require.NoError(t, err)
		require.Len(t, imports, 3, "the Extism kernel, and nothing of ours")
		exports, err := wasmfile.Exports(wasm)
		require.NoError(t, err)
		names := make([]string, 0, len(exports))
		for _, e := range exports {
			names = append(names, e.Name)
		}
		require.Equal(t, []string{abi.ExportDescribe, abi.ExportProvision, abi.ExportDeprovision}, names)
	}
	require.Greater(t, len(killer), len(healthy))
}

func TestSigned(t *testing.T) {
	cases := map[int64][]byte{
		0: {0}, 1: {1}, 63: {0x3f}, 64: {0xc0, 0}, -1: {0x7f}, -64: {0x40}, -65: {0xbf, 0x7f}, 128: {0x80, 1}, -128: {0x80, 0x7f}, 624485: {0xe5, 0x8e, 0x26},
	}
	for v, want := range cases {
		t.Run(fmt.Sprint(v), func(t *testing.T) { require.Equal(t, want, signed(v), "as the Wasm specification encodes it") })
	}
}
