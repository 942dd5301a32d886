//go:build !race && !asan

package decthings_test

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/decthings"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// endless is a stream of a header and then zeros without end.
type endless struct{ head []byte }

func (e *endless) Read(data []byte) (int, error) {
	n := copy(data, e.head)
	e.head = e.head[n:]
	clear(data[n:])
	return len(data), nil
}

// Go's allocator ends the process if there is no memory, so a child process runs with a memory limit.
func TestReaderSaysWhereThereIsNoMemoryForATensor(t *testing.T) {
	const child = "DECTHINGS_TEST_CHILD"
	if os.Getenv(child) == "" {
		command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=1m")
		command.Env = append(os.Environ(), child+"=1")
		output, err := command.CombinedOutput()
		assert.NoError(t, err, "%.2000s", output)
		return
	}
	text := must.Do(os.ReadFile("/proc/self/statm"))(t)
	var pages uint64
	must.Do(fmt.Sscan(string(text), &pages))(t)
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_AS, &limit))
	limit.Cur = pages*uint64(os.Getpagesize()) + 768<<20
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_AS, &limit))

	huge := []byte{255, 0, 0, 1, 0, 0, 0, 0, 0} // 2^40
	for _, head := range [][]byte{{7, 1}, {11, 0}} {
		r := decthings.NewReader(&endless{append(head, huge...)}, decthings.Py004)
		_, err := r.Next()
		assert.ErrorIs(t, err, dlpack.ErrMemory)
		assert.ErrorContains(t, err, "decthings: in the tensor at byte 0: ")
		_, again := r.Next()
		assert.Equal(t, err, again)
	}
}
