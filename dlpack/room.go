//go:build cgo

package dlpack

import "slices"

const (
	// addressable is more than any slice of Go's can have.
	addressable = 1 << 47

	// large is a size of memory below which nobody checks whether it can be had.
	large = 1 << 30

	// arena is what Go's allocator may take beyond a large size: it takes whole arenas, and memory for itself.
	arena = 64 << 20
)

// RequireMemory returns [ErrMemory] where there is no memory for a Go slice of n more bytes: Go's allocator ends the
// process there. Below 1 GiB it does not look. It asks C's allocator, whose pages it does not touch, so that the answer
// holds as long as nobody else takes the memory.
func RequireMemory(n int64) error {
	const op = "allocate"
	if n < large {
		return nil
	}
	if n < addressable {
		if s := coreShareUntouched(uintptr(n + n/64 + arena)); s != 0 {
			dropShares(s, 1)
			return nil
		}
	}
	return refuse(op, ErrMemory, "no memory for %d bytes", n)
}

// grow makes room for more bytes behind dst, as [slices.Grow], or tells that there is no memory for them.
func grow(dst []byte, more int64) ([]byte, error) {
	n := int64(len(dst))
	size := n + min(more, addressable)
	if size <= int64(cap(dst)) || size < large/2 { // slices.Grow takes less than twice as much
		return slices.Grow(dst, int(more)), nil
	}
	room := size + n/4 // so that appending one by one copies each byte a few times at most
	if RequireMemory(room) != nil {
		room = size
		if err := RequireMemory(room); err != nil {
			return dst, err
		}
	}
	return append(make([]byte, 0, room), dst...), nil
}
