//go:build cgo

package core

/*
#cgo noescape dlbcore_copy_part
#cgo nocallback dlbcore_copy_part
#cgo noescape convert_part
#cgo nocallback convert_part
#cgo noescape dlbcore_equal
#cgo nocallback dlbcore_equal
#include "copy.h"

static void convert_part(bool plain, size_t whole, char *dst, DLDataType dst_dtype, const int64_t *dst_strides, bool dst_padded,
                         const char *src, DLDataType src_dtype, const int64_t *src_strides, bool src_padded, const int64_t *shape,
                         int32_t ndim, bool scaled, const double *scale, int64_t scales, const double *shift, int64_t shifts, int32_t dim) {
  dlbcore_scaling scaling = {scale, shift, scales, shifts, dim};
  dlbcore_convert_part(plain, whole, dst, dst_dtype, dst_strides, dst_padded, src, src_dtype, src_strides, src_padded, shape, ndim,
                       scaled ? &scaling : NULL);
}
*/
import "C"

import (
	"runtime"
	"slices"
	"sync"
	"unsafe"
)

// Elements go to C as char *, never as void *. An element may lie in a Go object that also holds pointers. For a void
// *, cgo searches the whole object, and panics if it finds a pointer that is not pinned. For a char *, which points to
// no pointers, cgo searches nothing. Unlike a uintptr, a char * keeps the object reachable, and the compiler puts an
// object on the heap if its address reaches another goroutine.

// copyPart copies elements of itemSize bytes between two layouts, as a part of a copy that has `whole` bytes in all.
// Steps are strides in bytes, and the slices have the same length. If plain is set, AVX2 is not used; the result is the
// same.
func copyPart(plain bool, whole int64, dst unsafe.Pointer, dstSteps []int64, src unsafe.Pointer, srcSteps, shape []int64, itemSize int64) {
	C.dlbcore_copy_part(C.bool(plain), C.size_t(whole), (*C.char)(dst), inC(dstSteps), (*C.char)(src), inC(srcSteps),
		inC(shape), C.int32_t(len(shape)), C.size_t(itemSize))
}

// inC returns the address of the first number. If there are no numbers, C code must not use the address.
func inC(numbers []int64) *C.int64_t { return (*C.int64_t)(unsafe.SliceData(numbers)) }

// partBytes is the smallest size in bytes of a part of a copy or conversion that gets its own goroutine. For smaller
// parts, goroutines are not worth their cost.
const partBytes = 8 << 20

// CopyElements copies elements of itemSize bytes, size bytes in all, between two layouts that have no memory in common.
// Steps are strides in bytes. Large copies are done in parts, on at most GOMAXPROCS goroutines.
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

// divide returns the number of parts for work on size bytes, and the dimension along which the work is divided. This is
// the dimension with the widest steps, in either direction, among those with at least one index for each part. If no
// dimension has enough indices, the work is one part.
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

// inParts divides a shape along dimension at into at most the given number of parts, and calls do for each part, on
// separate goroutines. first is the index at which a part begins, and part is its shape. inParts returns after all
// calls have returned.
func inParts(parts int64, at int, shape []int64, do func(first int64, part []int64)) {
	each := (shape[at] + parts - 1) / parts
	if each > 64 { // whole cache lines of the source, if this is a transpose
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

// Numbers describes the source or the destination of a conversion.
type Numbers struct {
	Data    uintptr // address of element (0, ..., 0)
	DType   DataType
	Bits    int     // of an element with all its lanes
	Padded  bool    // each element begins at a byte of its own
	Strides []int64 // in elements
}

// packed reports whether elements share bytes.
func (n *Numbers) packed() bool { return n.Bits%8 != 0 && !n.Padded }

// A Scaling scales and shifts each number of a conversion: it is dlbcore_scaling in Go. Scale and Shift are each empty,
// or have one number, or one number for each index of dimension Dim.
type Scaling struct {
	Scale, Shift []float64
	Dim          int
}

// part returns the scaling of a part that begins at an index of a dimension.
func (s *Scaling) part(first int64, at int, size int64) *Scaling {
	if s == nil || s.Dim != at {
		return s
	}
	p := *s
	for _, numbers := range []*[]float64{&p.Scale, &p.Shift} {
		if len(*numbers) > 1 {
			*numbers = (*numbers)[first:][:size]
		}
	}
	return &p
}

// Convert converts the elements of src to the data type of dst and writes them to dst. There must be at least one
// element, and both data types must be types of numbers with the same lanes. size is the number of bytes on the larger
// side. Large conversions are done in parts, except for packed elements: a part could begin inside a byte, and two
// goroutines must not write to one byte. If plain is set, AVX2 is not used; the result is the same. If s is not nil,
// the numbers are scaled, and must be real.
func Convert(plain bool, dst, src *Numbers, shape []int64, size int64, s *Scaling) {
	whole := int64(dst.Bits+7) / 8
	for _, n := range shape {
		whole *= n
	}
	if size >= 2*partBytes && !dst.packed() && !src.packed() {
		if parts, at := divide(size, dst.Strides, shape); parts > 1 {
			to, from := *dst, *src
			inParts(parts, at, shape, func(first int64, part []int64) {
				convertPart(plain, whole, to.from(first, at), &to, from.from(first, at), &from, part, s.part(first, at, part[at]))
			})
			return
		}
	}
	convertPart(plain, whole, dst.Data, dst, src.Data, src, shape, s)
}

// ConvertOne is Convert for one element; the strides are not used.
func ConvertOne(dst, src *Numbers) { convertPart(false, 1, dst.Data, dst, src.Data, src, nil, nil) }

// from returns the address of the element with index first in dimension at and index 0 in all other dimensions. The
// elements must not be packed.
func (n *Numbers) from(first int64, at int) uintptr {
	return n.Data + uintptr(first*n.Strides[at]*int64((n.Bits+7)/8))
}

func convertPart(plain bool, whole int64, to uintptr, dst *Numbers, from uintptr, src *Numbers, shape []int64, s *Scaling) {
	var scaling Scaling
	if s != nil {
		scaling = *s
	}
	C.convert_part(C.bool(plain), C.size_t(whole), (*C.char)(Pointer(to)), dst.DType.inC(), inC(dst.Strides), C.bool(dst.Padded),
		(*C.char)(Pointer(from)), src.DType.inC(), inC(src.Strides), C.bool(src.Padded), inC(shape), C.int32_t(len(shape)),
		C.bool(s != nil), (*C.double)(unsafe.SliceData(scaling.Scale)), C.int64_t(len(scaling.Scale)),
		(*C.double)(unsafe.SliceData(scaling.Shift)), C.int64_t(len(scaling.Shift)), C.int32_t(scaling.Dim))
}

func (t DataType) inC() C.DLDataType {
	return C.DLDataType{code: C.uint8_t(t), bits: C.uint8_t(t >> 8), lanes: C.uint16_t(t >> 16)}
}

// CopyBytes copies size bytes from src to dst, which have no memory in common.
func CopyBytes(dst, src unsafe.Pointer, size int64) {
	const large = 32 << 20 // from this size on, C code on several cores is faster than the runtime's copy
	if size < large {
		copy(unsafe.Slice((*byte)(dst), size), unsafe.Slice((*byte)(src), size))
		return
	}
	// CopyElements can divide a dimension of whole pages among goroutines; less than a page is left.
	const page = 4096
	step := []int64{page}
	whole := size / page * page
	CopyElements(dst, step, src, step, []int64{size / page}, page, whole)
	copy(unsafe.Slice((*byte)(unsafe.Add(dst, whole)), size-whole), unsafe.Slice((*byte)(unsafe.Add(src, whole)), size-whole))
}

// Equal reports whether two tensors of one shape and data type have equal elements. The elements must be numbers. NaN
// equals NaN if nanEqual is set.
func Equal(a, b *Numbers, shape []int64, nanEqual bool) bool {
	return C.dlbcore_equal((*C.char)(Pointer(a.Data)), inC(a.Strides), C.bool(a.Padded), (*C.char)(Pointer(b.Data)), inC(b.Strides),
		C.bool(b.Padded), a.DType.inC(), inC(shape), C.int32_t(len(shape)), C.bool(nanEqual)) == 1
}
