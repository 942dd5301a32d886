//go:build cgo

package dlpack

import (
	"reflect"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack/internal/core"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// At returns the element with the given index. t must have the data type of T. It may have any layout, and need not be
// aligned. There must be one index for each dimension; a negative index counts from the end. [Tensor.At] works for every
// data type. [Values] is faster for many elements.
//
// Ownership: none. Lifetime: none, the element is copied. Threads: any, while nobody writes to it. On
// error: [ErrClosed], [ErrDType], [ErrDevice], [ErrValue] for a bool that is not 0 or 1, and
// [ErrLayout] together with [layout.ErrIndex] or [layout.ErrRank].
func At[T Element](t *Tensor, index ...int64) (value T, err error) {
	const op = "at"
	if err := t.acquire(op); err != nil {
		return value, err
	}
	defer t.done()
	from, err := locate[T](op, t, index)
	if err != nil {
		return value, err
	}
	if b := *(*byte)(from); t.dtype == Bool && b > 1 {
		return value, newError(op, ErrValue, "the byte of a bool is %d, but must be 0 or 1", b)
	}
	copyElement(unsafe.Pointer(&value), from, unsafe.Sizeof(value))
	return value, nil
}

// SetAt sets the element with the given index. t and index must be as for [At].
//
// Ownership: none. Lifetime: none. Threads: any, while nobody else uses the element. On error: as [At], and
// [ErrReadOnly].
func SetAt[T Element](t *Tensor, value T, index ...int64) error {
	const op = "set at"
	if err := t.acquire(op); err != nil {
		return err
	}
	defer t.done()
	to, err := locate[T](op, t, index)
	if err != nil {
		return err
	}
	if t.ReadOnly() {
		return t.errReadOnly(op, "; Copy makes a writable one")
	}
	copyElement(to, unsafe.Pointer(&value), unsafe.Sizeof(value))
	return nil
}

// copyElement copies an element of size bytes, which need not be aligned.
func copyElement(to, from unsafe.Pointer, size uintptr) {
	copy(unsafe.Slice((*byte)(to), size), unsafe.Slice((*byte)(from), size))
}

// locate returns the address of an element of t, which must have the data type of T. The caller must have acquired t.
func locate[T Element](op string, t *Tensor, index []int64) (unsafe.Pointer, error) {
	if dt := DataTypeOf[T](); t.dtype != dt {
		return nil, t.errDType(op, dt)
	}
	at, _, err := t.locate(op, index)
	return at, err
}

// locate returns the address of the byte in which an element begins, and the number of its first bit in that byte.
func (t *Tensor) locate(op string, index []int64) (at unsafe.Pointer, bit uint, err error) {
	if !t.device.HostReadable() {
		return nil, 0, t.newError(op, ErrDevice, "memory on %v cannot be addressed; its producer can copy it to the CPU", t.device)
	}
	var signs int64
	for _, i := range index {
		signs |= i
	}
	if signs < 0 {
		index = t.fromStart(index)
	}
	offset, err := layout.Layout{Shape: t.shape(), Strides: t.strides()}.OffsetOf(index...)
	if err != nil {
		return nil, 0, t.newLayoutError(op, err)
	}
	// The distance in bits may exceed 63 bits, so whole bytes and remaining bits are multiplied separately.
	width := t.width(t.dtype)
	whole, rest := offset*(width/8), offset*(width%8)
	return core.Pointer(t.data + uintptr(whole+rest>>3)), uint(rest & 7), nil
}

// fromStart returns a copy of index with all numbers counted from the start. Numbers outside the tensor stay negative, so
// that the caller's bounds check finds them.
func (t *Tensor) fromStart(index []int64) []int64 {
	index = slices.Clone(index)
	for d := range min(len(index), int(t.rank)) {
		if i := index[d] + t.shape()[d]; index[d] < 0 && i >= 0 {
			index[d] = i
		}
	}
	return index
}

// At returns the element with the given index, like the function [At], but for every data type, including those that Go
// does not have. The result has Go's type for the data type: bool, int8 to int64, uint8 to uint64, float32, float64,
// complex64 or complex128. If Go has no type for it, the result has the smallest of these types that can hold every
// number of the data type. Examples are int8 for int4, uint8 for uint2, complex64 for complex32, and float32 for
// float16, bfloat16 and the smaller floats.
//
// Ownership: none. Lifetime: none, the element is copied. Threads: any, while nobody writes to it. On
// error: as the function [At], and [ErrDType] for handles and for types of several lanes.
func (t *Tensor) At(index ...int64) (any, error) {
	const op = "at"
	if err := t.acquire(op); err != nil {
		return nil, err
	}
	defer t.done()
	from, bit, err := t.locate(op, index)
	if err != nil {
		return nil, err
	}
	holder, goType := holderOf(t.dtype)
	if goType == nil {
		return nil, t.newError(op, ErrDType, "elements of %v are not single numbers; View shows them as another type", t.dtype)
	}
	s := scalars.Get().(*scalar)
	defer scalars.Put(s)
	s.read(from, bit, uint(t.width(t.dtype)))
	if t.dtype == Bool && s.bytes[0] > 1 {
		return nil, t.newError(op, ErrValue, "the byte of a bool is %d, but must be 0 or 1", s.bytes[0])
	}
	s.convert(holder, t.dtype)
	return reflect.NewAt(goType, unsafe.Pointer(&s.bytes)).Elem().Interface(), nil
}

// SetAt sets the element with the given index, for every data type and layout. value must be a bool if the elements are
// bools, and otherwise a number of any Go type. An integer element must be able to hold the value exactly. A float or
// complex element becomes the number nearest to the value, rounded as by [Tensor.ConvertTo].
//
// Ownership: none. Lifetime: none. Threads: any, while nobody else uses the element or, if elements are packed, its
// neighbours in the same byte. On error: as [Tensor.At]; [ErrReadOnly]; [ErrDType] for a value of another kind, such as a
// float for an integer element; [ErrValue] for an integer that does not fit.
func (t *Tensor) SetAt(value any, index ...int64) error {
	const op = "set at"
	if err := t.acquire(op); err != nil {
		return err
	}
	defer t.done()
	to, bit, err := t.locate(op, index)
	if err != nil {
		return err
	}
	if t.ReadOnly() {
		return t.errReadOnly(op, "; Copy makes a writable one")
	}
	s := scalars.Get().(*scalar)
	defer scalars.Put(s)
	if err := s.set(op, t.dtype, reflect.ValueOf(value)); err != nil {
		return err
	}
	s.write(to, bit, uint(t.width(t.dtype)))
	return nil
}

// holderOf returns the smallest Go type that can hold every number of dtype, and its data type. It returns 0 and nil if an
// element is not a single number.
func holderOf(dtype DataType) (holder DataType, goType reflect.Type) {
	if goType = goTypes[dtype]; goType != nil {
		return dtype, goType
	}
	if dtype.Lanes() != 1 || dtype.Code() == CodeOpaqueHandle {
		return 0, nil
	}
	switch dtype.Code() {
	case CodeInt:
		holder = Int8
	case CodeUInt:
		holder = Uint8
	case CodeComplex:
		holder = Complex64
	default:
		holder = Float32
	}
	return holder, goTypes[holder]
}

// A scalar holds one element while C converts it. It must be on the heap, because stacks may move.
type scalar struct{ bytes, old [16]byte }

var scalars = sync.Pool{New: func() any { return new(scalar) }}

// set stores a Go value as an element of type dtype. The errors are those of [Tensor.SetAt].
func (s *scalar) set(op string, dtype DataType, value reflect.Value) error {
	integer, real := dtype.Code() == CodeInt || dtype.Code() == CodeUInt, dtype.Code() != CodeComplex
	holder, _ := holderOf(dtype)
	start := unsafe.Pointer(&s.bytes)
	switch {
	case holder == 0:
		return newError(op, ErrDType, "elements of %v are not single numbers; View shows them as another type", dtype)
	case dtype == Bool && value.Kind() == reflect.Bool:
		*(*bool)(start) = value.Bool()
		return nil
	case dtype == Bool:
	case value.CanInt(), value.CanUint():
		from, number, negative := Uint64, uint64(0), false
		if value.CanInt() {
			from, number, negative = Int64, uint64(value.Int()), value.Int() < 0
		} else {
			number = value.Uint()
		}
		if integer && !fits(dtype, negative, number) {
			return newError(op, ErrValue, "%d does not fit in %v", value.Interface(), dtype)
		}
		*(*uint64)(start) = number
		if !integer || holder != dtype { // otherwise the lowest bytes already are the element
			s.convert(dtype, from)
		}
		return nil
	case value.CanFloat() && dtype == Float32:
		*(*float32)(start) = float32(value.Float())
		return nil
	case value.CanFloat() && !integer:
		*(*float64)(start) = value.Float()
		s.convert(dtype, Float64)
		return nil
	case value.CanComplex() && !real:
		*(*complex128)(start) = value.Complex()
		s.convert(dtype, Complex128)
		return nil
	}
	if !value.IsValid() {
		return newError(op, ErrDType, "nil is not a value for an element of %v", dtype)
	}
	return newError(op, ErrDType, "a %v cannot be an element of %v", value.Type(), dtype)
}

// fits reports whether an element of an integer type can hold a number. number has 64 bits, in two's complement if
// negative is true.
func fits(dtype DataType, negative bool, number uint64) bool {
	width := dtype.Bits()
	if dtype.Code() == CodeInt {
		width-- // without the sign
	}
	if negative {
		return dtype.Code() == CodeInt && int64(number)>>width == -1
	}
	return number>>width == 0
}

// convert converts the scalar from one type to another, as [Tensor.ConvertTo] does.
func (s *scalar) convert(to, from DataType) {
	if to == from {
		return
	}
	s.old = s.bytes
	core.ConvertOne(
		&core.Numbers{Data: uintptr(unsafe.Pointer(&s.bytes)), DType: core.DataType(to), Padded: true},
		&core.Numbers{Data: uintptr(unsafe.Pointer(&s.old)), DType: core.DataType(from), Padded: true},
	)
	runtime.KeepAlive(s)
}

// read copies an element from memory: bits/8 bytes, or fewer than 8 bits that begin at the given bit of the first byte.
func (s *scalar) read(from unsafe.Pointer, bit, bits uint) {
	if bits%8 == 0 {
		copyElement(unsafe.Pointer(&s.bytes), from, uintptr(bits/8))
		return
	}
	s.bytes[0] = *(*byte)(from) >> bit
	if bit+bits > 8 {
		s.bytes[0] |= *(*byte)(unsafe.Add(from, 1)) << (8 - bit)
	}
	s.bytes[0] &= 1<<bits - 1
}

// write copies the element to memory, with arguments as for read. It does not change the bits around the element.
func (s *scalar) write(to unsafe.Pointer, bit, bits uint) {
	if bits%8 == 0 {
		copyElement(to, unsafe.Pointer(&s.bytes), uintptr(bits/8))
		return
	}
	ours, value := uint16(1<<bits-1)<<bit, uint16(s.bytes[0])<<bit
	first := (*byte)(to)
	*first = *first&^byte(ours) | byte(value&ours)
	if bit+bits > 8 {
		second := (*byte)(unsafe.Add(to, 1))
		*second = *second&^byte(ours>>8) | byte(value&ours>>8)
	}
}
