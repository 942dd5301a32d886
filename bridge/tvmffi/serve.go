//go:build cgo

package tvmffi

// #include "tvmffi.h"
import "C"

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack"
)

// A Handler is a Go function that TVM-FFI can call. It returns what [Function.Call] lists as results, any
// integer or float, or [Bytes]; what has a Close is handed over with that. An error is raised in the caller as
// of its kind (see [Errorf]), and so is a panic, as a RuntimeError.
type Handler func(a *Args) (any, error)

// Args are the arguments of one call of a [Handler], and must not be used after it. What is asked for and is
// not there is remembered for [Args.Check], after which a handler may rely on all that it asked for before.
type Args struct {
	list    []C.ffi_any
	handler Handler
	err     error
	closers []interface{ Close() error }
}

var argses = sync.Pool{New: func() any { return new(Args) }}

// Serve calls a handler. It is the body of the functions that make a Go library built with
// -buildmode=c-shared a module of TVM-FFI, which Python loads by tvm_ffi.load_module; each function takes
//
//	//export __tvm_ffi_scale
//	func __tvm_ffi_scale(_, args unsafe.Pointer, n int32, result unsafe.Pointer) int32 {
//		return tvmffi.Serve(scale, args, n, result)
//	}
//
// in a file of package main that imports "C". The name behind __tvm_ffi_ is the one that callers use.
//
// Ownership: args stay the caller's, and so does what result becomes. Lifetime: args are valid until Serve
// returns. Threads: any. On error: returns -1 with the error left in the thread, and *result as it was.
func Serve(h Handler, args unsafe.Pointer, n int32, result unsafe.Pointer) int32 {
	attached() // so that Go has its signal handler, before h runs
	a := argses.Get().(*Args)
	a.handler = h
	if n > 0 {
		a.list = unsafe.Slice((*C.ffi_any)(args), n)
	}
	v, err := run(h, a)
	if a.err != nil {
		err = a.err // it comes first: the rest may be its consequence
	}
	if v != nil {
		if err == nil {
			err = store((*C.ffi_any)(result), v)
		}
		dispose(v)
	}
	a.end()
	if err != nil {
		raise(err)
		return -1
	}
	return 0
}

// run calls a handler, and makes an error of a panic.
func run(h Handler, a *Args) (v any, err error) {
	defer func() {
		if r := recover(); r != nil {
			v, err = nil, panicked(r)
		}
	}()
	return h(a)
}

func (a *Args) end() {
	for i, c := range a.closers {
		c.Close()
		a.closers[i] = nil
	}
	a.list, a.handler, a.err, a.closers = nil, nil, nil, a.closers[:0]
	argses.Put(a)
}

// raise leaves an error in this thread, for the function's caller.
func raise(err error) {
	kind, message, backtrace := kindOf(err)
	if attached() { // or nobody could read it
		C.ffi_raise(chars(kind), C.size_t(len(kind)), chars(message), C.size_t(len(message)), chars(backtrace), C.size_t(len(backtrace)))
	}
}

// store makes a result of what a handler returned.
func store(result *C.ffi_any, v any) error {
	var bits uint64
	kind := C.int32_t(C.FFI_INT)
	switch v := v.(type) {
	case bool:
		kind = C.FFI_BOOL
		if v {
			bits = 1
		}
	case float64:
		kind, bits = C.FFI_FLOAT, math.Float64bits(v)
	case float32:
		kind, bits = C.FFI_FLOAT, math.Float64bits(float64(v))
	case dlpack.DataType:
		kind, bits = C.FFI_DTYPE, uint64(v)
	case dlpack.Device:
		kind, bits = C.FFI_DEVICE, deviceBits(v)
	case string:
		return storeText(result, unsafe.StringData(v), len(v), 0)
	case Bytes:
		return storeText(result, unsafe.SliceData(v), len(v), 1)
	case []byte:
		return storeText(result, unsafe.SliceData(v), len(v), 1)
	case *dlpack.Tensor:
		if v.Flags()&dlpack.ReadOnly != 0 {
			return deny(dlpack.ErrReadOnly, "result: the tensor is read-only, and TVM-FFI does not keep that")
		}
		if !attached() {
			return deny(ErrLibrary, "result: libtvm_ffi is not in the process")
		}
		object, err := tensorObject(v)
		if err != nil {
			return at("result", err)
		}
		kind, bits = C.FFI_TENSOR, uint64(object)
	case *Function:
		kind, bits = C.FFI_FUNCTION, v.share()
	case *Module:
		kind, bits = C.FFI_MODULE, v.share()
	case *Object:
		kind, bits = C.int32_t(v.kind), v.share()
	default:
		n := reflect.ValueOf(v)
		switch {
		case n.CanInt():
			bits = uint64(n.Int())
		case n.CanUint() && n.Uint() <= math.MaxInt64:
			bits = n.Uint()
		default:
			return deny(ErrArgument, "result: %T has no form in TVM-FFI", v)
		}
	}
	if kind >= C.FFI_OBJECT && bits == 0 {
		return deny(dlpack.ErrClosed, "result: it is closed")
	}
	put(result, kind, 0, bits)
	return nil
}

func put(result *C.ffi_any, kind C.int32_t, size C.uint32_t, bits uint64) {
	result._type, result.size = kind, size
	*(*uint64)(unsafe.Pointer(&result.value)) = bits
}

func storeText(result *C.ffi_any, data *byte, size int, bytes C.int) error {
	if !attached() {
		return deny(ErrLibrary, "result: libtvm_ffi is not in the process")
	}
	r := C.ffi_string((*C.char)(unsafe.Pointer(data)), C.size_t(size), bytes)
	if r.status != 0 {
		return raised("", r)
	}
	put(result, r._type, r.size, uint64(r.value))
	return nil
}

// Len is how many arguments there are.
func (a *Args) Len() int { return len(a.list) }

// Check returns an error unless there are n arguments, and all that was asked for before was there: the first
// that was not, as a TypeError or ValueError. n may be negative for any number. It is raised even where the
// handler does not return it.
func (a *Args) Check(n int) error {
	if n >= 0 && n != len(a.list) {
		a.err = Errorf(TypeError, "%s: takes %d arguments, got %d", a.handler.name(), n, len(a.list))
	}
	return a.err
}

// name is what Go calls a handler.
func (h Handler) name() string {
	if h == nil {
		return "nil"
	}
	name := runtime.FuncForPC(reflect.ValueOf(h).Pointer()).Name()
	return name[strings.LastIndexByte(name, '.')+1:]
}

// disagree remembers what is wrong with argument i, unless something was wrong before.
func (a *Args) disagree(i int, kind, format string, values ...any) {
	if a.err == nil {
		a.err = Errorf(kind, "%s: argument %d: %s", a.handler.name(), i, fmt.Sprintf(format, values...))
	}
}

var typeNames = map[C.int32_t]string{
	C.FFI_NONE: "None", C.FFI_INT: "an int", C.FFI_BOOL: "a bool", C.FFI_FLOAT: "a float", C.FFI_POINTER: "a pointer",
	C.FFI_DTYPE: "a data type", C.FFI_DEVICE: "a device", C.FFI_DLTENSOR: "a tensor", C.FFI_RAW_STRING: "a string",
	C.FFI_BYTE_ARRAY: "bytes", C.FFI_SMALL_STRING: "a string", C.FFI_SMALL_BYTES: "bytes", C.FFI_STRING: "a string",
	C.FFI_BYTES: "bytes", C.FFI_ERROR: "an error", C.FFI_FUNCTION: "a function", C.FFI_TENSOR: "a tensor",
	C.FFI_ARRAY: "an array", C.FFI_MODULE: "a module",
}

// get returns argument i where it is of one of some types, and else nil, which is remembered.
func (a *Args) get(i int, want string, kinds ...C.int32_t) *C.ffi_any {
	if i < 0 || i >= len(a.list) {
		a.disagree(i, TypeError, "there is none, want %s", want)
		return nil
	}
	arg := &a.list[i]
	for _, kind := range kinds {
		if arg._type == kind {
			return arg
		}
	}
	got := typeNames[arg._type]
	if got == "" {
		got = fmt.Sprintf("an object of type %d", arg._type)
	}
	a.disagree(i, TypeError, "it is %s, want %s", got, want)
	return nil
}

func bits(arg *C.ffi_any) uint64 { return *(*uint64)(unsafe.Pointer(&arg.value)) }

// IsNil reports whether argument i is None.
func (a *Args) IsNil(i int) bool { return i >= 0 && i < len(a.list) && a.list[i]._type == C.FFI_NONE }

// Int is argument i, an integer or a bool.
func (a *Args) Int(i int) int64 {
	if arg := a.get(i, "an int", C.FFI_INT, C.FFI_BOOL); arg != nil {
		return int64(bits(arg))
	}
	return 0
}

// Float is argument i, a float, an integer or a bool.
func (a *Args) Float(i int) float64 {
	arg := a.get(i, "a float", C.FFI_FLOAT, C.FFI_INT, C.FFI_BOOL)
	switch {
	case arg == nil:
		return 0
	case arg._type == C.FFI_FLOAT:
		return math.Float64frombits(bits(arg))
	}
	return float64(int64(bits(arg)))
}

// Bool is argument i, a bool or an integer.
func (a *Args) Bool(i int) bool {
	arg := a.get(i, "a bool", C.FFI_BOOL, C.FFI_INT)
	return arg != nil && bits(arg) != 0
}

// String is a copy of argument i, a string.
func (a *Args) String(i int) string {
	return string(a.text(a.get(i, "a string", C.FFI_SMALL_STRING, C.FFI_STRING, C.FFI_RAW_STRING)))
}

// Bytes is a copy of argument i, a byte string.
func (a *Args) Bytes(i int) []byte {
	return a.text(a.get(i, "bytes", C.FFI_SMALL_BYTES, C.FFI_BYTES, C.FFI_BYTE_ARRAY))
}

func (a *Args) text(arg *C.ffi_any) []byte {
	if arg == nil {
		return nil
	}
	address := uintptr(bits(arg))
	switch arg._type {
	case C.FFI_SMALL_STRING, C.FFI_SMALL_BYTES:
		few := (*[8]byte)(unsafe.Pointer(&arg.value))
		return append([]byte{}, few[:min(arg.size, 7)]...)
	case C.FFI_RAW_STRING:
		return []byte(C.GoString((*C.char)(pointer(address))))
	case C.FFI_BYTE_ARRAY:
		return bytesOf((*C.ffi_bytes)(pointer(address)))
	}
	return bytesOf((*C.ffi_bytes)(cell(address)))
}

// tensor is the DLTensor of argument i, or nil.
func (a *Args) tensor(i int) *C.DLTensor {
	arg := a.get(i, "a tensor", C.FFI_TENSOR, C.FFI_DLTENSOR)
	switch {
	case arg == nil:
		return nil
	case arg._type == C.FFI_TENSOR:
		return (*C.DLTensor)(cell(uintptr(bits(arg))))
	case bits(arg) == 0:
		a.disagree(i, TypeError, "the tensor is NULL")
	}
	return (*C.DLTensor)(pointer(uintptr(bits(arg))))
}

// Slice is argument i, a tensor on the host that is row-major without gaps, as a slice over its memory;
// [Args.Shape] has its shape.
//
// Ownership: none, the slice is a view. Lifetime: until the handler returns. Threads: the handler's. On
// error: nil, and [Args.Check] says why.
func Slice[T dlpack.Element](a *Args, i int) []T {
	d := a.tensor(i)
	if d == nil {
		return nil
	}
	var zero T
	if dtype := dlpack.DataTypeOf[T](); *(*dlpack.DataType)(unsafe.Pointer(&d.dtype)) == dtype && dtype != dlpack.Bool {
		start := uintptr(d.data) + uintptr(d.byte_offset)
		if n := packed(d); n > 0 && start%unsafe.Alignof(zero) == 0 {
			return unsafe.Slice((*T)(pointer(start)), n)
		}
	}
	// What is not in order, or not ordinary, is looked at closely.
	t := a.Tensor(i)
	if t == nil {
		return nil
	}
	values, err := dlpack.Values[T](t)
	if err != nil {
		a.refused(i, err)
	}
	return values
}

// packed is how many elements an ordinary tensor has: on the CPU, row-major, of a size that cannot overflow.
// It is 0 for all others.
func packed(d *C.DLTensor) int {
	rank := int(d.ndim)
	if d.device.device_type != C.kDLCPU || d.data == nil || d.byte_offset != 0 || uint(rank) > 8 || rank > 0 && d.shape == nil {
		return 0
	}
	count := int64(1)
	shape := unsafe.Slice((*int64)(unsafe.Pointer(d.shape)), rank)
	var strides []int64
	if d.strides != nil {
		strides = unsafe.Slice((*int64)(unsafe.Pointer(d.strides)), rank)
	}
	for k := rank - 1; k >= 0; k-- {
		n := shape[k]
		if uint64(n-1) >= 1<<31 || strides != nil && strides[k] != count && n != 1 {
			return 0
		}
		if count *= n; count >= 1<<31 {
			return 0
		}
	}
	return int(count)
}

// refused remembers what package dlpack has against argument i.
func (a *Args) refused(i int, err error) {
	kind, _, _ := kindOf(err)
	var d *dlpack.Error
	if errors.As(err, &d) {
		a.disagree(i, kind, "%s", d.Where)
	} else {
		a.disagree(i, kind, "%v", err)
	}
}

// Shape is the shape of argument i, a tensor.
//
// Ownership: none, the slice is a view. Lifetime: until the handler returns. Threads: the handler's, who
// must not write to it. On error: nil, and [Args.Check] says why.
func (a *Args) Shape(i int) []int64 {
	d := a.tensor(i)
	if d == nil {
		return nil
	}
	if d.ndim < 0 || d.ndim > dlpack.MaxRank || d.ndim > 0 && d.shape == nil {
		a.disagree(i, ValueError, "ndim = %d, shape at %p", d.ndim, d.shape)
		return nil
	}
	return unsafe.Slice((*int64)(unsafe.Pointer(d.shape)), d.ndim)
}

// Tensor is argument i, a tensor of any type and layout on any device. TVM-FFI does not know what is
// read-only; the tensor may be written.
//
// Ownership: none, the tensor is borrowed: exports of it are refused (see [Args.Keep]). Lifetime: until the
// handler returns, when it is closed. Threads: any, until then. On error: nil, and [Args.Check] says why.
func (a *Args) Tensor(i int) *dlpack.Tensor {
	d := a.tensor(i)
	if d == nil {
		return nil
	}
	t, err := dlpack.Borrow(unsafe.Pointer(d), dlpack.AssumeWritable)
	if err != nil {
		a.refused(i, err)
		return nil
	}
	a.closers = append(a.closers, t)
	return t
}

// Function is argument i, a function. It is closed when the handler returns (see [Args.Keep]).
func (a *Args) Function(i int, options ...FunctionOption) *Function {
	arg := a.get(i, "a function", C.FFI_FUNCTION)
	if arg == nil || !attached() {
		return nil
	}
	C.ffi_incref(C.uintptr_t(bits(arg)))
	f := newFunction("function", uintptr(bits(arg)), options)
	a.closers = append(a.closers, f)
	return f
}

// Keep is argument i, whatever it is, as a value that outlives the call: what [Function.Call] lists as
// results.
//
// Ownership: the result is the caller's to close. Lifetime: until then. Threads: any. On error:
// [dlpack.ErrBorrowed] for a tensor that its owner lends for the call only.
func (a *Args) Keep(i int) (any, error) {
	if i < 0 || i >= len(a.list) {
		return nil, Errorf(TypeError, "%s: argument %d: there is none", a.handler.name(), i)
	}
	if a.list[i]._type == C.FFI_DLTENSOR {
		return nil, deny(dlpack.ErrBorrowed, "argument %d: the tensor is lent for the call only", i)
	}
	if !attached() {
		return nil, deny(ErrLibrary, "argument %d: libtvm_ffi is not in the process", i)
	}
	r := C.ffi_own(&a.list[i])
	if r.status != 0 {
		return nil, raised("", r)
	}
	return value(r)
}

// handlers are the Go functions that TVM-FFI has, by number.
var handlers struct {
	mu   sync.RWMutex
	last uint64
	byID map[uint64]Handler
}

//export dlb_tvmffi_serve
func dlb_tvmffi_serve(id uint64, args unsafe.Pointer, n int32, result unsafe.Pointer) int32 {
	handlers.mu.RLock()
	h := handlers.byID[id]
	handlers.mu.RUnlock()
	return Serve(h, args, n, result)
}

// NewFunction makes a function of TVM-FFI's of a handler: to be called, to be an argument of a call, or to
// be returned. It asks for no alignment.
//
// Ownership: the result is the caller's; the handler is kept as long as anybody has the function, and until
// the next call of NewFunction or [Register] after that. Lifetime: until its Close, here. Threads: any; the
// handler is called on whichever thread calls the function, also at once. On error: [ErrLibrary].
func NewFunction(h Handler) (*Function, error) {
	if err := ensure(); err != nil {
		return nil, err
	}
	handlers.mu.Lock()
	defer handlers.mu.Unlock()
	var gone C.uint64_t
	for C.ffi_dead_function(&gone) != 0 {
		delete(handlers.byID, uint64(gone))
	}
	if handlers.byID == nil {
		handlers.byID = make(map[uint64]Handler)
	}
	handlers.last++
	r := C.ffi_function(C.uint64_t(handlers.last))
	if r.status != 0 {
		return nil, raised("new function", r)
	}
	handlers.byID[handlers.last] = h
	return newFunction(h.name(), uintptr(r.value), []FunctionOption{Alignment(1)}), nil
}

// Register puts a handler into the global table of TVM-FFI, where Python finds it by
// tvm_ffi.get_global_func, C++ by Function::GetGlobal and Go by [Global].
//
// Ownership: the table keeps the handler. Lifetime: until [Unregister]. Threads: any. On error:
// [ErrLibrary]; *[Error] where the name is taken.
func Register(name string, h Handler) error {
	f, err := NewFunction(h)
	if err != nil {
		return err
	}
	defer f.Close()
	if r := C.ffi_set_global(chars(name), C.size_t(len(name)), C.uintptr_t(f.handle), 0); r.status != 0 {
		return raised("register "+name, r)
	}
	return nil
}

// Unregister takes a function out of the global table. Those who have it keep it.
//
// On error: [ErrNotFound], [ErrLibrary].
func Unregister(name string) error {
	remove, err := Global("ffi.FunctionRemoveGlobal")
	if err != nil {
		return err
	}
	defer remove.Close()
	if found, err := As[bool](remove.Call(name)); err != nil || found {
		return err
	}
	return refuse("unregister", ErrNotFound, "%s", name)
}
