//go:build cgo && !race && !asan

package tvmffi_test

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/tvmffi"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// Go's allocator ends the process if there is no memory, so a child process runs with a memory limit.
func TestCallSaysWhereThereIsNoMemoryForAString(t *testing.T) {
	need(t)
	const child = "TVMFFI_TEST_CHILD"
	if os.Getenv(child) == "" {
		command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=1m")
		command.Env = append(os.Environ(), child+"=1")
		output, err := command.CombinedOutput()
		assert.NoError(t, err, "%.2000s", output)
		return
	}
	const size = 512 << 20
	long := make([]byte, size)
	f := serve(t, func(a tvmffi.Args) (any, error) {
		if a.Bool(0) {
			return string(long[:8]), nil
		}
		return long, nil // TVM-FFI copies it
	})
	text := must.Do(os.ReadFile("/proc/self/statm"))(t)
	var pages uint64
	must.Do(fmt.Sscan(string(text), &pages))(t)
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_AS, &limit))
	limit.Cur = pages*uint64(os.Getpagesize()) + size + size/2
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_AS, &limit))
	must.Fail(f.Call(false))(t, dlpack.ErrMemory)
	_, err := f.Call(true)
	assert.NoError(t, err)
}
