package frames_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dlbridge/dlbridge/dlpack/frames"
)

func TestOfLibrary(t *testing.T) {
	for _, c := range []struct {
		function, file string
		library        bool
	}{
		{"github.com/dlbridge/dlbridge/dlpack.New", "/src/dlpack/tensor.go", true},
		{"github.com/dlbridge/dlbridge/dlpack.Read[...]", "/src/dlpack/values.go", true},
		{"github.com/dlbridge/dlbridge/bridge/shm.lend", "/src/bridge/shm/lend.go", true},
		{"github.com/dlbridge/dlbridge/dlpack_test.TestNew", "/src/dlpack/tensor_test.go", false},
		{"github.com/dlbridge/dlbridge/examples/stream.load", "/src/examples/stream/main.go", false},
		{"github.com/dlbridge/dlbridgelike.load", "/src/like/load.go", false},
		{"main.main", "/src/main.go", false},
		{"runtime.main", "/go/src/runtime/proc.go", false},
	} {
		assert.Equal(t, c.library, frames.OfLibrary(runtime.Frame{Function: c.function, File: c.file}), c.function)
	}
}
