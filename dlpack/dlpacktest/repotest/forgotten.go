//go:build cgo

package repotest

import (
	"sync/atomic"
	"testing"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/background"
)

var forgotten atomic.Int64

// Forgets tells dlpacktest.CheckLeaks, which is called before, and dlpacktest.Main that a test drops tensors without Close on purpose. What
// the collector finds of them until the test ends is no leak.
func Forgets(t testing.TB) {
	before := dlpack.ReadStats().Forgotten
	t.Cleanup(func() {
		background.Wait() // a release counts when it has returned
		forgotten.Add(dlpack.ReadStats().Forgotten - before)
	})
}

// Forgotten returns how many objects were dropped by the tests that have called [Forgets].
func Forgotten() int64 { return forgotten.Load() }
