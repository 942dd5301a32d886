//go:build cgo

package core

/*
#cgo noescape core_copy_part
#cgo nocallback core_copy_part
#cgo noescape core_convert
#cgo nocallback core_convert
#include "copy.h"
*/
import "C"

import (
	"runtime"
	"slices"
	"sync"
	"unsafe"
)

// Elements go to C as char *, and never as void *. An element may lie in a Go object that also holds pointers; cgo
// looks through the whole object around a void *, and panics when it finds a pointer there that is not pinned. A char *
// has no pointers behind it, so that nothing is looked through. Unlike a uintptr it is still a pointer: it keeps the
// object, and the compiler does not leave memory on a stack whose address reaches another goroutine.

// copyPart copies elements between two layouts: a part of a copy of whole bytes. Strides are in bytes,
// the slices of one length. If plain is set, no vector instructions are used.
func copyPart(plain bool, whole int64, dst unsafe.Pointer, dstSteps []int64, src unsafe.Pointer, srcSteps, shape []int64, itemSize int64) {
	C.core_copy_part(C.bool(plain), C.size_t(whole), (*C.char)(dst), inC(dstSteps), (*C.char)(src), inC(srcSteps),
		inC(shape), C.int32_t(len(shape)), C.size_t(itemSize))
}

// inC returns the address of the first of some numbers, which C code does not use if there are none.
func inC(numbers []int64) *C.int64_t { return (*C.int64_t)(unsafe.SliceData(numbers)) }

// partBytes is the least size of a part of a copy. A smaller part takes less time than starting a goroutine for it.
const partBytes = 8 << 20

// CopyElements copies elements of itemSize bytes, size bytes in all, between two layouts that have no
// memory in common. Large copies are done in parts, on at most GOMAXPROCS goroutines.
func CopyElements(dst unsafe.Pointer, dstSteps []int64, src unsafe.Pointer, srcSteps, shape []int64, itemSize, size int64) {
	if size >= 2*partBytes {
		if parts, at := divide(size, dstSteps, shape); parts > 1 {
			copyParts(parts, at, dst, dstSteps, src, srcSteps, shape, itemSize, size)
			return
		}
	}
	copyPart(false, size, dst, dstSteps, src, srcSteps, shape, itemSize)
}

func copyParts(parts int64, at int, dst unsafe.Pointer, dstSteps []int64, src unsafe.Pointer, srcSteps, shape []int64, itemSize, size int64) {
	to, from := slices.Clone(dstSteps), slices.Clone(srcSteps)
	inParts(parts, at, shape, func(first int64, part []int64) {
		copyPart(false, size, unsafe.Add(dst, first*to[at]), to, unsafe.Add(src, first*from[at]), from, part, itemSize)
	})
}

// divide says into how many parts work on size bytes is divided, and along which dimension: that with the
// widest steps of those that have enough elements for all.
func divide(size int64, steps, shape []int64) (parts int64, at int) {
	parts = min(size/partBytes, int64(runtime.GOMAXPROCS(0)))
	widest := int64(-1)
	for d, n := range shape {
		if width := max(steps[d], -steps[d]); n >= parts && width > widest {
			at, widest = d, width
		}
	}
	if widest < 0 {
		return 1, 0
	}
	return parts, at
}

// inParts does parts of a shape at once: each from an index of dimension at on.
func inParts(parts int64, at int, shape []int64, do func(first int64, part []int64)) {
	each := (shape[at] + parts - 1) / parts
	if each > 64 { // whole lines of the source, if this is a transpose
		each = (each + 63) &^ 63
	}
	var wait sync.WaitGroup
	for first := int64(0); first < shape[at]; first += each {
		part := slices.Clone(shape)
		part[at] = min(each, shape[at]-first)
		wait.Go(func() { do(first, part) })
	}
	wait.Wait()
}

// Numbers are elements to be converted, whose strides are in elements.
type Numbers struct {
	Data    uintptr
	DType   DataType
	Bits    int // of an element
	Padded  bool
	Strides []int64
}

// packed reports whether elements share bytes.
func (n *Numbers) packed() bool { return n.Bits%8 != 0 && !n.Padded }

// Convert converts elements of src, of which there are some, to those of dst: size bytes on the larger side. Both have
// numbers. Packed elements share bytes, so that two goroutines must not write to one.
func Convert(dst, src *Numbers, shape []int64, size int64) {
	if size >= 2*partBytes && !dst.packed() && !src.packed() {
		if parts, at := divide(size, dst.Strides, shape); parts > 1 {
			to, from := *dst, *src
			inParts(parts, at, shape, func(first int64, part []int64) {
				convertPart(to.from(first, at), &to, from.from(first, at), &from, part)
			})
			return
		}
	}
	convertPart(dst.Data, dst, src.Data, src, shape)
}

// ConvertOne converts one number.
func ConvertOne(dst, src *Numbers) { convertPart(dst.Data, dst, src.Data, src, nil) }

// from is the address of an element, along one dimension, of numbers that are not packed.
func (n *Numbers) from(first int64, at int) uintptr {
	return n.Data + uintptr(first*n.Strides[at]*int64((n.Bits+7)/8))
}

func convertPart(to uintptr, dst *Numbers, from uintptr, src *Numbers, shape []int64) {
	C.core_convert((*C.char)(Pointer(to)), dst.DType.inC(), inC(dst.Strides), C.bool(dst.Padded),
		(*C.char)(Pointer(from)), src.DType.inC(), inC(src.Strides), C.bool(src.Padded), inC(shape), C.int32_t(len(shape)))
}

func (t DataType) inC() C.DLDataType {
	return C.DLDataType{code: C.uint8_t(t), bits: C.uint8_t(t >> 8), lanes: C.uint16_t(t >> 16)}
}

// CopyBytes copies size bytes from src to dst, which have no memory in common.
func CopyBytes(dst, src unsafe.Pointer, size int64) {
	const large = 32 << 20 // from here on the kernels and several cores are ahead of the runtime's copy
	if size < large {
		copy(unsafe.Slice((*byte)(dst), size), unsafe.Slice((*byte)(src), size))
		return
	}
	// Pages, so that there is something to divide; the rest is less than one.
	const page = 4096
	step := []int64{page}
	whole := size / page * page
	CopyElements(dst, step, src, step, []int64{size / page}, page, whole)
	copy(unsafe.Slice((*byte)(unsafe.Add(dst, whole)), size-whole), unsafe.Slice((*byte)(unsafe.Add(src, whole)), size-whole))
}
