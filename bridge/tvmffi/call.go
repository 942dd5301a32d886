//go:build cgo

package tvmffi

// #include <stdlib.h>
// #include "tvmffi.h"
import "C"

import (
	"errors"
	"math"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// Bytes is a byte string, for calls: a []byte is a tensor of uint8.
type Bytes []byte

// A Shaped is a slice with a shape, as an argument of calls. [Shape] makes it.
type Shaped struct {
	data  unsafe.Pointer
	count int
	dtype dlpack.DataType
	rank  int
	few   [4]int64
	many  []int64 // where there are more
}

// Shape gives a slice a shape for calls, row-major without gaps. Without it a slice has one
// dimension.
func Shape[T dlpack.Element](data []T, shape ...int64) *Shaped {
	s := new(Shaped) // on the caller's stack: this is inlined
	shapeOf(s, data, shape)
	return s
}

func shapeOf[T dlpack.Element](s *Shaped, data []T, shape []int64) {
	s.data, s.count, s.dtype, s.rank = unsafe.Pointer(unsafe.SliceData(data)), len(data), dlpack.DataTypeOf[T](), len(shape)
	if copy(s.few[:], shape) < len(shape) {
		s.many = slices.Clone(shape)
	}
}

// A Kept is a tensor that the function may keep. [Keep] makes it.
type Kept struct{ tensor *dlpack.Tensor }

// Keep passes a tensor as an object of TVM-FFI's, which the function may hold on to after the call,
// as functions with a parameter of type Tensor ask for. By itself a tensor is passed as a view that
// ends with the call.
//
// Ownership: the tensor stays the caller's; the function gets a share of its memory. Lifetime: the
// memory lives until the tensor is closed and the function has let go of it. Threads: any. On
// error: see [Function.Call]; no share is left behind.
func Keep(t *dlpack.Tensor) Kept { return Kept{t} }

// A Constant is a read-only tensor that a function may read. [UnsafeConstant] makes it.
type Constant struct{ tensor *dlpack.Tensor }

// UnsafeConstant passes a tensor that may be read-only. TVM-FFI has no word for that, and nothing
// keeps a function from writing to it; the caller knows that this one does not.
func UnsafeConstant(t *dlpack.Tensor) Constant { return Constant{t} }

// As is the result of a call as a T, one of the types that [Function.Call] lists: it takes both
// results of the call.
//
// On error: the call's, or [ErrArgument] where the result is another type, which is closed.
func As[T any](result any, err error) (T, error) {
	value, ok := result.(T)
	if err == nil && !ok {
		dispose(result)
		err = refuse("result", ErrArgument, "%T, want %v", result, reflect.TypeFor[T]())
	}
	return value, err
}

// dispose closes what can be closed.
func dispose(value any) {
	if c, ok := value.(interface{ Close() error }); ok && !isNil(value) {
		c.Close()
	}
}

// isNil reports whether a value is a nil pointer with a type.
func isNil(value any) bool {
	v := reflect.ValueOf(value)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// Call calls the function. Arguments are
//
//	nil, bool, string                          themselves
//	int, uint8, float32 and the like           themselves; types of your own and uintptr must be converted
//	[]T of a [dlpack.Element], [Shape]         a tensor over the slice, for the time of the call
//	*[dlpack.Tensor]                           the tensor, for the time of the call; see also [Keep]
//	[dlpack.DataType], [dlpack.Device]         themselves
//	[Bytes]                                    a byte string
//	*[Function], *[Module], *[Object]          themselves
//
// and results are nil, bool, int64, float64, string, []byte, uintptr (a pointer without a type),
// [dlpack.DataType], [dlpack.Device], *[dlpack.Tensor], *[Function], *[Module], *[Object], or
// *[Error] where an error is what was returned, and not raised. [As] asks for one type.
//
// The data of tensors on the host must be aligned to [DefaultAlignment] bytes, or what [Alignment]
// says: TVM's kernels do not look, and end the process. Slices of less than a page are aligned by
// chance only; [dlpack.New] makes memory that always is, and [dlpack.Tensor.Align] copies where it
// must. Everything else about a tensor is for the function to check, and tensors inside an [Object]
// are. Read-only tensors are refused, since functions cannot know; see [UnsafeConstant]. What came
// in the form of before DLPack 1.0 does not say, and is passed on, as by
// [dlpack.Tensor.ExportLegacy].
//
// Slices are not copied and not pinned, and the call allocates nothing for up to 8 of them.
//
// Ownership: arguments stay the caller's, a result is the caller's to close. Lifetime: a tensor of
// borrowed memory must stay valid until the call returns, others are held. Threads: any, also at
// once. On error: *[Error] for what the function raised; [dlpack.ErrUnaligned],
// [dlpack.ErrReadOnly], [dlpack.ErrClosed], [ErrArgument] before it was called; [dlpack.ErrMemory] for a string that there
// is no memory for. Nothing is kept.
func (f *Function) Call(args ...any) (any, error) {
	if f == nil || !f.acquire() {
		return nil, errClosed(f.Name())
	}
	c := calls.Get().(*call)
	defer f.leave(c) // deferred, since a Go function that is called may end the goroutine
	err := c.describe(f, args)
	var r C.ffi_result
	if err == nil {
		d := &c.direct
		r = C.ffi_invoke(C.uintptr_t(f.handle), c.first(), C.int32_t(len(c.args)), c.firstDim(), (*C.char)(d[0]), (*C.char)(d[1]),
			(*C.char)(d[2]), (*C.char)(d[3]), (*C.char)(d[4]), (*C.char)(d[5]), (*C.char)(d[6]), (*C.char)(d[7]))
	}
	if err != nil {
		return nil, err
	}
	if r.status != 0 {
		return nil, raised(f.name, r)
	}
	return value(r)
}

// leave ends a call.
func (f *Function) leave(c *call) {
	c.end()
	f.release()
}

// direct is the number of addresses of Go memory that are arguments of the C function itself.
const direct = C.FFI_DIRECT

// A call holds the arguments of one, in a form without pointers, and what must be given back after
// it.
type call struct {
	args    []C.ffi_argument
	dims    []int64
	direct  [direct]unsafe.Pointer
	used    int            // of direct
	pinned  runtime.Pinner // the addresses beyond those
	pins    bool           // all are, for calls that are made later
	exports []unsafe.Pointer
	objects []uintptr // one count each
}

var calls = sync.Pool{New: func() any { return new(call) }}

func (c *call) first() *C.ffi_argument { return unsafe.SliceData(c.args) }
func (c *call) firstDim() *C.int64_t   { return (*C.int64_t)(unsafe.Pointer(unsafe.SliceData(c.dims))) }

// end gives back what was taken for the call.
func (c *call) end() {
	for _, m := range c.exports {
		dlpack.Release(m)
	}
	for _, o := range c.objects {
		giveBack(o)
	}
	c.exports, c.objects = c.exports[:0], c.objects[:0]
	if c.pins || c.used > direct {
		c.pinned.Unpin()
	}
	clear(c.direct[:min(c.used, direct)])
	c.args, c.dims, c.used = c.args[:0], c.dims[:0], 0
	if !c.pins {
		calls.Put(c)
	}
}

// describe writes the arguments down.
func (c *call) describe(f *Function, args []any) error {
	if len(args) > C.FFI_ARGUMENTS {
		return refuse(f.name, ErrArgument, "%d arguments are more than %d", len(args), C.FFI_ARGUMENTS)
	}
	for i, arg := range args {
		if err := c.add(f, arg); err != nil {
			return at(f.name+": argument "+strconv.Itoa(i), err)
		}
	}
	return nil
}

// onHeap returns t without making it escape in the view of the compiler: every tensor lies on the heap,
// but slices beside it in a list of arguments do not, and should not have to because of it.
func onHeap(t *dlpack.Tensor) *dlpack.Tensor {
	return (*dlpack.Tensor)(pointer(uintptr(unsafe.Pointer(t))))
}

// next is a new argument, all zeros.
func (c *call) next() *C.ffi_argument {
	c.args = append(c.args, C.ffi_argument{})
	return &c.args[len(c.args)-1]
}

func (c *call) plain(kind int32, bits uint64) {
	a := c.next()
	a._type, a.value, a.ndim = C.int32_t(kind), C.uint64_t(bits), -1
}

func (c *call) integer(n int64) { c.plain(C.FFI_INT, uint64(n)) }

// add writes one argument down. It must not keep arg: what it points to lies on the caller's stack.
func (c *call) add(f *Function, arg any) error {
	switch a := arg.(type) {
	case []float32:
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
		bits := uint64(0)
		if a {
			bits = 1
		}
		c.plain(C.FFI_BOOL, bits)
	case string:
		return c.text(unsafe.StringData(a), len(a), false)
	case Bytes:
		return c.text(unsafe.SliceData(a), len(a), true)
	case []float64:
		return c.vector(f, unsafe.Pointer(unsafe.SliceData(a)), len(a), dlpack.Float64)
	case []int:
		return c.vector(f, unsafe.Pointer(unsafe.SliceData(a)), len(a), intType)
	case []int8:
		return c.vector(f, unsafe.Pointer(unsafe.SliceData(a)), len(a), dlpack.Int8)
	case []int16:
		return c.vector(f, unsafe.Pointer(unsafe.SliceData(a)), len(a), dlpack.Int16)
	case []int32:
		return c.vector(f, unsafe.Pointer(unsafe.SliceData(a)), len(a), dlpack.Int32)
	case []int64:
		return c.vector(f, unsafe.Pointer(unsafe.SliceData(a)), len(a), dlpack.Int64)
	case []uint:
		return c.vector(f, unsafe.Pointer(unsafe.SliceData(a)), len(a), uintType)
	case []uint8:
		return c.vector(f, unsafe.Pointer(unsafe.SliceData(a)), len(a), dlpack.Uint8)
	case []uint16:
		return c.vector(f, unsafe.Pointer(unsafe.SliceData(a)), len(a), dlpack.Uint16)
	case []uint32:
		return c.vector(f, unsafe.Pointer(unsafe.SliceData(a)), len(a), dlpack.Uint32)
	case []uint64:
		return c.vector(f, unsafe.Pointer(unsafe.SliceData(a)), len(a), dlpack.Uint64)
	case []bool:
		return c.vector(f, unsafe.Pointer(unsafe.SliceData(a)), len(a), dlpack.Bool)
	case []complex64:
		return c.vector(f, unsafe.Pointer(unsafe.SliceData(a)), len(a), dlpack.Complex64)
	case []complex128:
		return c.vector(f, unsafe.Pointer(unsafe.SliceData(a)), len(a), dlpack.Complex128)
	case float32:
		c.plain(C.FFI_FLOAT, math.Float64bits(float64(a)))
	case int8:
		c.integer(int64(a))
	case int16:
		c.integer(int64(a))
	case int32:
		c.integer(int64(a))
	case int64:
		c.integer(a)
	case uint8:
		c.integer(int64(a))
	case uint16:
		c.integer(int64(a))
	case uint32:
		c.integer(int64(a))
	case uint:
		return c.unsigned(uint64(a))
	case uint64:
		return c.unsigned(a)
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
		return c.object(C.FFI_FUNCTION, &a.reference)
	case *Module:
		if a == nil {
			return errNil
		}
		return c.object(C.FFI_MODULE, &a.reference)
	case *Object:
		if a == nil {
			return errNil
		}
		return c.object(a.kind, &a.reference)
	default:
		return deny(ErrArgument, "%s has no form in TVM-FFI", reflect.TypeOf(arg).String())
	}
	return nil
}

func deviceBits(d dlpack.Device) uint64 { return *(*uint64)(unsafe.Pointer(&d)) }

var errNil = deny(dlpack.ErrNull, "it is nil; what is None is nil without a type")

func (c *call) unsigned(n uint64) error {
	if n > math.MaxInt64 {
		return deny(dlpack.ErrOverflow, "%d is more than 2^63-1", n)
	}
	c.integer(int64(n))
	return nil
}

func (c *call) object(kind int32, r *reference) error {
	handle := r.share()
	if handle == 0 {
		return deny(dlpack.ErrClosed, "it is closed")
	}
	c.objects = append(c.objects, uintptr(handle))
	c.plain(kind, handle)
	return nil
}

// text writes a string down: in the argument itself where it is short, and else as an object.
func (c *call) text(data *byte, size int, bytes bool) error {
	kind, flag := int32(C.FFI_SMALL_STRING), C.int(0)
	if bytes {
		kind, flag = C.FFI_SMALL_BYTES, 1
	}
	if size > 7 {
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

// An int and a uint are as wide as they are on this machine.
var intType, uintType = dlpack.DataTypeOf[int](), dlpack.DataTypeOf[uint]()

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
	if count, _ := layout.Count(c.dims[start : start+rank]); err != nil || count != int64(s.count) {
		return deny(dlpack.ErrLayout, "shape %v is not that of %d elements", slices.Clone(shape), s.count)
	}
	return c.view(f, s.data, s.count, s.dtype, rank)
}

// view writes a tensor over Go's memory down, whose shape and strides were appended to dims.
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
	remedy := "; dlpack.New and Tensor.Align make memory that is"
	if align > dlpack.NewAlignment {
		remedy = ""
	}
	return deny(dlpack.ErrUnaligned, "data at %#x is not aligned to %d bytes%s", address, align, remedy)
}

// aligned reports an error where the data of a tensor on the host is not as aligned as f asks for.
func (f *Function) aligned(t *dlpack.Tensor) error {
	if t.Device().HostReadable() && t.Data()&(f.align-1) != 0 {
		return unaligned(t.Data(), f.align)
	}
	return nil
}

// tensor writes a tensor down, which is held by an export for the time of the call.
func (c *call) tensor(f *Function, t *dlpack.Tensor, constant bool) error {
	if t == nil {
		return errNil
	}
	if t.Flags()&dlpack.ReadOnly != 0 && !constant {
		return deny(dlpack.ErrReadOnly, "the tensor is read-only, and a function cannot know")
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

// kept writes a tensor down as an object.
func (c *call) kept(f *Function, t *dlpack.Tensor) error {
	if t == nil {
		return errNil
	}
	if t.Flags()&dlpack.ReadOnly != 0 {
		return deny(dlpack.ErrReadOnly, "the tensor is read-only, and TVM-FFI does not keep that")
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

// tensorObject makes an object of TVM-FFI's that holds a share of a tensor.
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

// LoadModule loads a library of functions from a file, such as TVM's export_library writes.
//
// Ownership: the result is the caller's. Lifetime: until its Close; the library itself stays in the
// process, since what its functions return needs it. Threads: any; what the library does when it is
// loaded must not come back to [Global], [Register] or LoadModule. On error: [ErrRuntime] where the
// library has parallel loops and libtvm_runtime is not loaded ([LoadRuntime]), [ErrLibrary],
// *[Error].
func LoadModule(path string) (*Module, error) {
	file, err := filepath.Abs(path)
	if err != nil {
		return nil, refuse("load module", ErrLibrary, "%v", err)
	}
	if err := loadable(file); err != nil {
		return nil, refuse("load module", ErrLibrary, "%v", err)
	}
	load, err := Global("ffi.ModuleLoadFromFile")
	if err != nil {
		return nil, err
	}
	defer load.Close()
	table.Lock()
	m, err := As[*Module](load.Call(file)) // by functions in the table, and the library may register more
	table.Unlock()
	if err != nil {
		return nil, err
	}
	m.path = file
	name := C.CString(file)
	defer C.free(unsafe.Pointer(name))
	if C.ffi_lacks_runtime(name) != 0 {
		m.Close()
		return nil, refuse("load module", ErrRuntime, "%s calls libtvm_runtime, which is not loaded; call LoadRuntime first", path)
	}
	return m, nil
}
