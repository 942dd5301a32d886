//go:build cgo

package tvmffi

// #include "tvmffi.h"
import "C"

import (
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
)

// table guards the global table of TVM-FFI, which has no lock: its source requires callers to lock it. Code that may
// call Go must not run while table is held, except the initialisation of libraries that are being loaded.
var table sync.RWMutex

// Global looks up a function in the global table of TVM-FFI, where libtvm_ffi, Python and other libraries register
// functions.
//
// Ownership: the caller owns the result. Lifetime: until its Close. Threads: any, see [Register]. On error: [ErrNotFound],
// [ErrLibrary].
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
		return nil, newError(ErrNotFound, "global: %.80q is not in the global table", name)
	}
	return newFunction(name, uintptr(r.value), options), nil
}

// handlers holds the Go functions that TVM-FFI has references to, by number. A call only reads the list.
var handlers struct {
	mu   sync.Mutex
	list atomic.Pointer[[]Handler]
	free []uint64 // numbers to reuse
}

//export dlb_tvmffi_serve
func dlb_tvmffi_serve(id uint64, args unsafe.Pointer, n int32, result unsafe.Pointer) int32 {
	return Serve((*handlers.list.Load())[id], args, n, result)
}

// NewFunction makes a function of TVM-FFI from a handler. It can be called, passed as an argument, or returned. Its
// arguments need no alignment.
//
// Ownership: the caller owns the result. The handler is kept as long as there is a reference to the function, and then
// until the next call of NewFunction or [Register]. Lifetime: this reference lives until Close of the result. Threads:
// any; the handler is called on the thread that calls the function, possibly on several threads at the same time. On
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
	for C.ffi_deleted_function(&gone) != 0 {
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

// Register puts a handler into the global table of TVM-FFI, where Python finds it with tvm_ffi.get_global_func, C++
// finds it with Function::GetGlobal, and Go finds it with [Global].
//
// The table of TVM-FFI has no lock. The functions of this package wait for each other. Python and C++ must not look up
// names during a call of Register, not even from functions that are running. A program should register its functions
// when it starts, or serialize these operations.
//
// Ownership: the table keeps the handler. Lifetime: until [Unregister]. Threads: any, see above. On error: [ErrLibrary];
// *[Error] if the name is taken.
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

// Unregister removes a function from the global table. Other references to it stay valid.
//
// Ownership: ends the table's reference. Lifetime: the function lives while other references hold it. Threads: any, see
// [Register]. On error: [ErrNotFound], [ErrLibrary].
func Unregister(name string) error {
	remove, err := Global("ffi.FunctionRemoveGlobal")
	if err != nil {
		return err
	}
	defer remove.Close()
	if f, err := Global(name); err == nil {
		defer f.Close() // the table's reference is not the last, so no deleter runs while the lock is held
	}
	table.Lock()
	found, err := As[bool](remove.Call(name))
	table.Unlock()
	if err != nil || found {
		return err
	}
	return newError(ErrNotFound, "unregister: %.80q is not in the global table", name)
}
