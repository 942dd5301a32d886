//go:build cgo

package payload

import "github.com/dlbridge/dlbridge/dlpack"

// goScratch is the size in bytes up to which scratch memory is Go memory.
const goScratch = 64 << 10

// Scratch returns zeroed memory for elements that are about to be encoded. More than 64 KiB are allocated in C, because
// Go's allocator ends the process if there is no memory, whereas C's returns an error. The caller calls free once and
// does not use the memory afterwards.
//
// Errors, without a prefix: [dlpack.ErrMemory], [dlpack.ErrOverflow].
func Scratch(size int64) (data []byte, free func(), err error) {
	if size <= goScratch {
		return make([]byte, size), func() {}, nil
	}
	memory, err := dlpack.New(dlpack.Uint8, size)
	if err != nil {
		return nil, nil, err
	}
	data, _, err = memory.UnsafeBytes()
	return data, func() { memory.Close() }, err
}
