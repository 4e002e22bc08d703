package sandbox

import (
	"bufio"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestNext reads what is there, what comes while it is watched for and what comes later.
func TestNext(t *testing.T) {
	for _, prompt := range []bool{false, true} {
		for _, pause := range []time.Duration{-1, 0, watchTime / 2, 20 * watchTime} {
			out, in, err := os.Pipe()
			require.NoError(t, err)
			p := &process{out: out, reader: bufio.NewReader(out), limit: kib, prompt: prompt}
			written := make(chan error, 1)
			write := func() {
				if pause > 0 {
					time.Sleep(pause)
				}
				written <- errors.Join(writeFrame(in, frameResult, 1, []byte("one")), writeFrame(in, frameResult, 2, []byte("two")), in.Close())
			}
			if pause < 0 {
				write()
			} else {
				go write()
			}
			for id, want := range []string{"one", "two"} {
				f, err := p.next()
				require.NoError(t, err)
				require.Equal(t, uint32(id+1), f.call)
				require.Equal(t, want, string(f.payload))
				p.prompt = prompt
			}
			_, err = p.next()
			require.ErrorIs(t, err, io.EOF)
			require.NoError(t, <-written)
			require.NoError(t, out.Close())
			_, err = p.next()
			require.Error(t, err, "there is nothing to watch")
		}
	}
}
