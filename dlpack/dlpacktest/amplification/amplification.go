// Package amplification is for tests of decoders. It measures how much memory a decoder needs in proportion to its input.
//
// The documentation of each package states its bounds, which are tighter than the rule in bridge/README.md.
package amplification

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// The bounds of decoders, as multiples of the input.
const (
	// Fixed applies to tensors whose elements all have the same size.
	Fixed = 4
	// Variable applies to elements of different sizes, such as strings, and to descriptions of tensors.
	Variable = 32
	// Label applies to the tensors that the label of a message describes.
	Label = 40
	// Overhead is the number of bytes that a call may need in addition, whatever its input, for results and errors.
	Overhead = 64 << 10
)

// Require fails the test if a decoder needs more memory than times × input + limit + [Overhead] bytes. decode returns a function
// that releases the results, or nil.
//
// Every Go allocation during the call counts, even if the collector frees it before the end. The number is therefore the same
// in each run, and never below the peak. C memory counts only if it is still in use at the end of the call, and only on Linux.
// Other goroutines can only increase the number, so a call that exceeds the bound is measured up to three times.
// AddressSanitizer surrounds each allocation with its own memory; the multiple is then twice as high.
func Require(t testing.TB, input int, times, limit uint64, decode func() (release func())) {
	t.Helper()
	bound := guarded*times*uint64(input) + limit + Overhead
	var taken uint64
	for range 3 {
		var release func()
		taken = Measure(func() { release = decode() })
		if release != nil {
			release()
		}
		if taken <= bound {
			return
		}
	}
	require.LessOrEqual(t, taken, bound, "%d bytes of input may use %d times as many bytes of memory, plus %d bytes", input, times, limit)
}

// Measure returns the number of bytes that a call needs, as [Require] counts them.
func Measure(call func()) uint64 {
	var before, after runtime.MemStats
	inC := usedByC()
	runtime.ReadMemStats(&before)
	call()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc + uint64(max(usedByC()-inC, 0))
}

// Repeat returns data with a piece of it repeated, which adds at most 128 KiB. The fuzzer does not know the format. With Repeat,
// a fuzz test turns one tensor, attribute or record that the fuzzer has found into many.
func Repeat(data []byte, at, size, times uint16) []byte {
	start := min(int(at), len(data))
	end := min(start+int(size), len(data))
	most := 1 << 17
	if end > start {
		most /= end - start
	}
	var out []byte
	out = append(out, data[:end]...)
	for range min(int(times), most) {
		out = append(out, data[start:end]...)
	}
	return append(out, data[end:]...)
}
