//go:build cgo

package tvmffi

// #include "core.h"
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
	"sync/atomic"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack"
)

// A Handler is a Go function that TVM-FFI can call. It returns what [Function.Call] lists as
// results but *[Error], any integer or float, or [Bytes]; a uintptr goes out as an integer. What has a Close is handed
// over with that. An error is
// raised in the caller as of its kind (see [Errorf]), and so is a panic, as a RuntimeError. Python
// reads strings as UTF-8: what is no text is for Bytes. Memory that Go does not have ends the
// process, where [dlpack.New] has an error for a caller who asks for too much.
//
// What TVM-FFI does not tell, a handler cannot know, and should say what it does with its
// arguments: whether a tensor may be written, which JAX's may not (read-only arrays of NumPy's are
// not passed at all); that PyTorch has yet to conjugate or negate one (conj, and imag of that), for
// which its callers have resolve_conj and resolve_neg; that one requires a gradient.
// [dlbridge.wrap] of the Python package looks at these.
//
// [dlbridge.wrap]: https://github.com/dlbridge/dlbridge/tree/main/bridge/python
type Handler func(a Args) (any, error)

// Args are the arguments of one call of a [Handler]. They lie in the caller's memory, and must not
// be used after the handler has returned. What is asked for and is not there is remembered for
// [Args.Check], after which a handler may rely on all that it asked for before.
//
// The zero Args has no arguments. It belongs to no call, and remembers nothing.
type Args struct {
	list unsafe.Pointer // C: const ffi_any *
	n    int
	call unsafe.Pointer // C: ffi_any *, the result, of which no two calls under way have the same
}

// notes are what calls that are under way remember, by their results. Few calls have one, and those
// that have none pay nothing for it.
var notes struct {
	live atomic.Int32
	mu   sync.Mutex
	of   map[unsafe.Pointer]*note
}

type note struct {
	err     error // the first argument that was not what was asked for
	closers []interface{ Close() error }
}

// note changes what the call remembers, until it ends. The zero Args belongs to no call.
func (a Args) note(change func(*note)) {
	if a.call == nil {
		return
	}
	notes.mu.Lock()
	defer notes.mu.Unlock()
	n := notes.of[a.call]
	if n == nil {
		if notes.of == nil {
			notes.of = make(map[unsafe.Pointer]*note)
		}
		n = new(note)
		notes.of[a.call] = n
		notes.live.Add(1)
	}
	change(n)
}

// noted returns the notes of a call, and removes them if the call has ended.
func (a Args) noted(ended bool) (n note) {
	if notes.live.Load() == 0 {
		return n
	}
	notes.mu.Lock()
	defer notes.mu.Unlock()
	if found := notes.of[a.call]; found != nil {
		n = *found
		if ended {
			delete(notes.of, a.call)
			notes.live.Add(-1)
		}
	}
	return n
}

// Serve calls a handler. It is the body of the functions that make a Go library built with
// -buildmode=c-shared a module of TVM-FFI, which Python loads by tvm_ffi.load_module; each function
// takes
//
//	//export __tvm_ffi_scale
//	func __tvm_ffi_scale(_, args unsafe.Pointer, n int32, result unsafe.Pointer) int32 {
//		return tvmffi.Serve(scale, args, n, result)
//	}
//
// in a file of package main that imports "C". The name behind __tvm_ffi_ is the one that callers
// use.
//
// Ownership: args stay the caller's, and so does what result becomes. Lifetime: args are valid
// until Serve returns. Threads: any; in a forked child of a process that has loaded Go the function
// raises a RuntimeError, without Go (on Linux). On error: returns -1 with the error left in the
// thread, and *result as it was. A handler that calls [runtime.Goexit], as testing.T.FailNow does, never returns to its
// caller: where that is a call in Go, what the call took is given back; Go ends the process where it is C, C++ or Python.
func Serve(h Handler, args unsafe.Pointer, n int32, result unsafe.Pointer) (status int32) {
	if !library.loaded.Load() {
		attached() // so that Go has its signal handler before h runs
	}
	if result == nil {
		return -1 // there is nowhere to leave anything
	}
	over := false
	defer func() {
		if over {
			return
		}
		if value := recover(); value != nil {
			status = finish(h, result, nil, panicked(value))
			return
		}
		n := Args{call: result}.noted(true) // of runtime.Goexit, after which no caller sees a status
		n.end((*C.ffi_any)(result), nil, nil)
	}()
	if args == nil || n < 0 {
		n = 0 // which the handler reports
	}
	v, err := h(Args{args, int(n), result})
	if v != nil || err != nil || notes.live.Load() != 0 {
		status = finish(h, result, v, err)
	}
	over = true
	return status
}

// finish ends a call: it makes a result of what the handler returned, or raises an error.
func finish(h Handler, result unsafe.Pointer, v any, err error) (status int32) {
	n := Args{call: result}.noted(true)
	if n.err != nil { // it comes first: the rest may be its consequence
		kind, text, _ := kindOf(n.err)
		err = Errorf(kind, "%s: %s", h.name(), text)
	}
	if err = n.end((*C.ffi_any)(result), v, err); err != nil {
		raise(err)
		return -1
	}
	return 0
}

// end hands a result over, and closes it and what was lent for the call, whatever panics.
func (n *note) end(result *C.ffi_any, v any, err error) error {
	defer func() {
		for _, c := range n.closers {
			c.Close()
		}
	}()
	if v == nil {
		return err
	}
	defer dispose(v)
	if err == nil {
		err = store(result, v)
	}
	return err
}

// raise leaves an error in this thread, for the function's caller. Python reads the texts as UTF-8,
// and would raise an error about that instead.
func raise(err error) {
	kind, message, backtrace := kindOf(err)
	kind, message, backtrace = readable(kind), readable(message), readable(backtrace)
	if attached() { // or nobody could read it
		C.ffi_raise(chars(kind), C.size_t(len(kind)), chars(message), C.size_t(len(message)), chars(backtrace), C.size_t(len(backtrace)))
	}
}

func readable(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// store makes a result of what a handler returned.
func store(result *C.ffi_any, v any) error {
	if isNil(v) {
		return at("result", errNil)
	}
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
		kind, bits = max(C.int32_t(v.kind), C.FFI_OBJECT), v.share() // the zero Object has no kind
	default:
		n := reflect.ValueOf(v)
		switch {
		case n.CanInt():
			bits = uint64(n.Int())
		case n.CanUint() && n.Uint() > math.MaxInt64:
			return deny(dlpack.ErrOverflow, "result: %d is more than 2^63-1", n.Uint())
		case n.CanUint():
			bits = n.Uint()
		case n.CanFloat():
			kind, bits = C.FFI_FLOAT, math.Float64bits(n.Float())
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

// Len returns the number of arguments.
func (a Args) Len() int { return a.n }

// Check returns an error unless there are n arguments, and all that was asked for before was there:
// the first that was not, as a TypeError or ValueError. n may be negative for any number. It is
// raised even where the handler does not return it.
func (a Args) Check(n int) error {
	if n == a.n && notes.live.Load() == 0 {
		return nil
	}
	return a.check(n)
}

// check is apart so that Check is inlined.
func (a Args) check(n int) error {
	if n >= 0 && n != a.n {
		err := Errorf(TypeError, "takes %d arguments, got %d", n, a.n)
		a.note(func(note *note) { note.err = err })
		return err
	}
	return a.noted(false).err
}

// disagree remembers the error of argument i, unless there was one before.
func (a Args) disagree(i int, kind, format string, values ...any) {
	a.note(func(n *note) {
		if n.err == nil {
			n.err = Errorf(kind, "argument %d: %s", i, fmt.Sprintf(format, values...))
		}
	})
}

// atEnd closes something when the handler has returned.
func (a Args) atEnd(c interface{ Close() error }) {
	a.note(func(n *note) { n.closers = append(n.closers, c) })
}

// name returns Go's name of a handler.
func (h Handler) name() string {
	if h == nil {
		return "nil"
	}
	name := runtime.FuncForPC(reflect.ValueOf(h).Pointer()).Name()
	return name[strings.LastIndexByte(name, '.')+1:]
}

var typeNames = map[C.int32_t]string{
	C.FFI_NONE: "None", C.FFI_INT: "an int", C.FFI_BOOL: "a bool", C.FFI_FLOAT: "a float", C.FFI_POINTER: "a pointer",
	C.FFI_DTYPE: "a data type", C.FFI_DEVICE: "a device", C.FFI_DLTENSOR: "a tensor", C.FFI_RAW_STRING: "a string",
	C.FFI_BYTE_ARRAY: "bytes", C.FFI_SMALL_STRING: "a string", C.FFI_SMALL_BYTES: "bytes", C.FFI_STRING: "a string",
	C.FFI_BYTES: "bytes", C.FFI_ERROR: "an error", C.FFI_FUNCTION: "a function", C.FFI_TENSOR: "a tensor",
	C.FFI_ARRAY: "an array", C.FFI_MODULE: "a module",
}

// wrong remembers that argument i is not what was wanted.
func (a Args) wrong(i int, want string) {
	_, kind := a.at(i)
	got := typeNames[kind]
	switch {
	case kind == none:
		a.disagree(i, TypeError, "there is none, want %s", want)
		return
	case got == "":
		got = fmt.Sprintf("an object of type %d", kind)
	}
	a.disagree(i, TypeError, "it is %s, want %s", got, want)
}

// none is the type of arguments that are not there.
const none = -1

// at is argument i, and its type.
func (a Args) at(i int) (*C.ffi_any, C.int32_t) {
	if uint(i) >= uint(a.n) {
		return nil, none
	}
	arg := (*C.ffi_any)(unsafe.Add(a.list, i*C.sizeof_ffi_any))
	return arg, arg._type
}

func word(arg *C.ffi_any) uint64 { return *(*uint64)(unsafe.Pointer(&arg.value)) }

// IsNil reports whether argument i is None.
func (a Args) IsNil(i int) bool {
	_, kind := a.at(i)
	return kind == C.FFI_NONE
}

// Int is argument i, an integer or a bool.
func (a Args) Int(i int) int64 {
	arg, kind := a.at(i)
	if kind == C.FFI_INT || kind == C.FFI_BOOL {
		return int64(word(arg))
	}
	a.wrong(i, "an int")
	return 0
}

// Float is argument i, a float, an integer or a bool.
func (a Args) Float(i int) float64 {
	switch arg, kind := a.at(i); kind {
	case C.FFI_FLOAT:
		return math.Float64frombits(word(arg))
	case C.FFI_INT, C.FFI_BOOL:
		return float64(int64(word(arg)))
	}
	a.wrong(i, "a float")
	return 0
}

// Bool is argument i, a bool or an integer.
func (a Args) Bool(i int) bool {
	arg, kind := a.at(i)
	if kind == C.FFI_BOOL || kind == C.FFI_INT {
		return word(arg) != 0
	}
	a.wrong(i, "a bool")
	return false
}

// String is a copy of argument i, a string.
func (a Args) String(i int) string {
	switch arg, kind := a.at(i); kind {
	case C.FFI_SMALL_STRING:
		return string(short(arg))
	case C.FFI_STRING:
		return string(a.bytes(i, arg, C.sizeof_ffi_object))
	case C.FFI_RAW_STRING:
		if !a.lies(i, uintptr(word(arg))) {
			return ""
		}
		return C.GoString((*C.char)(pointer(uintptr(word(arg)))))
	}
	a.wrong(i, "a string")
	return ""
}

// Bytes is a copy of argument i, a byte string.
func (a Args) Bytes(i int) []byte {
	switch arg, kind := a.at(i); kind {
	case C.FFI_SMALL_BYTES:
		return short(arg)
	case C.FFI_BYTES:
		return append([]byte{}, a.bytes(i, arg, C.sizeof_ffi_object)...)
	case C.FFI_BYTE_ARRAY:
		return append([]byte{}, a.bytes(i, arg, 0)...)
	}
	a.wrong(i, "bytes")
	return nil
}

func short(arg *C.ffi_any) []byte {
	few := (*[8]byte)(unsafe.Pointer(&arg.value))
	return append([]byte{}, few[:min(arg.size, 7)]...)
}

// bytes is a view of the bytes of argument i, which are described behind a header; nil where they cannot lie there.
func (a Args) bytes(i int, arg *C.ffi_any, header uintptr) []byte {
	if at := uintptr(word(arg)); a.lies(i, at) {
		b := (*C.ffi_bytes)(pointer(at + header))
		if b.size == 0 || a.lies(i, addressIn(&b.data)) {
			return view(b)
		}
	}
	return nil
}

// lies reports whether memory can lie at an address that argument i has, and remembers it if not. Go ends the process
// when it finds a pointer below that on a stack.
func (a Args) lies(i int, address uintptr) bool {
	if address < lowest {
		a.refused(i, deny(dlpack.ErrNull, "address %#x lies below %d", address, lowest))
	}
	return address >= lowest
}

// tensor is the DLTensor of argument i, or nil.
func (a Args) tensor(i int) *C.DLTensor {
	arg, kind := a.at(i)
	if kind != C.FFI_TENSOR && kind != C.FFI_DLTENSOR {
		a.wrong(i, "a tensor")
		return nil
	}
	at := uintptr(word(arg))
	switch {
	case !a.lies(i, at):
		return nil
	case kind == C.FFI_TENSOR:
		return (*C.DLTensor)(cell(at))
	}
	return (*C.DLTensor)(pointer(at))
}

// Slice is argument i, a tensor on the host that is row-major without gaps, as a slice over its
// memory; [Args.Shape] has its shape.
//
// Ownership: none, the slice is a view. Lifetime: until the handler returns. Threads: the
// handler's. On error: nil, and [Args.Check] says why.
func Slice[T dlpack.Element](a Args, i int) []T {
	data, n := a.elements(i, typed[T]{}) // only this is generic, and inlined: T costs nothing
	return unsafe.Slice((*T)(data), n)
}

// elements returns the address and the number of the elements of argument i.
func (a Args) elements(i int, of elementType) (unsafe.Pointer, int) {
	if arg, kind := a.at(i); (kind == C.FFI_TENSOR || kind == C.FFI_DLTENSOR) && word(arg) >= lowest {
		d := (*C.DLTensor)(pointer(uintptr(word(arg))))
		if kind == C.FFI_TENSOR {
			d = (*C.DLTensor)(cell(uintptr(word(arg))))
		}
		if d.ndim == 1 && addressIn(&d.shape) >= lowest && onFastPath(d, dataType(of)) { // as fastCount, without a loop
			n := *(*int64)(unsafe.Pointer(d.shape))
			if uint64(n-1) < most && (d.strides == nil || addressIn(&d.strides) >= lowest && *(*int64)(unsafe.Pointer(d.strides)) == 1) {
				return d.data, int(n)
			}
		}
	}
	return a.slowElements(i, of)
}

// slowElements is elements for any tensor.
func (a Args) slowElements(i int, of elementType) (unsafe.Pointer, int) {
	d := a.tensor(i)
	if d == nil {
		return nil, 0
	}
	if onFastPath(d, dataType(of)) {
		if n := fastCount(d); n > 0 {
			return d.data, n
		}
	}
	t := a.Tensor(i)
	if t == nil {
		return nil, 0
	}
	data, n, err := of.values(t)
	if err != nil {
		a.refused(i, err)
	}
	return data, n
}

// An elementType is a typed[T].
type elementType interface {
	values(*dlpack.Tensor) (unsafe.Pointer, int, error)
}

type typed[T dlpack.Element] struct{}

// values looks closely at a tensor that is not on the fast path.
func (typed[T]) values(t *dlpack.Tensor) (unsafe.Pointer, int, error) {
	v, err := dlpack.Values[T](t)
	return unsafe.Pointer(unsafe.SliceData(v)), len(v), err
}

// The data of a tensor on the fast path lies at one of the addresses from lowest on, where memory begins. They end so far from
// the end of the address space that no such tensor reaches beyond it.
const (
	lowest    = C.CORE_LOWEST
	addresses = 1 << 62
)

// onFastPath reports whether the elements of a tensor are of a type, on the host, at an address that memory can have, and
// aligned for all types.
func onFastPath(d *C.DLTensor, dtype dlpack.DataType) bool {
	return d.device.device_type == C.kDLCPU && uintptr(d.data)-lowest < addresses && uintptr(d.data)%16 == 0 && d.byte_offset == 0 &&
		*(*dlpack.DataType)(unsafe.Pointer(&d.dtype)) == dtype && dtype != 0
}

// dataType is the data type of numbers, and 0 for bool, whose bytes need a look, and for types of
// the program's own.
func dataType(of elementType) dlpack.DataType {
	if _, is := of.(typed[float32]); is { // before the others, of which it is one
		return dlpack.Float32
	}
	switch of.(type) {
	case typed[float64]:
		return dlpack.Float64
	case typed[int]:
		return intType
	case typed[int8]:
		return dlpack.Int8
	case typed[int16]:
		return dlpack.Int16
	case typed[int32]:
		return dlpack.Int32
	case typed[int64]:
		return dlpack.Int64
	case typed[uint]:
		return uintType
	case typed[uint8]:
		return dlpack.Uint8
	case typed[uint16]:
		return dlpack.Uint16
	case typed[uint32]:
		return dlpack.Uint32
	case typed[uint64]:
		return dlpack.Uint64
	case typed[complex64]:
		return dlpack.Complex64
	case typed[complex128]:
		return dlpack.Complex128
	}
	return 0
}

// addressIn returns the address in a field of a foreign struct. Go must not have it as a pointer before it is checked.
func addressIn[T any](field **T) uintptr { return *(*uintptr)(unsafe.Pointer(field)) }

// most is more elements than a tensor on the fast path has.
const most = 1 << 31

// fastCount returns the number of elements of a tensor that is row-major and of a size that cannot overflow, and 0 for all
// others.
func fastCount(d *C.DLTensor) int {
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

// refused remembers an error of package dlpack about argument i.
func (a Args) refused(i int, err error) {
	kind, _, _ := kindOf(err)
	var d *dlpack.Error
	if errors.As(err, &d) {
		a.disagree(i, kind, "%s", d.Where)
	} else {
		a.disagree(i, kind, "%v", err)
	}
}

// Shape returns the shape of argument i, which must be a tensor.
//
// Ownership: none, the slice is a view. Lifetime: until the handler returns. Threads: the
// handler's, who must not write to it. On error: nil, and [Args.Check] says why.
func (a Args) Shape(i int) []int64 {
	d := a.tensor(i)
	if d == nil {
		return nil
	}
	if at := addressIn(&d.shape); d.ndim < 0 || d.ndim > dlpack.MaxRank || d.ndim > 0 && at < lowest {
		a.refused(i, deny(dlpack.ErrNull, "ndim = %d, shape at %#x", d.ndim, at))
		return nil
	}
	if d.ndim == 0 {
		return []int64{} // the shape may be no address, which Go must not have as a pointer
	}
	return unsafe.Slice((*int64)(unsafe.Pointer(d.shape)), d.ndim)
}

// Tensor is argument i, a tensor of any type and layout on any device. TVM-FFI does not know what
// is read-only; the tensor may be written.
//
// Ownership: none, the tensor is borrowed: exports of it are refused (see [Args.Keep]). Lifetime:
// until the handler returns, when it is closed. Threads: any, until then. On error: nil, and
// [Args.Check] says why.
func (a Args) Tensor(i int) *dlpack.Tensor {
	d := a.tensor(i)
	if d == nil {
		return nil
	}
	t, err := dlpack.Borrow(unsafe.Pointer(d), dlpack.AssumeWritable)
	if err != nil {
		a.refused(i, err)
		return nil
	}
	a.atEnd(t)
	return t
}

// Function is argument i, a function. It is closed when the handler returns (see [Args.Keep]).
func (a Args) Function(i int, options ...FunctionOption) *Function {
	arg, kind := a.at(i)
	if kind != C.FFI_FUNCTION || !attached() {
		a.wrong(i, "a function")
		return nil
	}
	if !a.lies(i, uintptr(word(arg))) {
		return nil
	}
	C.ffi_incref(C.uintptr_t(word(arg)))
	f := newFunction("function", uintptr(word(arg)), options)
	a.atEnd(f)
	return f
}

// below reports whether an argument leads to an address below the lowest one, by itself or by what it points to.
func below(arg *C.ffi_any) bool {
	at := uintptr(word(arg))
	switch kind := arg._type; {
	case kind < C.FFI_OBJECT && kind != C.FFI_RAW_STRING && kind != C.FFI_BYTE_ARRAY && kind != C.FFI_MOVED:
		return false
	case at < lowest:
		return true
	case kind == C.FFI_BYTE_ARRAY:
		b := (*C.ffi_bytes)(pointer(at))
		return b.size > 0 && addressIn(&b.data) < lowest
	case kind == C.FFI_MOVED:
		return *(*uintptr)(pointer(at)) < lowest
	}
	return false
}

// Keep is argument i, whatever it is, as a value that outlives the call: what [Function.Call] lists
// as results.
//
// Ownership: the result is the caller's to close. Lifetime: until then. Threads: any; what is
// Python's takes the GIL when it ends, which calls from Python let go of (unless release_gil is set
// to False). It must be closed before the interpreter ends: Python up to 3.13 then ends the threads that want the GIL,
// which aborts the process. On error: [dlpack.ErrBorrowed] for a tensor that its owner lends for the call only.
func (a Args) Keep(i int) (any, error) {
	arg, kind := a.at(i)
	switch {
	case kind == none:
		return nil, Errorf(TypeError, "argument %d: there is none", i)
	case below(arg):
		return nil, deny(dlpack.ErrNull, "argument %d: a value of type %d at %#x", i, kind, word(arg))
	case kind == C.FFI_DLTENSOR:
		return nil, deny(dlpack.ErrBorrowed, "argument %d: the tensor is lent for the call only", i)
	case !attached():
		return nil, deny(ErrLibrary, "argument %d: libtvm_ffi is not in the process", i)
	}
	r := C.ffi_own(arg)
	if r.status != 0 {
		return nil, raised("", r)
	}
	return value(r)
}

// handlers are the Go functions that TVM-FFI has, by number. A call only reads them.
var handlers struct {
	mu   sync.Mutex
	list atomic.Pointer[[]Handler]
	free []uint64 // numbers that were somebody's
}

//export dlb_tvmffi_serve
func dlb_tvmffi_serve(id uint64, args unsafe.Pointer, n int32, result unsafe.Pointer) int32 {
	return Serve((*handlers.list.Load())[id], args, n, result)
}

// NewFunction makes a function of TVM-FFI's of a handler: to be called, to be an argument of a
// call, or to be returned. It asks for no alignment.
//
// Ownership: the result is the caller's; the handler is kept as long as anybody has the function,
// and until the next call of NewFunction or [Register] after that. Lifetime: until its Close, here.
// Threads: any; the handler is called on whichever thread calls the function, also at once. On
// error: [ErrLibrary].
func NewFunction(h Handler) (*Function, error) {
	if err := ensure(); err != nil {
		return nil, err
	}
	handlers.mu.Lock()
	defer handlers.mu.Unlock()
	var list []Handler
	if l := handlers.list.Load(); l != nil {
		list = *l
	}
	var gone C.uint64_t
	for C.ffi_dead_function(&gone) != 0 {
		list[gone] = nil
		handlers.free = append(handlers.free, uint64(gone))
	}
	last := len(handlers.free) - 1
	if last < 0 {
		list, last = append(list, nil), 0
		handlers.list.Store(&list)
		handlers.free = append(handlers.free, uint64(len(list)-1))
	}
	id := handlers.free[last]
	list[id] = h
	r := C.ffi_function(C.uint64_t(id))
	if r.status != 0 {
		list[id] = nil
		return nil, raised("new function", r)
	}
	handlers.free = handlers.free[:last]
	return newFunction(h.name(), uintptr(r.value), []FunctionOption{Alignment(1)}), nil
}

// Register puts a handler into the global table of TVM-FFI, where Python finds it by
// tvm_ffi.get_global_func, C++ by Function::GetGlobal and Go by [Global].
//
// TVM-FFI's table has no lock. The functions of this package take turns at it; what else looks up
// names (Python, C++, functions of theirs that are called) must not do so meanwhile. A program
// registers its functions when it starts, or keeps these apart.
//
// Ownership: the table keeps the handler. Lifetime: until [Unregister]. Threads: any, see above. On
// error: [ErrLibrary]; *[Error] where the name is taken.
func Register(name string, h Handler) error {
	f, err := NewFunction(h)
	if err != nil {
		return err
	}
	defer f.Close()
	table.Lock()
	r := C.ffi_set_global(chars(name), C.size_t(len(name)), C.uintptr_t(f.handle), 0)
	table.Unlock()
	if r.status != 0 {
		return raised("register "+name, r)
	}
	return nil
}

// Unregister takes a function out of the global table. Those who have it keep it.
//
// Threads: as [Register]. On error: [ErrNotFound], [ErrLibrary].
func Unregister(name string) error {
	remove, err := Global("ffi.FunctionRemoveGlobal")
	if err != nil {
		return err
	}
	defer remove.Close()
	if f, err := Global(name); err == nil {
		defer f.Close() // what ends the last hold may take its time, and locks
	}
	table.Lock()
	found, err := As[bool](remove.Call(name))
	table.Unlock()
	if err != nil || found {
		return err
	}
	return refuse("unregister", ErrNotFound, "%.80q is not in the table", name)
}
