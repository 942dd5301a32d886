//go:build cgo

package tvmffi

// #include <stdlib.h>
// #include "tvmffi.h"
import "C"

import (
	"path/filepath"
	"unsafe"

	"github.com/dlbridge/dlbridge/bridge/internal/library"
)

// A Module is a loaded library of functions.
type Module struct {
	reference
	path string
}

// Close ends this reference to the module, as [Function.Close] does. A Close of a nil module has no effect.
func (m *Module) Close() error {
	if m == nil {
		return nil
	}
	return m.reference.Close()
}

// LoadModule loads a library of functions from a file, such as a file written by TVM's export_library.
//
// Ownership: the caller owns the result. Lifetime: until its Close; the library itself stays in the process, because
// the results of its functions need its code. Threads: any. The library must not call [Global], [Register] or
// LoadModule while it is being loaded. On error: [ErrRuntime] if the library calls libtvm_runtime, which is not loaded
// ([LoadRuntime]); [ErrLibrary]; *[Error].
func LoadModule(path string) (*Module, error) {
	file, err := filepath.Abs(path)
	if err != nil {
		return nil, newError(ErrLibrary, "load module: %v", err)
	}
	if err := library.Loadable(file); err != nil {
		return nil, newError(ErrLibrary, "load module: %v", err)
	}
	load, err := Global("ffi.ModuleLoadFromFile")
	if err != nil {
		return nil, err
	}
	defer load.Close()
	table.Lock()
	m, err := As[*Module](load.Call(file)) // under the lock, because the library may register functions
	table.Unlock()
	if err != nil {
		return nil, err
	}
	m.path = file
	name := C.CString(file)
	defer C.free(unsafe.Pointer(name))
	if C.ffi_lacks_runtime(name) != 0 {
		m.Close()
		return nil, newError(ErrRuntime, "load module: %s calls libtvm_runtime, which is not loaded; call LoadRuntime first", path)
	}
	return m, nil
}

// Function looks up a function of the module: its library exports it as __tvm_ffi_<name>, or imports a library that has
// it.
//
// Ownership: the caller owns the result, which keeps the module. Lifetime: until its Close. Threads: any. On error:
// [ErrNotFound], [dlpack.ErrClosed].
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
		return nil, newError(ErrNotFound, "module: %s has no function %s", m.path, name)
	}
	f.name = name
	f.apply(options)
	return f, nil
}
