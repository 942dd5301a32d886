//go:build linux && !race && !asan

package files_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/files"
	"github.com/dlbridge/dlbridge/bridge/safetensors"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// resident returns the memory of this process that is in use. A sanitizer would keep memory that was freed.
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
