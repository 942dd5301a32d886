//go:build cgo

package repotest

import (
	"sync/atomic"
	"testing"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/background"
)

var forgotten atomic.Int64

// Forgets tells dlpacktest.CheckLeaks and dlpacktest.Main that a test drops tensors without Close on purpose. If the garbage collector
// finds them before the test ends, they are not leaks. Call CheckLeaks before Forgets.
func Forgets(t testing.TB) {
	before := dlpack.ReadStats().Forgotten
	t.Cleanup(func() {
		background.Wait() // a release counts after it has returned
		forgotten.Add(dlpack.ReadStats().Forgotten - before)
	})
}

// Forgotten returns the number of objects that the tests that called [Forgets] have dropped.
func Forgotten() int64 { return forgotten.Load() }
