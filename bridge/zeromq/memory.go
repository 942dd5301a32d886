//go:build cgo

package zeromq

import (
	"cmp"
	"slices"
	"sort"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack"
)

func address(data []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(data))) }

// memoryOf returns the memory of a tensor. It is a variable so that a test can count the calls.
var memoryOf = (*dlpack.Tensor).UnsafeBytes

// owners finds the tensor in whose memory a frame lies, for many frames. The entries are sorted by the start of the
// tensors' memory. Each entry has the tensor whose memory ends last, among the tensors up to that entry. A frame after
// the start lies in that tensor or in none.
type owners []owner

type owner struct {
	start, end uintptr
	tensor     *dlpack.Tensor
}

func ownersOf(lists ...[]*dlpack.Tensor) owners {
	n := 0
	for _, list := range lists {
		n += len(list)
	}
	o := make(owners, 0, n)
	for _, list := range lists {
		for _, t := range list {
			if t == nil {
				continue
			}
			if data, _, err := memoryOf(t); err == nil && len(data) > 0 {
				o = append(o, owner{address(data), address(data) + uintptr(len(data)), t})
			}
		}
	}
	slices.SortFunc(o, func(a, b owner) int { return cmp.Compare(a.start, b.start) })
	for i := 1; i < len(o); i++ {
		if before := o[i-1]; before.end > o[i].end {
			o[i].end, o[i].tensor = before.end, before.tensor
		}
	}
	return o
}

// of returns a tensor in whose memory a frame lies. It returns nil if there is none, or if the frame is empty.
func (o owners) of(frame []byte) *dlpack.Tensor {
	start, end := address(frame), address(frame)+uintptr(len(frame))
	i := sort.Search(len(o), func(i int) bool { return o[i].start > start }) // the number of tensors that do not start after the frame
	if len(frame) == 0 || i == 0 || o[i-1].end < end {
		return nil
	}
	return o[i-1].tensor
}

// offset returns the offset in bytes of a frame in the memory of its owner, a tensor of bytes. It is 0 for an empty frame.
func offset(frame []byte, owner *dlpack.Tensor) int64 {
	memory, _, err := owner.UnsafeBytes()
	if err != nil || len(frame) == 0 {
		return 0
	}
	return int64(address(frame) - address(memory))
}
