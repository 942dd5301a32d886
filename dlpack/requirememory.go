package dlpack

import "fmt"

const (
	// addressable is a number of bytes that no machine has memory for.
	addressable = 1 << 47

	// large is the size in bytes from which RequireMemory asks the system.
	large = 64 << 20

	// spare is the most that Go's allocator takes beyond the size of two large slices: it takes whole arenas of 64 MiB.
	spare = 128 << 20
)

// RequireMemory is for packages that allocate what a message describes, such as those of bridge: it returns [ErrMemory] if the
// system has no memory for a Go slice of n more bytes, for which Go's allocator would end the process. A small message or a
// broadcast can describe more elements than any machine has memory for, so every function that allocates for them calls
// RequireMemory first.
//
// Below 64 MiB it does not check. From there on it asks the system for n bytes and at least 128 MiB more, touches none of this
// memory, and gives it back; 128 TiB and more are refused without asking. The result holds as long as nobody else takes the
// memory, and is no better than the system's answer: Linux refuses requests beyond the limits of the process or the size of
// the machine, and promises the same memory to several processes. Systems other than Linux and macOS are not asked.
func RequireMemory(n int64) error {
	if n < large || n < addressable && canMap(int(n+n/64+spare)) {
		return nil
	}
	return &Error{Op: "allocate", Where: fmt.Sprintf("no memory for %d bytes", n), Err: ErrMemory}
}
