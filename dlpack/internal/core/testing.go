//go:build cgo

package core

/*
#include "copy.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

// Converts n consecutive numbers, in a program that has set the processor to flush subnormal numbers to 0, and to round
// upwards.
static void convert_flushing(char *dst, DLDataType to, const char *src, DLDataType from, int64_t n, bool scaled, double scale,
                             double shift) {
  const int64_t one = 1;
  const dlbcore_scaling scaling = {&scale, &shift, 1, 1, 0};
#if defined(__x86_64__)
  enum { DAZ = 0x40, UP = 0x4000, FTZ = 0x8000 };
  unsigned was = _mm_getcsr();
  _mm_setcsr(was | DAZ | UP | FTZ);
#elif defined(__aarch64__)
  uint64_t was;
  __asm__ volatile("mrs %0, fpcr" : "=r"(was));
  __asm__ volatile("msr fpcr, %0" : : "r"(was | 1 << 24 | 1 << 22));
#endif
  dlbcore_convert_part(false, 0, dst, to, &one, true, src, from, &one, true, &n, 1, scaled ? &scaling : NULL);
#if defined(__x86_64__)
  _mm_setcsr(was);
#elif defined(__aarch64__)
  __asm__ volatile("msr fpcr, %0" : : "r"(was));
#endif
}
*/
import "C"

import (
	"runtime"
	"sync"
	"unsafe"
)

// This file is for the tests of this package and of package dlpack: test files cannot use cgo.

// Quarantine is the number of further exports of its cache before a dead block is used again.
const Quarantine = quarantine

// LockEverything locks all mutexes of this package. It returns a function that unlocks them.
func LockEverything() (unlock func()) {
	locks := []*sync.Mutex{&shards.mu, &table.mu, &ledger.mu, &foreign.mu}
	for i := range allShards() {
		locks = append(locks, &allShards()[i].mu)
	}
	for _, l := range locks {
		l.Lock()
	}
	return func() {
		for _, l := range locks {
			l.Unlock()
		}
	}
}

// SettleForeignBytes lowers the limit of foreign bytes as far as many collections would. Otherwise, after a test with
// many foreign bytes, the next test would need as many foreign bytes to cause a collection.
func SettleForeignBytes() {
	for last := int64(-1); foreign.limit.Load() != last; {
		last = foreign.limit.Load()
		foreign.settle()
	}
}

// SettleImports counts n imports, which a test has left open on purpose, as ended.
func SettleImports(n int64) { liveImports.end(n) }

// SetReferences sets refs, which is the number of references to a memory, minus one.
func SetReferences(m *Memory, n int32) { m.refs.Store(n) }

// Pinned counts the pins in use.
func Pinned() int {
	pins, _ := countPinned()
	return pins
}

// Trim gives back the pages of free blocks as a collection would do in the background, and returns when that is done.
func Trim() {
	for sh := range lockedShards {
		for sh.blocks.trimming { // in the background, and only once at a time
			sh.yield()
		}
		sh.blocks.trimming = true
		sh.mu.Unlock()
		sh.trim()
		sh.mu.Lock()
	}
}

// Blocks counts the exported and the free blocks in all caches of Go.
func Blocks() (n int) {
	for sh := range lockedShards {
		n += sh.blocks.exported.n + sh.blocks.free.n
	}
	return n
}

// CheckTensorInC returns the result of the C function dlbcore_check_tensor and its message.
func CheckTensorInC(tensor unsafe.Pointer, flags uint64) (status Status, message string, e Extent) {
	var c C.dlbcore_extent
	var text [256]C.char
	status = Status(C.dlbcore_check_tensor((*C.DLTensor)(tensor), C.uint64_t(flags), &c, &text[0], C.size_t(len(text))))
	e = Extent{Count: int64(c.count), NumBytes: int64(c.nbytes), Low: int64(c.low), High: int64(c.high), RowMajor: c.row_major != 0}
	return status, C.GoString(&text[0]), e
}

// ConvertFlushing is Convert for n consecutive padded numbers, in a program that has set the processor to flush
// subnormal numbers to 0, and to round upwards.
func ConvertFlushing(dst []byte, to DataType, src []byte, from DataType, n int64) {
	convertFlushing(dst, to, src, from, n, false, 0, 0)
}

// ConvertScaledFlushing is ConvertFlushing with one scale and one shift.
func ConvertScaledFlushing(dst []byte, to DataType, src []byte, from DataType, n int64, scale, shift float64) {
	convertFlushing(dst, to, src, from, n, true, scale, shift)
}

func convertFlushing(dst []byte, to DataType, src []byte, from DataType, n int64, scaled bool, scale, shift float64) {
	C.convert_flushing((*C.char)(unsafe.Pointer(unsafe.SliceData(dst))), to.inC(),
		(*C.char)(unsafe.Pointer(unsafe.SliceData(src))), from.inC(), C.int64_t(n),
		C.bool(scaled), C.double(scale), C.double(shift))
}

// SetRowMajorInC calls the C function dlbcore_set_row_major.
func SetRowMajorInC(strides, shape []int64) {
	if len(shape) > 0 {
		C.dlbcore_set_row_major((*C.int64_t)(&strides[0]), (*C.int64_t)(&shape[0]), C.int32_t(len(shape)))
	}
}

// HostReadableInC calls the C function dlbcore_host_readable.
func HostReadableInC(deviceType int32) bool {
	return C.dlbcore_host_readable(C.int32_t(deviceType)) != 0
}

// NeedsCopy is the status of a view in C that no strides can express.
const NeedsCopy = Status(C.CORE_NEEDS_COPY)

// A ViewIndex is the dlbcore_index of C.
type ViewIndex struct {
	Start, Stop, Step int64
	Kind              ViewIndexKind
}

// ViewIndexKind says which part of a dimension a [ViewIndex] selects; 0 is a range without start and stop.
type ViewIndexKind uint64

// The kinds of ViewIndex. GivesStart and GivesStop can be combined.
const (
	GivesStart ViewIndexKind = C.CORE_INDEX_START
	GivesStop  ViewIndexKind = C.CORE_INDEX_STOP
	KindAt     ViewIndexKind = C.CORE_INDEX_AT
	Ellipsis   ViewIndexKind = C.CORE_INDEX_ELLIPSIS
	NewAxis    ViewIndexKind = C.CORE_INDEX_NEW_AXIS
)

// layoutInC returns a layout in C whose arrays are pinned until pins is unpinned. The slices have the same length.
func layoutInC(pins *runtime.Pinner, shape, strides []int64, rank int, offset int64) C.dlbcore_layout {
	l := C.dlbcore_layout{ndim: C.int32_t(rank), offset: C.int64_t(offset)}
	if len(shape) > 0 {
		pins.Pin(&shape[0])
		pins.Pin(&strides[0])
		l.shape, l.strides = (*C.int64_t)(&shape[0]), (*C.int64_t)(&strides[0])
	}
	return l
}

// ViewInC calls the C function dlbcore_view_<op>, such as dlbcore_view_flip, with indices for "slice" and with numbers for all other
// operations. It returns the layout of the view, the status and the message.
func ViewInC(op string, shape, strides []int64, offset int64, numbers []int64, indices []ViewIndex) (
	newShape, newStrides []int64, newOffset int64, status Status, message string,
) {
	var pins runtime.Pinner
	defer pins.Unpin()
	base, text := layoutInC(&pins, shape, strides, len(shape), offset), [256]C.char{}
	room := [2][]int64{make([]int64, C.CORE_RANK_MAX), make([]int64, C.CORE_RANK_MAX)}
	view := layoutInC(&pins, room[0], room[1], 0, 0)
	small := make([]int32, len(numbers))
	for k, n := range numbers {
		small[k] = int32(n)
	}
	count, size := C.int32_t(len(numbers)), C.size_t(len(text))
	list64, list32 := (*C.int64_t)(unsafe.SliceData(numbers)), (*C.int32_t)(unsafe.SliceData(small))
	var s C.dlbcore_status
	switch op {
	case "slice":
		list := (*C.dlbcore_index)(unsafe.Pointer(unsafe.SliceData(indices)))
		s = C.dlbcore_view_slice(&view, &base, C.int32_t(len(indices)), list, &text[0], size)
	case "index":
		s = C.dlbcore_view_index(&view, &base, count, list64, &text[0], size)
	case "transpose":
		s = C.dlbcore_view_transpose(&view, &base, count, list32, &text[0], size)
	case "reshape":
		s = C.dlbcore_view_reshape(&view, &base, count, list64, &text[0], size)
	case "broadcast":
		s = C.dlbcore_view_broadcast_to(&view, &base, count, list64, &text[0], size)
	case "flip":
		s = C.dlbcore_view_flip(&view, &base, count, list32, &text[0], size)
	case "squeeze":
		s = C.dlbcore_view_squeeze(&view, &base, count, list32, &text[0], size)
	case "expand":
		s = C.dlbcore_view_expand(&view, &base, count, list32, &text[0], size)
	case "bitcast":
		s = C.dlbcore_view_bitcast(&view, &base, C.int64_t(numbers[0]), C.int64_t(numbers[1]), &text[0], size)
	default:
		panic("no dlbcore_view_" + op)
	}
	if s == C.CORE_OK {
		newShape, newStrides, newOffset = room[0][:view.ndim], room[1][:view.ndim], int64(view.offset)
	}
	return newShape, newStrides, newOffset, Status(s), C.GoString(&text[0])
}

// OverlapsInC calls the C function dlbcore_overlaps.
func OverlapsInC(shape, strides []int64) bool {
	var pins runtime.Pinner
	defer pins.Unpin()
	l := layoutInC(&pins, shape, strides, len(shape), 0)
	return C.dlbcore_overlaps(&l) != 0
}
