//go:build cgo

package payload

import "github.com/dlbridge/dlbridge/dlpack"

// littleScratch is the most scratch memory that is Go's.
const littleScratch = 64 << 10

// Scratch returns memory for elements on their way into a message. More than a little is C memory: where there is none,
// Go's allocator would end the process, and C's reports it. The memory is zero. It must not be used after free, which
// must be called once.
//
// Errors, without a prefix: [dlpack.ErrMemory], [dlpack.ErrOverflow].
func Scratch(size int64) (data []byte, free func(), err error) {
	if size <= littleScratch {
		return make([]byte, size), func() {}, nil
	}
	memory, err := dlpack.New(dlpack.Uint8, size)
	if err != nil {
		return nil, nil, err
	}
	data, _, err = memory.UnsafeBytes()
	return data, func() { memory.Close() }, err
}
