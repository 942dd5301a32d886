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

// A Prepared is a call whose arguments are settled: each [Prepared.Call] makes it anew, at nearly
// the cost of a bare call into C. [Function.Prepare] makes it.
type Prepared struct {
	settled
	closed atomic.Bool
	under  int // calls that are under way: one, or more where a callback makes the call again
	guard  runtime.Cleanup
}

// settled has the objects that a prepared call keeps alive.
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

// Prepare settles the arguments of calls, as of [Function.Call], and checks them once. Slices are
// pinned, and tensors held, until Close; what they contain may change from call to call. Tensors of
// borrowed memory are refused, since nothing would keep them.
//
// Ownership: the result is the caller's, and shares the arguments. Lifetime: until its Close.
// Threads: any. On error: as [Function.Call], and [dlpack.ErrBorrowed], [dlpack.ErrMemory]; nothing
// is kept.
func (f *Function) Prepare(args ...any) (*Prepared, error) {
	if f == nil || !f.acquire() {
		return nil, errClosed(f.Name())
	}
	s := settled{function: f, call: &call{pins: true}}
	err := s.call.describe(f, args)
	if err == nil {
		s.c = pointer(uintptr(C.ffi_prepare(C.uintptr_t(f.handle), s.call.first(), C.int32_t(len(args)), s.call.firstDim(), C.size_t(len(s.call.dims)))))
		if s.c == nil {
			err = refuse(f.name, dlpack.ErrMemory, "no memory for %d arguments", len(args))
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

// Call makes the call.
//
// Ownership, On error: as [Function.Call]; also [dlpack.ErrClosed]. Lifetime: a result is the
// caller's. Threads: any, one at a time: the arguments are the same for all.
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
	return value(r)
}

// leave ends a call that is under way.
func (p *Prepared) leave() {
	if p.under--; p.under == 0 && p.closed.Load() {
		p.end()
	}
	runtime.KeepAlive(p)
}

// Close lets go of the arguments. The first call has an effect, later ones have none; a call that
// is under way in this goroutine, and that has called back, ends first.
//
// Ownership: ends the hold on the function and the arguments. Lifetime: it must not be called
// again. Threads: any, while no other goroutine is in a call. On error: never fails; the result
// makes it an io.Closer.
func (p *Prepared) Close() error {
	if p != nil && p.c != nil && p.closed.CompareAndSwap(false, true) {
		p.guard.Stop()
		if p.under == 0 {
			p.end()
		}
	}
	return nil
}
