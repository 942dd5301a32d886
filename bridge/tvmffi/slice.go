//go:build cgo

package tvmffi

// #include "tvmffi.h"
import "C"

import (
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack"
)

// Slice returns a slice on the memory of argument i, which must be a tensor on the host that is row-major without gaps.
// [Args.Shape] returns its shape.
//
// Ownership: none, the slice is a view. Lifetime: until the handler returns. Threads: the handler's. On error: returns nil;
// [Args.Check] returns the error.
func Slice[T dlpack.Element](a Args, i int) []T {
	data, n := a.elements(i, dlpack.DataTypeOf[T](), values[T]) // only this call is generic, so that the compiler inlines it
	return unsafe.Slice((*T)(data), n)
}

// values returns the address and the number of the elements of a tensor, after all checks.
func values[T dlpack.Element](t *dlpack.Tensor) (unsafe.Pointer, int, error) {
	v, err := dlpack.Values[T](t)
	return unsafe.Pointer(unsafe.SliceData(v)), len(v), err
}

// elements returns the address and the number of the elements of argument i. It calls values for tensors that are not on the
// fast path.
func (a Args) elements(i int, dtype dlpack.DataType, values func(*dlpack.Tensor) (unsafe.Pointer, int, error)) (unsafe.Pointer, int) {
	d := a.tensor(i)
	if d == nil {
		return nil, 0
	}
	if n := fastCount(d, dtype); n > 0 {
		return d.data, n
	}
	t := a.Tensor(i)
	if t == nil {
		return nil, 0
	}
	data, n, err := values(t)
	if err != nil {
		a.refused(i, err)
	}
	return data, n
}

// The limits of the fast path. The data of a tensor lies at an address from lowest to lowest+addresses, and the tensor
// has fewer than most elements. So it cannot reach beyond the end of the address space.
const (
	lowest    = 1 << 16 // tensors at lower addresses are left to the checks of package dlpack
	addresses = 1 << 62
	most      = 1 << 31
)

// fastCount returns the number of elements of a tensor on the fast path, and 0 for all other tensors. The fast path is
// for elements of the given type, on the host, at a valid address, aligned for every type, row-major, and so few that
// nothing overflows. It excludes bool, because the value of each byte must be checked.
func fastCount(d *C.DLTensor, dtype dlpack.DataType) int {
	if d.device.device_type != C.kDLCPU || uintptr(d.data)-lowest >= addresses || uintptr(d.data)%16 != 0 || d.byte_offset != 0 ||
		*(*dlpack.DataType)(unsafe.Pointer(&d.dtype)) != dtype || dtype == dlpack.Bool {
		return 0
	}
	rank := int(d.ndim)
	if uint(rank) > 8 || rank > 0 && (addressIn(&d.shape) < lowest || addressIn(&d.strides)-1 < lowest-1) { // strides may be NULL
		return 0
	}
	count := int64(1)
	for k := rank - 1; k >= 0; k-- {
		n := *(*int64)(unsafe.Add(unsafe.Pointer(d.shape), 8*k))
		if d.strides != nil && n != 1 && *(*int64)(unsafe.Add(unsafe.Pointer(d.strides), 8*k)) != count {
			return 0
		}
		if uint64(n-1) >= most {
			return 0
		}
		if count *= n; count >= most {
			return 0
		}
	}
	return int(count)
}

// addressIn returns the address in a field of a foreign struct. Go code must not hold it as a pointer before it is checked,
// because the garbage collector ends the process if it finds an invalid pointer.
func addressIn[T any](field **T) uintptr { return *(*uintptr)(unsafe.Pointer(field)) }
