// Package amplification measures how much memory decoders take for their input. Tests use it.
//
// The bounds that it asserts are those of the table in bridge/README.md.
package amplification

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// The bounds of decoders, as multiples of the input.
const (
	// Fixed is for tensors whose elements all have the same size.
	Fixed = 4
	// Variable is for elements that have a size each, and for what describes tensors.
	Variable = 32
	// Label is for the tensors that the label of a message describes.
	Label = 40
	// Overhead is what a call may take whatever its input: results, errors and their texts.
	Overhead = 64 << 10
)

// Require fails the test if a decoder takes more memory than times the input and a limit allow. Decode returns
// what gives its results back, or nil.
//
// All that Go allocates during the call counts, although the collector may free some of it before the end. So the
// figure is the same in each run, and never below the peak. Of C memory that counts which is in use at the end of
// the call. What else runs in the process can only add to the figure, so that a call that seems to take too much
// is measured again. AddressSanitizer puts memory of its own around everything, for which the multiple is twice as high.
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
	require.LessOrEqual(t, taken, bound, "%d bytes of input may take %d times as much, and %d bytes beyond that", input, times, limit)
}

// Measure returns how many bytes of memory a call takes, as [Require] counts them.
func Measure(call func()) uint64 {
	var before, after runtime.MemStats
	inC := usedByC()
	runtime.ReadMemStats(&before)
	call()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc + uint64(max(usedByC()-inC, 0))
}

// Repeat returns data with a piece of it, found by fuzzing, repeated, and no more than 128 KiB of it. So a fuzzer
// that knows nothing of a format finds many tensors, attributes and records where it has found one.
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
