//go:build cgo

package dlpack_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/testmode"
)

// runSelf runs tests of this program in another process. A shell runs script first and then becomes that process. environment
// is added to the environment of this process.
func runSelf(t *testing.T, script, environment, tests string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	// The process has no time limit, because the limit's timer would start Go's poller.
	command := exec.CommandContext(ctx, "sh", "-c", script+`exec "$0" "$@"`, os.Args[0], "-test.run="+tests, "-test.timeout=0", "-test.v",
		fmt.Sprintf("-test.short=%t", testing.Short()))
	command.Env = append(os.Environ(), environment)
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), "--- PASS", "no test has run")
}

func TestTensorsWorkInLimitedEnvironments(t *testing.T) {
	t.Parallel()
	const tests = "^Test(Import|Lent|Legacy|Close|Copy|Release|Forgotten|Chains|Convert|TensorsOutlive)"
	for _, s := range []struct{ name, script, environment string }{
		{"one processor", "", "GOMAXPROCS=1"},
		{"no preemption by signals", "", "GODEBUG=asyncpreemptoff=1"},
		{"stacks of 256 KiB", "ulimit -s 256 && ", ""}, // Go's own threads have such a stack for calls into C
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			runSelf(t, s.script, s.environment, tests)
		})
	}
}

// freeDescriptors is the environment variable with the number of file descriptors that the child process may still open.
const freeDescriptors = "DLPACK_FREE_DESCRIPTORS"

// The first export opens a file descriptor by which deleters wake Go, and starts Go's poller, which ends the process if it
// gets no descriptor. Without free descriptors the library must start neither; memory is then unpinned by collections.
func TestExportsWorkWithoutDescriptors(t *testing.T) {
	text, given := os.LookupEnv(freeDescriptors)
	if !given {
		for _, free := range []string{"0", "1", "2", "3", "4", "100"} {
			t.Run(free, func(t *testing.T) {
				t.Parallel()
				runSelf(t, "", freeDescriptors+"="+free, "^"+"TestExportsWorkWithoutDescriptors"+"$")
			})
		}
		return
	}
	free := must.Do(strconv.Atoi(text))(t)
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	next := must.Do(syscall.Dup(0))(t)
	require.NoError(t, syscall.Close(next))
	few := syscall.Rlimit{Cur: uint64(next + free), Max: limit.Max}
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few))
	defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit) // the sanitizers open files at the end

	tensor := fromSlice(t, make([]float32, 1<<20))
	var exports []unsafe.Pointer
	for range 100 {
		exports = append(exports, export(t, tensor))
	}
	require.NoError(t, tensor.Close())
	dlpacktest.DeleteOnThreads(exports, 2)
	dlpack.Reap()
	assert.Zero(t, dlpack.Pinned())
}

// Goroutines that are locked to a thread make tensors and end together with the thread. Other goroutines close the tensors.
func TestTensorsOutliveLockedThreads(t *testing.T) {
	testmode.MeetsThreads(t)
	dlpacktest.CheckLeaks(t)
	loan := dlpacktest.Lend(t, 64)
	made := make(chan unsafe.Pointer, 64)
	var group sync.WaitGroup
	for range cap(made) {
		group.Add(1)
		go func() {
			defer group.Done()
			runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
			lent, err := dlpack.Lend(loan.Data(), 64, false, loan.Release(), loan.Context())
			if !assert.NoError(t, err) {
				return
			}
			m, err := lent.Export()
			assert.NoError(t, err)
			assert.NoError(t, lent.Close())
			tensor, err := dlpack.Import(m)
			if !assert.NoError(t, err) {
				return
			}
			m, err = tensor.Export()
			assert.NoError(t, err)
			assert.NoError(t, tensor.Close())
			made <- m
		}()
	}
	group.Wait()
	close(made)
	for m := range made {
		dlpack.Release(m)
	}
	assert.Equal(t, cap(made), loan.Releases())
}
