//go:build !cgo

package dlpack

import "fmt"

// RequireMemory returns [ErrMemory] for more bytes than a slice can have. Only C's allocator can say whether there is
// memory for less.
func RequireMemory(n int64) error {
	if n >= 1<<47 {
		return &Error{Op: "allocate", Where: fmt.Sprintf("no memory for %d bytes", n), Err: ErrMemory}
	}
	return nil
}
