//go:build cgo

package zeromq

import (
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack"
)

func address(data []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(data))) }

// contains reports whether a frame lies in memory.
func contains(memory, frame []byte) bool {
	return address(frame) >= address(memory) && address(frame)-address(memory) <= uintptr(len(memory)) &&
		uintptr(len(memory))-(address(frame)-address(memory)) >= uintptr(len(frame))
}

// offset returns the offset in bytes of a frame in the memory of its owner, a tensor of bytes. It is 0 for an empty frame.
func offset(frame []byte, owner *dlpack.Tensor) int64 {
	memory, _, err := owner.UnsafeBytes()
	if err != nil || len(frame) == 0 {
		return 0
	}
	return int64(address(frame) - address(memory))
}
