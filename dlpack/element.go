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

// At reads the element with this index of a tensor whose data type is T's, whatever its layout, aligned or not.
// There is an index for each dimension; negative ones count from the end. [Tensor.At] is for any type; [Values]
// is for many elements.
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
		return value, refuse(op, ErrValue, "the byte of a bool is %d", b)
	}
	copyElement(unsafe.Pointer(&value), from, unsafe.Sizeof(value))
	return value, nil
}

// SetAt writes the element with this index of a tensor whose data type is T's: see [At].
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
		return refuse(op, ErrReadOnly, "the tensor is read-only")
	}
	copyElement(to, unsafe.Pointer(&value), unsafe.Sizeof(value))
	return nil
}

// copyElement copies an element that may lie anywhere.
func copyElement(to, from unsafe.Pointer, size uintptr) {
	copy(unsafe.Slice((*byte)(to), size), unsafe.Slice((*byte)(from), size))
}

// locate finds an element of a tensor of T's data type. The caller holds the memory.
func locate[T Element](op string, t *Tensor, index []int64) (unsafe.Pointer, error) {
	if dt := DataTypeOf[T](); t.dtype != dt {
		return nil, refuse(op, ErrDType, "the tensor has %v, asked for %v", t.dtype, dt)
	}
	at, _, err := t.locate(op, index)
	return at, err
}

// locate finds an element: the byte it begins in, and at which bit of it.
func (t *Tensor) locate(op string, index []int64) (at unsafe.Pointer, bit uint, err error) {
	if !t.device.HostReadable() {
		return nil, 0, refuse(op, ErrDevice, "memory on %v cannot be addressed", t.device)
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
		return nil, 0, refuseLayout(op, err)
	}
	// In bytes and bits, since an element may lie 2^63 bits away.
	width := t.width(t.dtype)
	whole, rest := offset*(width/8), offset*(width%8)
	return core.Pointer(t.data + uintptr(whole+rest>>3)), uint(rest & 7), nil
}

// fromStart is a copy of the index without numbers that count from the end, but for those that lead out of the tensor.
func (t *Tensor) fromStart(index []int64) []int64 {
	index = slices.Clone(index)
	for d := range min(len(index), int(t.rank)) {
		if i := index[d] + t.shape()[d]; index[d] < 0 && i >= 0 {
			index[d] = i
		}
	}
	return index
}

// At reads the element with this index, whatever its type and layout: as [At], for types that are not known
// before, and for those that Go has none for. An element is what it is in Go: a bool, an int8 to int64, a uint8
// to uint64, a float32 or float64, a complex64 or complex128. The others become the smallest of these that has
// all of their numbers: int4 an int8, uint2 a uint8, complex32 a complex64, and bfloat16, float16 and the
// smaller floats a float32.
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
	holder := holderOf(t.dtype)
	if holder == 0 {
		return nil, refuse(op, ErrDType, "%v is no number", t.dtype)
	}
	s := scalars.Get().(*scalar)
	defer scalars.Put(s)
	s.read(from, bit, uint(t.width(t.dtype)))
	if t.dtype == Bool && s.bytes[0] > 1 {
		return nil, refuse(op, ErrValue, "the byte of a bool is %d", s.bytes[0])
	}
	s.become(holder, t.dtype)
	return reflect.NewAt(goTypes[holder], unsafe.Pointer(&s.bytes)).Elem().Interface(), nil
}

// SetAt writes the element with this index, whatever its type and layout: see [Tensor.At]. The value is a number
// of Go's, of any type, or a bool for a bool. An integer has to be one that the element can be; what is written
// to an element that is a float, or complex, becomes the nearest number, as [Tensor.ConvertTo] says. Packed
// elements of fewer than 8 bits share a byte with their neighbours, which it is then no time to use.
//
// Ownership: none. Lifetime: none. Threads: any, while nobody else uses the element. On error: as
// [Tensor.At]; [ErrReadOnly]; [ErrDType] for a value of another kind, such as a float for an integer;
// [ErrValue] for an integer that there is no room for.
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
		return refuse(op, ErrReadOnly, "the tensor is read-only")
	}
	s := scalars.Get().(*scalar)
	defer scalars.Put(s)
	if err := s.set(op, t.dtype, reflect.ValueOf(value)); err != nil {
		return err
	}
	s.write(to, bit, uint(t.width(t.dtype)))
	return nil
}

// goTypes are the types that elements have in Go.
var goTypes = map[DataType]reflect.Type{
	Bool: reflect.TypeFor[bool](),
	Int8: reflect.TypeFor[int8](), Int16: reflect.TypeFor[int16](), Int32: reflect.TypeFor[int32](), Int64: reflect.TypeFor[int64](),
	Uint8: reflect.TypeFor[uint8](), Uint16: reflect.TypeFor[uint16](), Uint32: reflect.TypeFor[uint32](), Uint64: reflect.TypeFor[uint64](),
	Float32: reflect.TypeFor[float32](), Float64: reflect.TypeFor[float64](),
	Complex64: reflect.TypeFor[complex64](), Complex128: reflect.TypeFor[complex128](),
}

// holderOf is the smallest of Go's types that has all the numbers of a type, or 0.
func holderOf(dtype DataType) DataType {
	if _, own := goTypes[dtype]; own {
		return dtype
	}
	if dtype.Lanes() != 1 || dtype.Code() == CodeOpaqueHandle {
		return 0
	}
	switch dtype.Code() {
	case CodeInt:
		return Int8
	case CodeUInt:
		return Uint8
	case CodeComplex:
		return Complex64
	}
	return Float32
}

// A scalar is an element on its own, in memory that does not move while C works on it.
type scalar struct{ bytes, old [16]byte }

var scalars = sync.Pool{New: func() any { return new(scalar) }}

// set makes the scalar a value of Go's, as a type.
func (s *scalar) set(op string, dtype DataType, value reflect.Value) error {
	integer, real := dtype.Code() == CodeInt || dtype.Code() == CodeUInt, dtype.Code() != CodeComplex
	holder := holderOf(dtype)
	start := unsafe.Pointer(&s.bytes)
	switch {
	case holder == 0:
		return refuse(op, ErrDType, "%v is no number", dtype)
	case dtype == Bool && value.Kind() == reflect.Bool:
		*(*bool)(start) = value.Bool()
		return nil
	case dtype == Bool:
	case value.CanInt():
		if integer && !fits(dtype, value.Int() < 0, uint64(value.Int())) {
			return refuse(op, ErrValue, "%d is no %v", value.Int(), dtype)
		}
		*(*int64)(start) = value.Int()
		if !integer || holder != dtype { // else it is one that fits, the lowest byte first
			s.become(dtype, Int64)
		}
		return nil
	case value.CanUint():
		if integer && !fits(dtype, false, value.Uint()) {
			return refuse(op, ErrValue, "%d is no %v", value.Uint(), dtype)
		}
		*(*uint64)(start) = value.Uint()
		if !integer || holder != dtype {
			s.become(dtype, Uint64)
		}
		return nil
	case value.CanFloat() && dtype == Float32:
		*(*float32)(start) = float32(value.Float())
		return nil
	case value.CanFloat() && !integer:
		*(*float64)(start) = value.Float()
		s.become(dtype, Float64)
		return nil
	case value.CanComplex() && !real:
		*(*complex128)(start) = value.Complex()
		s.become(dtype, Complex128)
		return nil
	}
	if !value.IsValid() {
		return refuse(op, ErrDType, "nothing for an element of %v", dtype)
	}
	return refuse(op, ErrDType, "a %v for an element of %v", value.Type(), dtype)
}

// fits reports whether an integer of 64 bits is one of a type's.
func fits(dtype DataType, negative bool, number uint64) bool {
	switch spare := 64 - uint(dtype.Bits()); {
	case dtype.Code() == CodeUInt:
		return !negative && number<<spare>>spare == number
	case negative:
		return uint64(int64(number)<<spare>>spare) == number
	default:
		return number<<spare>>spare == number && int64(number<<spare) >= 0
	}
}

// become makes the scalar what it is as another type, as [Tensor.ConvertTo] does.
func (s *scalar) become(to, from DataType) {
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

// read takes bits out of memory, from one of the first byte on: some bytes, or fewer than 8 bits.
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

// write is the reverse of read. It leaves the bits around as they are.
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
