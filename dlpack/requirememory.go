package dlpack

import "fmt"

const (
	// addressable is more than any slice of Go's can have.
	addressable = 1 << 47

	// large is a size of memory below which nobody checks whether it can be had.
	large = 64 << 20

	// spare is what Go's allocator may take beyond the size of two large slices: it takes whole arenas of 64 MiB.
	spare = 128 << 20
)

// RequireMemory returns [ErrMemory] where the system has no memory for a Go slice of n more bytes: Go's allocator ends
// the process there. Below 64 MiB it does not look. From there on it asks the system for as much, touches none of it, and
// gives it back. The answer holds as long as nobody else takes the memory, and is no better than the system's: Linux
// refuses what limits of the process forbid, or is more than the machine has, and promises the same memory to many.
func RequireMemory(n int64) error {
	if n < large || n < addressable && canMap(int(n+n/64+spare)) {
		return nil
	}
	return &Error{Op: "allocate", Where: fmt.Sprintf("no memory for %d bytes", n), Err: ErrMemory}
}
