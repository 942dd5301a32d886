//go:build cgo

package tvmffi

// #include "tvmffi.h"
import "C"

import (
	"math/bits"
	"runtime"
	"strconv"
	"sync/atomic"

	"github.com/dlbridge/dlbridge/dlpack/background"
)

// uses counts the calls that use an object which may be closed at the same time.
type uses struct {
	n      atomic.Int64 // uses besides the holder's own; negative after the last use has ended
	closed atomic.Bool
}

// acquire begins a use. It reports false after close.
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

// release ends a use, and close ends the holder's own use. Both report whether it was the last use.
func (u *uses) release() bool { return u.n.Add(-1) < 0 }
func (u *uses) close() bool   { return u.closed.CompareAndSwap(false, true) && u.release() }

// A reference is a counted reference to an object of TVM-FFI. The zero reference has no object, and counts as closed.
type reference struct {
	handle uintptr
	kind   int32 // the type of the object
	uses   uses
	guard  runtime.Cleanup
}

func giveBack(handle uintptr) { C.ffi_decref(C.uintptr_t(handle)) }

// hold takes over one reference to an object. A cleanup guard catches a forgotten Close. All cleanups share one
// goroutine of the runtime. The object's deleter may block, so it runs on another goroutine.
func (r *reference) hold(kind int32, handle uintptr) {
	r.kind, r.handle = kind, handle
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

// shareable is a *Function, a *Module or an *Object.
type shareable interface {
	share() (kind int32, handle uint64)
}

// share returns the type of the object and another reference to it. The handle is 0 if the reference is closed.
func (r *reference) share() (kind int32, handle uint64) {
	if !r.acquire() {
		return 0, 0
	}
	C.ffi_incref(C.uintptr_t(r.handle))
	r.release()
	return r.kind, uint64(r.handle)
}

// Close ends this reference to the object. Only the first Close has an effect. It does not wait: see [Function.Close].
func (r *reference) Close() error {
	if r.handle != 0 && r.uses.close() {
		r.end()
	}
	return nil
}

// An Object is an object of TVM-FFI that has no form in Go: an array, a map or a shape. It can be an argument of calls.
// Functions of libtvm_ffi, such as ffi.ArraySize and ffi.ArrayGetItem, can read it (see [Global]).
type Object struct{ reference }

// Close ends this reference to the object, as [Function.Close] does. A Close of a nil object has no effect.
func (o *Object) Close() error {
	if o == nil {
		return nil
	}
	return o.reference.Close()
}

// TypeIndex returns TVM-FFI's number of the object's type, and 0 if o is nil.
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

// A Function is a function of TVM-FFI. It comes from a module or the global table, or was made from a [Handler].
type Function struct {
	reference
	name  string
	align uintptr
}

func newFunction(name string, handle uintptr, options []FunctionOption) *Function {
	f := &Function{name: name, align: DefaultAlignment}
	f.hold(C.FFI_FUNCTION, handle)
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

// Close ends this reference to the function. It does not wait: if calls of the function are running, the last of them
// releases the reference when it ends. Only the first Close has an effect, and on a nil function it does nothing.
//
// Ownership: ends this reference. Lifetime: the function lives while TVM-FFI, or another reference, holds it.
// Threads: any goroutine. On error: never fails; the result makes it an io.Closer.
func (f *Function) Close() error {
	if f == nil {
		return nil
	}
	return f.reference.Close()
}

// Name returns the name with which the function was looked up, or the name of its [Handler]. It returns "function" if
// there is neither, or if f is nil.
func (f *Function) Name() string {
	if f == nil {
		return "function"
	}
	return f.name
}

// DefaultAlignment is the alignment in bytes that the data of tensors must have, unless [Alignment] sets another. It is
// the largest alignment that vector instructions require.
const DefaultAlignment = 64

// A FunctionOption changes how a function is called.
type FunctionOption func(*Function)

// Alignment sets the alignment in bytes that the data of tensors must have, rounded up to a power of two. Kernels
// vectorised by TVM load whole vectors, and end the process if the data is not aligned. Kernels that are built for
// AVX-512 require 64 bytes, kernels for AVX require 32, and kernels for SSE require 16. Kernels without vector
// instructions require the size of an element.
func Alignment(bytes int) FunctionOption {
	return func(f *Function) { f.align = 1 << bits.Len(uint(max(bytes, 1)-1)) }
}
