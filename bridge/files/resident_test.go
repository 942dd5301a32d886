//go:build linux && !race && !asan

package files_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/files"
	"github.com/dlbridge/dlbridge/bridge/safetensors"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// resident returns the resident memory of this process. A sanitizer would keep freed memory.
func resident(t testing.TB) int64 {
	var size, pages int64
	must.Do(fmt.Sscan(string(must.Do(os.ReadFile("/proc/self/statm"))(t)), &size, &pages))(t)
	return pages * int64(os.Getpagesize())
}

func TestAFileOf100GiBIsListedInFewBytes(t *testing.T) {
	const tensors, size = 100, 1 << 30
	var views []safetensors.View
	for i := range tensors {
		views = append(views, safetensors.View{Name: strings.Repeat("x", 1+i), DType: safetensors.F32, Shape: []int64{size / 4}})
	}
	head, _, err := safetensors.AppendHeader(nil, views, nil)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "model.safetensors")
	require.NoError(t, os.WriteFile(path, head, 0o600))
	require.NoError(t, os.Truncate(path, int64(len(head))+tensors*size))
	before := resident(t)
	f := must.Own(files.Open(path))(t)
	assert.Len(t, f.Entries(), tensors)
	if useTensor != nil {
		useTensor(t, f)
	}
	assert.Less(t, resident(t)-before, int64(10<<20))
}

func TestOpenTakesMemoryInProportionToTheDescriptions(t *testing.T) {
	names := make([]string, 20000)
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	text := contents(t, 0, names...)
	path := write(t, "model", text)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f := must.Own(files.Open(path))(t)
	runtime.ReadMemStats(&after)
	assert.Len(t, f.Entries(), len(names))
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64((16+32)*len(text)), "32 of them are for package safetensors")
}
