//go:build cgo

package tvmffi

// #include "tvmffi.h"
import "C"

import (
	"math/bits"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/background"
)

// uses counts the calls that use what may be closed meanwhile.
type uses struct {
	n      atomic.Int64 // beyond the first, which is the holder's; negative: it is over
	closed atomic.Bool
}

func (u *uses) acquire() bool {
	for {
		n := u.n.Load()
		if n < 0 || u.closed.Load() {
			return false
		}
		if u.n.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// release and close tell whether this was the last use.
func (u *uses) release() bool { return u.n.Add(-1) < 0 }
func (u *uses) close() bool   { return u.closed.CompareAndSwap(false, true) && u.release() }

// A reference is a hold on an object of TVM-FFI's. One that this package has not made has none, and
// is closed.
type reference struct {
	handle uintptr
	uses   uses
	guard  runtime.Cleanup
}

func giveBack(handle uintptr) { C.ffi_decref(C.uintptr_t(handle)) }

// hold takes over one count of an object. What forgets to close it is caught by a cleanup, on a goroutine of the
// runtime that all cleanups share: the object's deleter, which may block, runs elsewhere.
func (r *reference) hold(handle uintptr) {
	r.handle = handle
	r.guard = runtime.AddCleanup(r, func(handle uintptr) {
		background.Release(func() { giveBack(handle) })
	}, handle)
}

func (r *reference) acquire() bool { return r.handle != 0 && r.uses.acquire() }

func (r *reference) release() {
	if r.uses.release() {
		r.end()
	}
	runtime.KeepAlive(r)
}

func (r *reference) end() {
	r.guard.Stop()
	giveBack(r.handle)
}

// share is another count of the object, or 0 where it is closed.
func (r *reference) share() uint64 {
	if !r.acquire() {
		return 0
	}
	C.ffi_incref(C.uintptr_t(r.handle))
	r.release()
	return uint64(r.handle)
}

// Close ends this hold on the object. The first call has an effect, later ones have none; calls
// that are under way end first. See [Function.Close].
func (r *reference) Close() error {
	if r.handle != 0 && r.uses.close() {
		r.end()
	}
	return nil
}

// An Object is an object of TVM-FFI's that has no form in Go: an array, a map, a shape. It can be
// an argument of calls, and so be read by the functions that libtvm_ffi has for it (ffi.ArraySize,
// ffi.ArrayGetItem and so on, see [Global]).
type Object struct {
	reference
	kind int32
}

// Close is as that of a [Function]. It ends nothing where o is nil.
func (o *Object) Close() error {
	if o == nil {
		return nil
	}
	return o.reference.Close()
}

func newObject(kind int32, handle uintptr) *Object {
	o := &Object{kind: kind}
	o.hold(handle)
	return o
}

// TypeIndex is TVM-FFI's number of the object's type, and 0 where o is nil.
func (o *Object) TypeIndex() int {
	if o == nil {
		return 0
	}
	return int(o.kind)
}

// String names the type by its number.
func (o *Object) String() string {
	if o == nil {
		return "<nil>"
	}
	return "TVM-FFI object of type " + strconv.Itoa(int(o.kind))
}

// A Function is a function of TVM-FFI's: of a module, of the global table, or of Go.
type Function struct {
	reference
	name  string
	align uintptr
}

func newFunction(name string, handle uintptr, options []FunctionOption) *Function {
	f := &Function{name: name, align: DefaultAlignment}
	f.hold(handle)
	f.apply(options)
	return f
}

// apply changes how the function is called. A nil option changes nothing.
func (f *Function) apply(options []FunctionOption) {
	for _, option := range options {
		if option != nil {
			option(f)
		}
	}
}

// Close ends this hold on the function. The first call has an effect, later ones have none, and neither has one of a
// nil function; calls that are under way end first.
//
// Ownership: ends this reference. Lifetime: the function lives while TVM-FFI, or another reference, holds it.
// Threads: any goroutine. On error: never fails; the result makes it an io.Closer.
func (f *Function) Close() error {
	if f == nil {
		return nil
	}
	return f.reference.Close()
}

// Name returns the name by which the function was looked up, and "function" if f is nil.
func (f *Function) Name() string {
	if f == nil {
		return "function"
	}
	return f.name
}

// DefaultAlignment is the alignment in bytes that the data of tensors must have, unless [Alignment]
// says otherwise: the most that vector instructions ask for.
const DefaultAlignment = 64

// A FunctionOption changes how a function is called.
type FunctionOption func(*Function)

// Alignment sets the alignment in bytes, a power of two, that the data of tensors must have. Kernels that
// TVM has vectorised load whole vectors, and end the process where data is not so aligned: those
// built for AVX-512 want 64 bytes, for AVX 32, for SSE 16. What is built for no vectors wants the
// size of an element.
func Alignment(bytes int) FunctionOption {
	return func(f *Function) { f.align = 1 << bits.Len(uint(max(bytes, 1)-1)) }
}

// A Module is a library of functions that was loaded.
type Module struct {
	reference
	path string
}

// Close is as that of a [Function]. It ends nothing where m is nil.
func (m *Module) Close() error {
	if m == nil {
		return nil
	}
	return m.reference.Close()
}

// table is held by those who use the global table of TVM-FFI, which has no lock: its source wants
// callers to have one. Nothing that may call Go runs under it, but what libraries do when they are
// loaded.
var table sync.RWMutex

// Global looks up a function in the global table of TVM-FFI, where libtvm_ffi, Python and other
// libraries register theirs.
//
// Ownership: the result is the caller's. Lifetime: until its Close. Threads: any, see [Register]. On
// error: [ErrNotFound], [ErrLibrary].
func Global(name string, options ...FunctionOption) (*Function, error) {
	if err := ensure(); err != nil {
		return nil, err
	}
	table.RLock()
	r := C.ffi_global(chars(name), C.size_t(len(name)))
	table.RUnlock()
	runtime.KeepAlive(name)
	if r.status != 0 {
		return nil, raised(name, r)
	}
	if r._type == C.FFI_NONE {
		return nil, refuse("global", ErrNotFound, "%.80q is not in the table", name)
	}
	return newFunction(name, uintptr(r.value), options), nil
}

// Function looks up a function of the module: what its library exports as __tvm_ffi_<name>, or what
// a library that it imports does.
//
// Ownership: the result is the caller's, and keeps the module. Lifetime: until its Close. Threads:
// any. On error: [ErrNotFound], [dlpack.ErrClosed].
func (m *Module) Function(name string, options ...FunctionOption) (*Function, error) {
	if m == nil {
		return nil, errClosed("module")
	}
	lookup, err := Global("ffi.ModuleGetFunction")
	if err != nil {
		return nil, err
	}
	defer lookup.Close()
	found, err := lookup.Call(m, name, true)
	if err != nil {
		return nil, err
	}
	f, ok := found.(*Function)
	if !ok {
		return nil, refuse("module", ErrNotFound, "%s has no %s", m.path, name)
	}
	f.name = name
	f.apply(options)
	return f, nil
}

func errClosed(where string) error { return refuse(where, dlpack.ErrClosed, "it is closed") }
