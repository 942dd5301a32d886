//go:build cgo

package dlpack_test

import (
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/testmode"
)

// The first exports make the block caches. They run at the same time, together with calls that look for the caches, in a separate process,
// for the race detector.
func TestFirstExportsAndReapsMeet(t *testing.T) {
	testmode.MeetsThreads(t)
	const child = "DLPACK_TEST_FIRST_EXPORT"
	if os.Getenv(child) == "" {
		command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		command.Env = append(os.Environ(), child+"=1")
		output, err := command.CombinedOutput()
		assert.NoError(t, err, "%s", output)
		return
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			tensor := fromSlice(t, []float32{1})
			m := export(t, tensor)
			tensor.Close()
			dlpack.Release(m)
		})
		all.Go(func() {
			dlpack.Reap()
			dlpack.ReadStats()
		})
	}
	all.Wait()
}
