//go:build !cgo

package payload

import (
	"fmt"

	"github.com/dlbridge/dlbridge/dlpack"
)

// Scratch is as with cgo, without C memory.
func Scratch(size int64) (data []byte, free func(), err error) {
	return make([]byte, size), func() {}, nil
}

// CheckMemory refuses what no slice of Go can hold. Smaller amounts are not checked: only the allocator of C can say whether
// there is memory for them.
//
// Errors: [dlpack.ErrMemory].
func CheckMemory(n int64) error {
	const addressable = 1 << 47
	if n >= addressable {
		return fmt.Errorf("no memory for %d bytes: %w", n, dlpack.ErrMemory)
	}
	return nil
}
