//go:build cgo

package tvmffi

// #include <stdlib.h>
// #include "tvmffi.h"
import "C"

import (
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/background"
)

// A Prepared is a call with fixed arguments that can be made many times. Each [Prepared.Call] costs little more than a bare
// call into C. [Function.Prepare] returns one.
type Prepared struct {
	settled
	closed atomic.Bool
	under  int // running calls; more than one if a callback makes the call again
	guard  runtime.Cleanup
}

// settled holds the resources of a prepared call. It is the argument of the cleanup guard, so it must not refer to the
// Prepared.
type settled struct {
	function *Function
	call     *call
	c        unsafe.Pointer // C: ffi_prepared
}

func (s settled) end() {
	C.free(s.c)
	s.call.end()
	s.function.release()
}

// Prepare fixes the arguments of future calls. It accepts the arguments of [Function.Call], and checks them once. Slices are
// pinned and tensors are held until Close; their elements may change between calls. Tensors of borrowed memory are refused,
// because nothing would keep the memory.
//
// Ownership: the caller owns the result, which shares the memory of the arguments. Lifetime: until its Close. Threads: any. On
// error: as [Function.Call], and [dlpack.ErrBorrowed], [dlpack.ErrMemory]; nothing is kept.
func (f *Function) Prepare(args ...any) (*Prepared, error) {
	if f == nil || !f.acquire() {
		return nil, errClosed(f.Name())
	}
	s := settled{function: f, call: &call{pins: true}}
	err := s.call.describe(f, args)
	if err == nil {
		s.c = pointer(uintptr(C.ffi_prepare(C.uintptr_t(f.handle), s.call.first(), C.int32_t(len(args)), s.call.firstDim(), C.size_t(len(s.call.dims)))))
		if s.c == nil {
			err = newError(dlpack.ErrMemory, "%s: no memory for %d arguments", f.name, len(args))
		}
	}
	if err != nil {
		s.end()
		return nil, err
	}
	p := &Prepared{settled: s}
	p.guard = runtime.AddCleanup(p, func(s settled) { background.Release(s.end) }, s) // see [reference.hold]
	return p, nil
}

// Call calls the function with the arguments of [Function.Prepare].
//
// Ownership: the caller must close the result. Lifetime: the result is independent of p. Threads: any, but one at a time,
// because all calls share the arguments. On error: as [Function.Call], and [dlpack.ErrClosed].
func (p *Prepared) Call() (any, error) {
	if p == nil || p.c == nil {
		return nil, errClosed("call")
	}
	if p.closed.Load() {
		return nil, errClosed(p.function.name)
	}
	p.under++
	defer p.leave() // deferred, since a Go function that is called may end the goroutine
	r := C.ffi_invoke_prepared(C.uintptr_t(uintptr(p.c)))
	if r.status != 0 {
		return nil, raised(p.function.name, r)
	}
	if r._type == C.FFI_NONE {
		return nil, nil
	}
	return resultOf(r)
}

// leave ends a call. After Close, the last call to end releases the resources.
func (p *Prepared) leave() {
	if p.under--; p.under == 0 && p.closed.Load() {
		p.end()
	}
	runtime.KeepAlive(p)
}

// Close releases the arguments. Only the first Close has an effect. If a callback calls Close during a call of p, the
// arguments are released when that call ends.
//
// Ownership: ends the references to the function and the arguments. Lifetime: p must not be called again. Threads: any, while
// no other goroutine is in a call. On error: never fails; the result makes it an io.Closer.
func (p *Prepared) Close() error {
	if p != nil && p.c != nil && p.closed.CompareAndSwap(false, true) {
		p.guard.Stop()
		if p.under == 0 {
			p.end()
		}
	}
	return nil
}
