//go:build cgo && asan

package dlpack_test

import (
	"os"
	"os/exec"
	"strconv"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// The address sanitizer makes small values escape to the heap.
const asan = true

// Memory of New ends at its last element, and memory before the first element must not be written to.
func TestWritesOutsideOfNewMemoryAreReported(t *testing.T) {
	const child = "DLPACK_TEST_OFFSET"
	if offset, err := strconv.Atoi(os.Getenv(child)); err == nil {
		x := must.Own(dlpack.New(dlpack.Float32, 3))(t)
		values := must.Do(dlpack.Values[float32](x))(t)
		*(*float32)(unsafe.Add(unsafe.Pointer(&values[0]), offset)) = 1
		return
	}
	for offset, text := range map[int]string{8: "", 12: "AddressSanitizer: heap-buffer-overflow", -4: "AddressSanitizer: use-after-poison"} {
		command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		command.Env = append(os.Environ(), child+"="+strconv.Itoa(offset))
		out, err := command.CombinedOutput()
		if text == "" {
			assert.NoError(t, err, string(out))
			continue
		}
		require.Error(t, err, "a write at %d", offset)
		assert.Contains(t, string(out), text)
	}
}
