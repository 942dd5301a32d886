//go:build cgo && !asan

package dlpack_test

import (
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// AddressSanitizer does not notice that a Go panic has ended C frames, so this test does not run under it.

// A panic in a callback skips the C frames of the release, at any depth. Later releases on the same thread are not
// delayed. Releases that waited for a release that never returned run with the next release that returns.
func TestReleasesThatPanicDelayNoLaterOnes(t *testing.T) {
	const nested = 8
	panics := func(close func()) { assert.PanicsWithValue(t, "release", close) }
	for _, c := range []struct {
		name      string
		depth     int // depth of the release that panics
		recovered int // the depth of the release that recovers, or 0 for their caller
	}{
		{"the only release", 1, 0},
		{"a nested one", 4, 0},
		{"the deepest", nested, 0},
		{"a nested one, recovered by the outermost", 4, 1},
		{"the deepest, recovered by the outermost", nested, 1},
		{"the deepest, recovered in between", nested, 5},
		{"the deepest, recovered by the one above it", nested, nested - 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			runtime.LockOSThread() // releases are counted for each thread
			defer runtime.UnlockOSThread()
			dlpacktest.CheckLeaks(t)
			close := func(tensor *dlpack.Tensor) { assert.NoError(t, tensor.Close()) }
			lend := func(release, ctx unsafe.Pointer) *dlpack.Tensor {
				return must.Do(dlpack.Lend(ctx, 1, false, release, ctx))(t)
			}
			const rounds = 2 * nested // more than enough to fill every level
			for range rounds {
				ended := dlpacktest.Lend(t, 1) // released by the release that then panics
				last := lend(ended.Release(), ended.Context())
				calls := 0
				var next *dlpack.Tensor
				for depth := c.depth; depth > 0; depth-- {
					inner := next
					release, ctx := dlpacktest.Callback(t, func() {
						calls++
						switch {
						case depth == c.depth:
							close(last)
							panic("release")
						case depth == c.recovered:
							panics(func() { close(inner) })
							later := dlpacktest.Lend(t, 1)
							close(lend(later.Release(), later.Context()))
							assert.Equal(t, 1, later.Releases(), "one that ends in the release that recovered")
							assert.Equal(t, 1, ended.Releases(), "what waited")
						default:
							close(inner)
						}
					})
					next = lend(release, ctx)
				}
				if c.recovered == 0 {
					panics(func() { close(next) })
				} else {
					close(next)
				}
				assert.Equal(t, c.depth, calls)
				for range 2 {
					later := dlpacktest.Lend(t, 1)
					close(lend(later.Release(), later.Context()))
					assert.Equal(t, 1, later.Releases(), "one that ends after the panic")
				}
				assert.Equal(t, 1, ended.Releases(), "what ended before the panic")
			}
		})
	}
}
