//go:build cgo

package dlpack

/*
#cgo noescape copy_part
#cgo nocallback copy_part
#cgo noescape convert
#cgo nocallback convert
#include "copy.h"

static uintptr_t share_untouched(size_t size) { return (uintptr_t)core_share_alloc(size, 0); }

// Elements go to C as char *, and never as void *. An element may lie in a Go object that also holds pointers; cgo
// looks through the whole object around a void *, and panics when it finds a pointer there that is not pinned. A char *
// has no pointers behind it, so that nothing is looked through. Unlike a uintptr it is still a pointer: it keeps the
// object, and the compiler does not leave memory on a stack whose address reaches another goroutine.
static void copy_part(int most, size_t whole, char *dst, const int64_t *dst_strides, char *src, const int64_t *src_strides,
                      const int64_t *shape, int32_t ndim, size_t itemsize) {
  core_copy_part(most, whole, dst, dst_strides, src, src_strides, shape, ndim, itemsize);
}

static core_status convert(char *dst, DLDataType dst_dtype, const int64_t *dst_strides, char *src, DLDataType src_dtype,
                           const int64_t *src_strides, const int64_t *shape, int32_t ndim, int32_t padded) {
  return core_convert(dst, dst_dtype, dst_strides, src, src_dtype, src_strides, shape, ndim, padded);
}
*/
import "C"

import (
	"runtime"
	"slices"
	"sync"
	"unsafe"
)

// coreShareUntouched is coreShareAlloc for memory all of which is written next.
func coreShareUntouched(size uintptr) uintptr { return uintptr(C.share_untouched(C.size_t(size))) }

// A means is what a copy may use.
type means int

const (
	plain   means = C.CORE_COPY_PLAIN
	shuffle means = C.CORE_COPY_SHUFFLE
	stream  means = C.CORE_COPY_STREAM
)

// coreCopyPart copies elements between two layouts: a part of a copy of whole bytes. Strides are in bytes,
// the slices of one length.
func coreCopyPart(most means, whole int64, dst unsafe.Pointer, dstSteps []int64, src unsafe.Pointer, srcSteps, shape []int64, itemSize int64) {
	var d, s, n *C.int64_t
	if len(shape) > 0 {
		d = (*C.int64_t)(unsafe.Pointer(&dstSteps[0]))
		s = (*C.int64_t)(unsafe.Pointer(&srcSteps[0]))
		n = (*C.int64_t)(unsafe.Pointer(&shape[0]))
	}
	C.copy_part(C.int(most), C.size_t(whole), (*C.char)(dst), d, (*C.char)(src), s, n, C.int32_t(len(shape)), C.size_t(itemSize))
}

// partBytes is what a part of a copy has at least, so that a goroutine is worth its while.
const partBytes = 8 << 20

// copyElements copies elements of itemSize bytes, size bytes in all, between two layouts that have no
// memory in common. Large copies are done in parts, on as many goroutines as GOMAXPROCS says at most.
func copyElements(dst unsafe.Pointer, dstSteps []int64, src unsafe.Pointer, srcSteps, shape []int64, itemSize, size int64) {
	if size >= 2*partBytes {
		if parts, at := divide(size, dstSteps, shape); parts > 1 {
			copyParts(parts, at, dst, dstSteps, src, srcSteps, shape, itemSize, size)
			return
		}
	}
	coreCopyPart(stream, size, dst, dstSteps, src, srcSteps, shape, itemSize)
}

func copyParts(parts int64, at int, dst unsafe.Pointer, dstSteps []int64, src unsafe.Pointer, srcSteps, shape []int64, itemSize, size int64) {
	to, from := slices.Clone(dstSteps), slices.Clone(srcSteps)
	inParts(parts, at, shape, func(first int64, part []int64) {
		coreCopyPart(stream, size, unsafe.Add(dst, first*to[at]), to, unsafe.Add(src, first*from[at]), from, part, itemSize)
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

// coreConvert converts the elements of one tensor, of which there are some, to those of another. It reports
// false where one has no numbers.
func coreConvert(dst, src *Tensor, at int, first int64, shape []int64) bool {
	var to, from *C.int64_t
	var n *C.int64_t
	d, s := dst.data, src.data
	if len(shape) > 0 {
		to, from = (*C.int64_t)(unsafe.Pointer(&dst.strides()[0])), (*C.int64_t)(unsafe.Pointer(&src.strides()[0]))
		n = (*C.int64_t)(unsafe.Pointer(&shape[0]))
		d += uintptr(first * dst.strides()[at] * int64(dst.dtype.ItemSize()))
		s += uintptr(first * src.strides()[at] * int64(src.dtype.ItemSize()))
	}
	padded := 0
	if dst.flags&SubbytePadded != 0 {
		padded |= 1
	}
	if src.flags&SubbytePadded != 0 {
		padded |= 2
	}
	return C.convert((*C.char)(pointer(d)), dst.dtype.inC(), to, (*C.char)(pointer(s)), src.dtype.inC(), from, n, C.int32_t(len(shape)), C.int32_t(padded)) == C.CORE_OK
}

func (dt DataType) inC() C.DLDataType {
	return C.DLDataType{code: C.uint8_t(dt.Code()), bits: C.uint8_t(dt.Bits()), lanes: C.uint16_t(dt.Lanes())}
}

// copyBytes copies size bytes from src to dst, which have no memory in common.
func copyBytes(dst, src unsafe.Pointer, size int64) {
	const large = 32 << 20 // from here on the kernels and several cores are ahead of the runtime's copy
	if size < large {
		copy(unsafe.Slice((*byte)(dst), size), unsafe.Slice((*byte)(src), size))
		return
	}
	// Pages, so that there is something to divide; the rest is less than one.
	const page = 4096
	step := []int64{page}
	whole := size / page * page
	copyElements(dst, step, src, step, []int64{size / page}, page, whole)
	copy(unsafe.Slice((*byte)(unsafe.Add(dst, whole)), size-whole), unsafe.Slice((*byte)(unsafe.Add(src, whole)), size-whole))
}
