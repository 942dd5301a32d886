//go:build cgo

package dlpack

import (
	"slices"

	"github.com/dlbridge/dlbridge/dlpack/internal/core"
)

// Equal reports whether two tensors have the same data type, the same shape and equal elements. Their layouts and flags do not
// matter. As with Go's ==, 0 equals -0, and NaN equals nothing; for [EqualNaN], NaN equals NaN. In tests, AllClose of package
// dlpacktest compares with tolerances, and prints the elements that differ.
//
// Ownership: unchanged. Lifetime: none. Threads: any, while nobody writes to the tensors. On error: [ErrClosed], [ErrDevice], or
// [ErrDType] for types that are not numbers.
func Equal(a, b *Tensor) (bool, error) { return equal("equal", a, b, false) }

// EqualNaN is [Equal], but NaN equals NaN. The two parts of a complex number are compared separately.
//
// Ownership, Lifetime, Threads, On error: as [Equal].
func EqualNaN(a, b *Tensor) (bool, error) { return equal("equal NaN", a, b, true) }

func equal(op string, a, b *Tensor, nanEqual bool) (bool, error) {
	for i, t := range []*Tensor{a, b} {
		if err := t.acquireAs(op, [...]string{"the first tensor", "the second tensor"}[i]); err != nil {
			return false, err
		}
		defer t.done()
		if !t.device.HostReadable() {
			return false, t.errDevice(op)
		}
		if err := checkNumbers(op, t.dtype, t.dtype); err != nil {
			return false, err
		}
	}
	if a.dtype != b.dtype || !slices.Equal(a.shape(), b.shape()) {
		return false, nil
	}
	if a.data == 0 {
		return true, nil
	}
	x, y := a.numbers(), b.numbers()
	return core.Equal(&x, &y, a.shape(), nanEqual), nil
}
