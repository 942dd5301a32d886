//go:build cgo

package tvmffi

// #include "tvmffi.h"
import "C"

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack"
)

// Args are the arguments of one call of a [Handler]. They lie in the caller's memory and must not be used after the
// handler has returned. The methods that read an argument return the zero value if it is missing or has another type,
// and record the error. After [Args.Check] has returned nil, a handler may rely on all values that it has read.
//
// The zero Args has no arguments. It belongs to no call, and records nothing.
type Args struct {
	list unsafe.Pointer // C: const ffi_any *
	n    int
	call unsafe.Pointer // C: ffi_any *, the result, which identifies the call
}

// notes holds the notes of running calls, by the addresses of their results. Few calls need a note; the others only
// read the counter.
var notes struct {
	live atomic.Int32
	mu   sync.Mutex
	of   map[unsafe.Pointer]*note
}

// A note holds the first error about the arguments of a call, and the values to close at its end.
type note struct {
	err     error // about the first argument that was missing or of another type
	closers []argument
}

// An argument is a value that a handler got for the argument with an index, to be closed at the end of the call.
type argument struct {
	value interface{ Close() error }
	index int
}

// note calls change with the note of the call, while it holds notes.mu. If there is no note, it makes one. For the zero
// Args, which belongs to no call, it does nothing.
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

// takeNote removes the note of a call that has ended, and returns it, or an empty note if there is none.
func (a Args) takeNote() (n note) {
	if notes.live.Load() == 0 {
		return n
	}
	notes.mu.Lock()
	defer notes.mu.Unlock()
	if found := notes.of[a.call]; found != nil {
		n = *found
		delete(notes.of, a.call)
		notes.live.Add(-1)
	}
	return n
}

// Len returns the number of arguments.
func (a Args) Len() int { return a.n }

// Check returns an error unless there are n arguments, and every argument that the handler has read has the requested
// type. A negative n allows any number. The error is an [*Error] about the number of arguments or about the first
// argument that is missing, has another type or is not valid. The error is raised even if the handler does not return
// it.
func (a Args) Check(n int) error {
	if n == a.n && notes.live.Load() == 0 {
		return nil
	}
	return a.check(n)
}

// check is a separate function so that the compiler inlines Check.
func (a Args) check(n int) error {
	if n >= 0 && n != a.n {
		plural := "s"
		if n == 1 {
			plural = ""
		}
		err := Errorf(TypeError, "takes %d argument%s, got %d", n, plural, a.n)
		a.note(func(note *note) { note.err = err })
		return err
	}
	notes.mu.Lock()
	defer notes.mu.Unlock()
	if found := notes.of[a.call]; found != nil {
		return found.err
	}
	return nil
}

// disagree records an error about argument i, unless the call has one already.
func (a Args) disagree(i int, kind, format string, values ...any) {
	a.note(func(n *note) {
		if n.err == nil {
			n.err = Errorf(kind, "argument %d: %s", i, fmt.Sprintf(format, values...))
		}
	})
}

// atEnd arranges for the value of argument i to be closed when the handler has returned.
func (a Args) atEnd(i int, value interface{ Close() error }) {
	a.note(func(n *note) { n.closers = append(n.closers, argument{value, i}) })
}

var typeNames = map[C.int32_t]string{
	C.FFI_NONE: "None", C.FFI_INT: "an int", C.FFI_BOOL: "a bool", C.FFI_FLOAT: "a float", C.FFI_POINTER: "a pointer",
	C.FFI_DTYPE: "a data type", C.FFI_DEVICE: "a device", C.FFI_DLTENSOR: "a tensor", C.FFI_RAW_STRING: "a string",
	C.FFI_BYTE_ARRAY: "bytes", C.FFI_MOVED: "an object that the caller moves into the call", C.FFI_SMALL_STRING: "a string", C.FFI_SMALL_BYTES: "bytes", C.FFI_UNCHANGED: "the marker Unchanged", C.FFI_STRING: "a string",
	C.FFI_BYTES: "bytes", C.FFI_ERROR: "an error", C.FFI_FUNCTION: "a function", C.FFI_TENSOR: "a tensor",
	C.FFI_ARRAY: "an array", C.FFI_MODULE: "a module",
}

// typeName returns a description of a value of a type, for errors.
func typeName(kind C.int32_t) string {
	switch name := typeNames[kind]; {
	case name != "":
		return name
	case kind >= C.FFI_OBJECT:
		return fmt.Sprintf("an object of type %d", kind)
	}
	return fmt.Sprintf("a value of type %d", kind)
}

// wrong records that argument i is missing or has another type than the wanted one.
func (a Args) wrong(i int, want string) {
	arg, kind := a.at(i)
	if arg == nil {
		a.disagree(i, TypeError, "it is missing, want %s", want)
		return
	}
	if kind == C.FFI_MOVED {
		want += "; use Keep to accept it"
	}
	a.disagree(i, TypeError, "it is %s, want %s", typeName(kind), want)
}

// refused records err, an error of package dlpack or of this package, about argument i.
func (a Args) refused(i int, err error) {
	kind, _, _ := kindOf(err)
	var d *dlpack.Error
	var r *causedError
	switch {
	case errors.As(err, &d):
		a.disagree(i, kind, "%s", d.Where)
	case errors.As(err, &r):
		a.disagree(i, kind, "%s", r.text)
	default:
		a.disagree(i, kind, "%v", err)
	}
}

// missing is the type of an argument that does not exist.
const missing = -1

// at returns argument i and its type, or nil and missing if it does not exist.
func (a Args) at(i int) (*C.ffi_any, C.int32_t) {
	if uint(i) >= uint(a.n) {
		return nil, missing
	}
	arg := (*C.ffi_any)(unsafe.Add(a.list, i*C.sizeof_ffi_any))
	return arg, arg._type
}

// word returns the 64 bits of the value of an argument.
func word(arg *C.ffi_any) uint64 { return *(*uint64)(unsafe.Pointer(&arg.value)) }

// IsNil reports whether argument i is None.
func (a Args) IsNil(i int) bool {
	_, kind := a.at(i)
	return kind == C.FFI_NONE
}

// Int returns argument i, which must be an integer or a bool.
func (a Args) Int(i int) int64 {
	arg, kind := a.at(i)
	if kind == C.FFI_INT || kind == C.FFI_BOOL {
		return int64(word(arg))
	}
	a.wrong(i, "an int")
	return 0
}

// Float returns argument i, which must be a float, an integer or a bool.
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

// Bool returns argument i, which must be a bool or an integer.
func (a Args) Bool(i int) bool {
	arg, kind := a.at(i)
	if kind == C.FFI_BOOL || kind == C.FFI_INT {
		return word(arg) != 0
	}
	a.wrong(i, "a bool")
	return false
}

// String returns a copy of argument i, which must be a string.
func (a Args) String(i int) string {
	switch arg, kind := a.at(i); kind {
	case C.FFI_SMALL_STRING:
		return string(small(word(arg), arg.size))
	case C.FFI_STRING:
		return string(a.bytes(i, arg, C.sizeof_ffi_object))
	case C.FFI_RAW_STRING:
		if !a.valid(i, uintptr(word(arg))) {
			return ""
		}
		return C.GoString((*C.char)(pointer(uintptr(word(arg)))))
	}
	a.wrong(i, "a string")
	return ""
}

// Bytes returns a copy of argument i, which must be a byte string.
func (a Args) Bytes(i int) []byte {
	switch arg, kind := a.at(i); kind {
	case C.FFI_SMALL_BYTES:
		return small(word(arg), arg.size)
	case C.FFI_BYTES:
		return append([]byte{}, a.bytes(i, arg, C.sizeof_ffi_object)...)
	case C.FFI_BYTE_ARRAY:
		return append([]byte{}, a.bytes(i, arg, 0)...)
	}
	a.wrong(i, "bytes")
	return nil
}

// bytes returns a view of the bytes of argument i. Its ffi_bytes lie after a header of the given size. If an address is
// invalid, bytes returns nil and records an error.
func (a Args) bytes(i int, arg *C.ffi_any, header uintptr) []byte {
	if at := uintptr(word(arg)); a.valid(i, at) {
		b := (*C.ffi_bytes)(pointer(at + header))
		if b.size == 0 || a.valid(i, addressIn(&b.data)) {
			return view(b)
		}
	}
	return nil
}

// valid reports whether memory can lie at an address in argument i, and records an error if not. Go ends the process if it
// finds an address below lowest in a pointer on a stack.
func (a Args) valid(i int, address uintptr) bool {
	if address < lowest {
		a.refused(i, newError(dlpack.ErrNull, "address %#x lies below %d", address, lowest))
	}
	return address >= lowest
}

// tensor returns the DLTensor of argument i. If the argument is not a tensor, it records an error and returns nil.
func (a Args) tensor(i int) *C.DLTensor {
	arg, kind := a.at(i)
	if kind != C.FFI_TENSOR && kind != C.FFI_DLTENSOR {
		a.wrong(i, "a tensor")
		return nil
	}
	at := uintptr(word(arg))
	switch {
	case !a.valid(i, at):
		return nil
	case kind == C.FFI_TENSOR:
		return (*C.DLTensor)(cell(at))
	}
	return (*C.DLTensor)(pointer(at))
}

// Shape returns the shape of argument i, which must be a tensor.
//
// Ownership: none, the slice is a view. Lifetime: until the handler returns. Threads: the handler's, which must not write to
// it. On error: returns nil; [Args.Check] returns the error.
func (a Args) Shape(i int) []int64 {
	d := a.tensor(i)
	if d == nil {
		return nil
	}
	if at := addressIn(&d.shape); d.ndim < 0 || d.ndim > dlpack.MaxRank || d.ndim > 0 && at < lowest {
		a.refused(i, newError(dlpack.ErrNull, "ndim is %d and shape points to %#x, which cannot both be valid", d.ndim, at))
		return nil
	}
	if d.ndim == 0 {
		return []int64{} // the shape may be an invalid address, which Go must not hold as a pointer
	}
	return unsafe.Slice((*int64)(unsafe.Pointer(d.shape)), d.ndim)
}

// Tensor returns argument i, which must be a tensor of any data type, layout and device. The tensor is writable,
// because TVM-FFI does not record which tensors are read-only.
//
// Ownership: none, the tensor is borrowed: it cannot be exported (see [Args.Keep]). Lifetime: until the handler returns, which
// closes it. Threads: any, until then. On error: returns nil; [Args.Check] returns the error.
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
	a.atEnd(i, t)
	return t
}

// Function returns argument i, which must be a function.
//
// Ownership: none, the function is borrowed (see [Args.Keep]). Lifetime: until the handler returns, which closes it. Threads:
// any, until then. On error: returns nil; [Args.Check] returns the error.
func (a Args) Function(i int, options ...FunctionOption) *Function {
	arg, kind := a.at(i)
	if kind != C.FFI_FUNCTION {
		a.wrong(i, "a function")
		return nil
	}
	if !attached() {
		a.disagree(i, RuntimeError, "a function needs libtvm_ffi, which is not loaded; call Load first")
		return nil
	}
	if !a.valid(i, uintptr(word(arg))) {
		return nil
	}
	C.ffi_incref(C.uintptr_t(word(arg)))
	f := newFunction("function", uintptr(word(arg)), options)
	a.atEnd(i, f)
	return f
}

// Keep returns argument i as a value that outlives the call. It has one of the types that [Function.Call] lists as results.
//
// Ownership: the caller owns the result and must close it. Lifetime: until its Close. If the object is Python's, Close must
// come before the Python interpreter ends: Close takes the GIL, and Python up to 3.13 then ends the threads that wait for
// the GIL, which aborts the process. Threads: any; Python releases the GIL while it calls a function, unless release_gil is
// set to False. On error: [dlpack.ErrBorrowed] for a tensor that its owner lends for the call only, [dlpack.ErrNull],
// [dlpack.ErrMemory], [ErrLibrary], *[Error].
func (a Args) Keep(i int) (any, error) {
	arg, kind := a.at(i)
	switch {
	case arg == nil:
		return nil, Errorf(TypeError, "argument %d: it is missing", i)
	case below(arg):
		return nil, newError(dlpack.ErrNull, "argument %d: a value of type %d has the invalid address %#x", i, kind, word(arg))
	case kind == C.FFI_DLTENSOR:
		return nil, newError(dlpack.ErrBorrowed, "argument %d: the tensor is borrowed for the call only; Tensor.Copy copies it", i)
	case !attached():
		return nil, errNotLoaded(fmt.Sprintf("argument %d", i))
	}
	r := C.ffi_own(arg)
	if r.status != 0 {
		return nil, raised("", r)
	}
	v, err := value(r)
	if err != nil {
		return nil, at(fmt.Sprintf("argument %d", i), err)
	}
	return v, nil
}

// below reports whether an argument refers to an address below the lowest one, directly or through the value it points to.
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
