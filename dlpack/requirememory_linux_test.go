//go:build cgo && !race && !asan

package dlpack_test

import (
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// Many views of many dimensions take much more memory than the list of their sizes. Without the check, Go's allocator
// would end the process.
func TestSplitSaysWhereThereIsNoMemory(t *testing.T) {
	inChild(t, func(t *testing.T) {
		x := must.Own(dlpack.New(dlpack.Uint8, slices.Repeat([]int64{1}, dlpack.MaxRank)...))(t)
		sizes := make([]int64, 1<<20)
		sizes[0] = 1

		text := must.Do(os.ReadFile("/proc/self/statm"))(t)
		var pages uint64
		must.Do(fmt.Sscan(string(text), &pages))(t)
		var limit syscall.Rlimit
		require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_AS, &limit))
		limit.Cur = pages*uint64(os.Getpagesize()) + 1<<30
		require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_AS, &limit))
		must.Fail(x.Split(0, sizes...))(t, dlpack.ErrMemory)
	})
}
