//go:build cgo

package tvmffi

// #include <stdlib.h>
// #include "tvmffi.h"
import "C"

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// Bytes is an argument of calls that is passed as a byte string. A []byte is passed as a tensor of uint8.
type Bytes []byte

// A Shaped is a slice with a shape, as an argument of calls. [Shape] returns one.
type Shaped struct {
	data  unsafe.Pointer
	count int
	dtype dlpack.DataType
	rank  int
	few   [4]int64
	many  []int64 // the shape, if it has more dimensions than few
}

// Shape returns a slice with a shape, to be passed to a function. The elements are row-major without gaps. The call
// returns [dlpack.ErrLayout] unless the shape has len(data) elements. Without Shape, a slice has one dimension.
func Shape[T dlpack.Element](data []T, shape ...int64) *Shaped {
	s := new(Shaped) // on the caller's stack, because Shape is inlined
	shapeOf(s, data, shape)
	return s
}

func shapeOf[T dlpack.Element](s *Shaped, data []T, shape []int64) {
	s.data, s.count, s.dtype, s.rank = unsafe.Pointer(unsafe.SliceData(data)), len(data), dlpack.DataTypeOf[T](), len(shape)
	if copy(s.few[:], shape) < len(shape) {
		s.many = slices.Clone(shape)
	}
}

// A Kept is a tensor that the called function may keep. [Keep] returns one.
type Kept struct{ tensor *dlpack.Tensor }

// Keep passes a tensor as an object of TVM-FFI that the function may hold after the call. Functions with a parameter of type
// Tensor need it. Without Keep, a tensor is passed as a view that ends with the call.
//
// Ownership: the tensor stays the caller's; the function gets a share of its memory. Lifetime: the memory lives until the
// tensor is closed and the function has released its share. Threads: any. On error: see [Function.Call]; no share is left
// behind.
func Keep(t *dlpack.Tensor) Kept { return Kept{t} }

// A Constant is a tensor that the called function only reads. It may be read-only. [UnsafeConstant] returns one.
type Constant struct{ tensor *dlpack.Tensor }

// UnsafeConstant passes a tensor that may be read-only. TVM-FFI has no flag for read-only tensors, and nothing prevents
// a function from writing to it. The caller must know that the called function does not write to it.
func UnsafeConstant(t *dlpack.Tensor) Constant { return Constant{t} }

// onHeap returns t and hides it from the compiler's escape analysis. Every tensor lies on the heap anyway. The slices
// next to it in a list of arguments do not, and they would otherwise escape together with it.
func onHeap(t *dlpack.Tensor) *dlpack.Tensor {
	return (*dlpack.Tensor)(pointer(uintptr(unsafe.Pointer(t))))
}

// next appends an argument, all zeros, and returns it.
func (c *call) next() *C.ffi_argument {
	c.args = append(c.args, C.ffi_argument{})
	return &c.args[len(c.args)-1]
}

// plain appends an argument that is complete with the 64 bits of its value, such as a number or the address of an object.
func (c *call) plain(kind int32, bits uint64) {
	a := c.next()
	a._type, a.value, a.ndim = C.int32_t(kind), C.uint64_t(bits), -1
}

func (c *call) integer(n int64) { c.plain(C.FFI_INT, uint64(n)) }

// add appends the description of one argument. It must not keep arg, which points to the caller's stack.
func (c *call) add(f *Function, arg any) error {
	switch a := arg.(type) {
	case []float32: // the most frequent type, without reflection
		return c.vector(f, unsafe.Pointer(unsafe.SliceData(a)), len(a), dlpack.Float32)
	case *dlpack.Tensor:
		return c.tensor(f, onHeap(a), false)
	case *Shaped:
		return c.shaped(f, a)
	case nil:
		c.plain(C.FFI_NONE, 0)
	case int:
		c.integer(int64(a))
	case float64:
		c.plain(C.FFI_FLOAT, math.Float64bits(a))
	case bool:
		c.plain(C.FFI_BOOL, boolBits(a))
	case string:
		return c.text(unsafe.StringData(a), len(a), false)
	case Bytes:
		return c.text(unsafe.SliceData(a), len(a), true)
	case []float64:
		return vector(c, f, a)
	case []int:
		return vector(c, f, a)
	case []int8:
		return vector(c, f, a)
	case []int16:
		return vector(c, f, a)
	case []int32:
		return vector(c, f, a)
	case []int64:
		return vector(c, f, a)
	case []uint:
		return vector(c, f, a)
	case []uint8:
		return vector(c, f, a)
	case []uint16:
		return vector(c, f, a)
	case []uint32:
		return vector(c, f, a)
	case []uint64:
		return vector(c, f, a)
	case []bool:
		return vector(c, f, a)
	case []complex64:
		return vector(c, f, a)
	case []complex128:
		return vector(c, f, a)
	case float32:
		c.plain(C.FFI_FLOAT, math.Float64bits(float64(a)))
	case int8, int16, int32, int64:
		c.integer(reflect.ValueOf(a).Int())
	case uint8, uint16, uint32, uint, uint64:
		n := reflect.ValueOf(a).Uint()
		if n > math.MaxInt64 {
			return newError(dlpack.ErrOverflow, "%d is more than 2^63-1", n)
		}
		c.integer(int64(n))
	case dlpack.DataType:
		c.plain(C.FFI_DTYPE, uint64(a))
	case dlpack.Device:
		c.plain(C.FFI_DEVICE, deviceBits(a))
	case Kept:
		return c.kept(f, onHeap(a.tensor))
	case Constant:
		return c.tensor(f, onHeap(a.tensor), true)
	case *Function:
		if a == nil {
			return errNil
		}
		return c.object(&a.reference)
	case *Module:
		if a == nil {
			return errNil
		}
		return c.object(&a.reference)
	case *Object:
		if a == nil {
			return errNil
		}
		return c.object(&a.reference)
	default:
		return newError(ErrArgument, "TVM-FFI cannot represent %s; Function.Call lists the types that can be passed", reflect.TypeOf(arg).String())
	}
	return nil
}

func deviceBits(d dlpack.Device) uint64 { return *(*uint64)(unsafe.Pointer(&d)) }

func boolBits(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// object appends a reference to an object. Its parameter is not an interface, because calling a method through an
// interface would make all arguments of the call escape.
func (c *call) object(r *reference) error {
	kind, handle := r.share()
	if handle == 0 {
		return newError(dlpack.ErrClosed, "it is closed")
	}
	c.objects = append(c.objects, uintptr(handle))
	c.plain(kind, handle)
	return nil
}

// text appends a string or a byte string: in the argument itself if it is short, and otherwise as an object.
func (c *call) text(data *byte, size int, bytes bool) error {
	kind, flag := int32(C.FFI_SMALL_STRING), C.int(0)
	if bytes {
		kind, flag = C.FFI_SMALL_BYTES, 1
	}
	if size > C.FFI_SMALL_MAX {
		r := C.ffi_string((*C.char)(unsafe.Pointer(data)), C.size_t(size), flag)
		if r.status != 0 {
			return raised("", r)
		}
		c.objects = append(c.objects, uintptr(r.value))
		c.plain(int32(r._type), uint64(r.value))
		return nil
	}
	var few [8]byte
	copy(few[:], unsafe.Slice(data, size))
	c.plain(kind, *(*uint64)(unsafe.Pointer(&few)))
	c.args[len(c.args)-1].size = C.uint32_t(size)
	return nil
}

// vector appends a slice as a tensor of one dimension.
func vector[T dlpack.Element](c *call, f *Function, data []T) error {
	return c.vector(f, unsafe.Pointer(unsafe.SliceData(data)), len(data), dlpack.DataTypeOf[T]())
}

func (c *call) vector(f *Function, data unsafe.Pointer, count int, dtype dlpack.DataType) error {
	c.dims = append(c.dims, int64(count), 1)
	return c.view(f, data, count, dtype, 1)
}

func (c *call) shaped(f *Function, s *Shaped) error {
	if s == nil {
		return errNil
	}
	shape := s.few[:min(s.rank, len(s.few))]
	if s.many != nil {
		shape = s.many
	}
	start, rank := len(c.dims), len(shape)
	c.dims = slices.Grow(c.dims, 2*rank)[:start+2*rank]
	copy(c.dims[start:], shape)
	_, err := layout.AppendRowMajor(c.dims[:start+rank], c.dims[start:start+rank])
	if err != nil {
		return newError(dlpack.ErrLayout, "the shape %v has a negative size or too many elements", slices.Clone(shape))
	}
	if count, _ := layout.Count(c.dims[start : start+rank]); count != int64(s.count) {
		return newError(dlpack.ErrLayout, "the shape %v has %d elements, but the slice has %d", slices.Clone(shape), count, s.count)
	}
	return c.view(f, s.data, s.count, s.dtype, rank)
}

// view appends a tensor over Go memory. The caller has appended its shape and its strides to c.dims.
func (c *call) view(f *Function, data unsafe.Pointer, count int, dtype dlpack.DataType, rank int) error {
	if count == 0 {
		data = nil
	}
	if uintptr(data)&(f.align-1) != 0 {
		return unaligned(uintptr(data), f.align)
	}
	a := c.next()
	a._type, a.direct, a.ndim, a.dtype = C.FFI_DLTENSOR, -1, C.int32_t(rank), C.uint32_t(dtype)
	a.dims, a.device_type = C.uint32_t(len(c.dims)-2*rank), C.kDLCPU
	if data == nil {
		return nil
	}
	if c.used < direct && !c.pins {
		c.direct[c.used] = data
		a.direct = C.int32_t(c.used)
	} else {
		c.pinned.Pin(data)
		a.value = C.uint64_t(uintptr(data))
	}
	c.used++
	return nil
}

func unaligned(address, align uintptr) error {
	remedy := "; use dlpack.New or Tensor.Align to get aligned memory"
	if align > dlpack.AllocAlignment {
		remedy = ""
	}
	return newError(dlpack.ErrUnaligned, "data at %#x is not aligned to %d bytes%s", address, align, remedy)
}

// aligned returns an error if t is on the host and its data does not have the alignment that f requires.
func (f *Function) aligned(t *dlpack.Tensor) error {
	if t.Device().HostReadable() && t.Data()&(f.align-1) != 0 {
		return unaligned(t.Data(), f.align)
	}
	return nil
}

// tensor appends a tensor. An export holds it until the call ends. A borrowed tensor cannot be exported, so it is
// described by value. constant allows a read-only tensor.
func (c *call) tensor(f *Function, t *dlpack.Tensor, constant bool) error {
	if t == nil {
		return errNil
	}
	if t.Flags()&dlpack.ReadOnly != 0 && !constant {
		return newError(dlpack.ErrReadOnly, "the tensor is read-only, which TVM-FFI cannot express; UnsafeConstant passes it to functions that only read")
	}
	if err := f.aligned(t); err != nil {
		return err
	}
	m, err := t.Export()
	if err == nil {
		c.exports = append(c.exports, m)
		c.plain(C.FFI_DLTENSOR, uint64(uintptr(unsafe.Pointer(&(*C.DLManagedTensorVersioned)(m).dl_tensor))))
		return nil
	}
	if !errors.Is(err, dlpack.ErrBorrowed) || c.pins {
		return err
	}
	rank := t.Rank()
	start := len(c.dims)
	for d := range rank {
		c.dims = append(c.dims, t.Dim(d))
	}
	for d := range rank {
		c.dims = append(c.dims, t.Stride(d))
	}
	device := t.Device()
	a := c.next()
	a._type, a.value, a.direct, a.ndim = C.FFI_DLTENSOR, C.uint64_t(t.Data()), -1, C.int32_t(rank)
	a.dtype, a.dims, a.byte_offset = C.uint32_t(t.DType()), C.uint32_t(start), C.uint64_t(t.ByteOffset())
	a.device_type, a.device_id = C.int32_t(device.Type), C.int32_t(device.ID)
	return nil
}

// kept appends a tensor as an object.
func (c *call) kept(f *Function, t *dlpack.Tensor) error {
	if t == nil {
		return errNil
	}
	if t.Flags()&dlpack.ReadOnly != 0 {
		return newError(dlpack.ErrReadOnly, "the tensor is read-only, which TVM-FFI cannot express; Copy makes a writable one")
	}
	if err := f.aligned(t); err != nil {
		return err
	}
	o, err := tensorObject(t)
	if err != nil {
		return err
	}
	c.objects = append(c.objects, o)
	c.plain(C.FFI_TENSOR, uint64(o))
	return nil
}

// tensorObject returns an object of TVM-FFI that holds a share of a tensor. The caller owns the reference to the object.
func tensorObject(t *dlpack.Tensor) (uintptr, error) {
	m, err := t.Export()
	if err != nil {
		return 0, err
	}
	r := C.ffi_tensor(C.uintptr_t(uintptr(m)))
	if r.status != 0 {
		dlpack.Release(m)
		return 0, raised("", r)
	}
	return uintptr(r.value), nil
}
