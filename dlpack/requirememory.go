package dlpack

import "fmt"

const (
	// addressable is a number of bytes that no machine can allocate.
	addressable = 1 << 47

	// large is the size in bytes from which RequireMemory asks the system.
	large = 64 << 20

	// spare is the most that Go's allocator takes in addition to the size of two large slices: it allocates whole
	// arenas of 64 MiB.
	spare = 128 << 20
)

// RequireMemory returns [ErrMemory] if the system has no memory for a Go slice of n more bytes. Go's allocator would end the
// process instead. Decoders, such as those of bridge, call RequireMemory before they allocate: a small message or a broadcast
// can describe more elements than any machine has memory for.
//
// Below 64 MiB it does not check. For 64 MiB and more it asks the system for n bytes and at least 128 MiB in addition, does
// not touch this memory, and gives it back. It refuses 128 TiB and more without asking. The result is valid only until
// somebody else takes the memory, and is only as good as the system's answer. Linux refuses requests beyond the limits of the
// process or the size of the machine, but promises the same memory to several processes. Only Linux and macOS are asked.
func RequireMemory(n int64) error {
	if n < large || n < addressable && canMap(int(n+n/64+spare)) {
		return nil
	}
	return &Error{Op: "allocate", Where: fmt.Sprintf("no memory for %d bytes", n), Err: ErrMemory}
}
