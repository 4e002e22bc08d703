package sandbox

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMapsUser(t *testing.T) {
	cases := map[string]struct {
		reason, table string
		want          bool
	}{
		"Everybody": {"a machine", "         0          0 4294967295\n", true},
		"Container": {"a container of 65536 users", "0 100000 65536\n", true},
		"Root":      {"a namespace of one", "0 1000 1\n", false},
		"Two":       {"a worker's", "0 0 1\n65533 65533 1\n", true},
		"Below":     {"near miss", "0 0 65533\n", false},
		"Above":     {"near miss", "65534 65534 100\n", false},
		"Empty":     {"nothing was mapped", "", false},
		"Garbage":   {"no table", "x y z\n65533 65533\n", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, mapsUser([]byte(c.table), workerUser), c.reason)
		})
	}
}
