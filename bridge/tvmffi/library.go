//go:build cgo

package tvmffi

/*
#cgo CFLAGS: -std=gnu11 -O2 -I${SRCDIR}/../../include -I${SRCDIR}/../internal/library
#cgo linux LDFLAGS: -Wl,--wrap=_cgo_wait_runtime_init_done -Wl,--wrap=crosscall2
#include <stdlib.h>
#include "tvmffi.h"
*/
import "C"

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/dlbridge/dlbridge/bridge/internal/library"
	_ "github.com/dlbridge/dlbridge/include/dlpack" // dlpack.h
)

// The environment variables that name the libraries. The value is the path of the file, or of the folder that contains
// it.
const (
	LibraryVariable = "DLBRIDGE_TVM_FFI"
	RuntimeVariable = "DLBRIDGE_TVM_RUNTIME"
)

// loaded records the libraries, which are never unloaded.
var loaded struct {
	mu      sync.Mutex
	ready   atomic.Bool
	path    string
	runtime string
}

// Go's signal handlers are installed by the time this runs.
func init() { C.ffi_note_handler() }

// Load loads libtvm_ffi into the process. A program needs to call Load only to name the file. The other functions load
// the library when they need it, as Load does with an empty path.
//
// Load takes the library from the first of these places that names one. If it cannot be loaded from there, Load returns
// an error and does not try the other places.
//
//   - The process: Python has loaded the library, or the program is linked with it.
//   - path: the file, or the folder that contains it.
//   - The environment variable DLBRIDGE_TVM_FFI: also a file or folder.
//   - The search path of the loader (LD_LIBRARY_PATH, ldconfig).
//   - The packages of the python3 in PATH. Load runs python3 to find them, and waits for at most half a minute. Each
//     call runs python3 again until the library is found.
//
// The symbols of the library become global in the process, because kernels need them. libtvm_ffi installs a handler for
// SIGSEGV that ends the process. Load restores the previous handler, so a nil dereference in Go remains a panic.
//
// Ownership: nothing moves. Lifetime: the library stays until the process ends. Threads: any. On error: [ErrLibrary],
// also for a library whose version is not 0.1.x, for a path that is not a regular file, and if the process has loaded a
// file other than path. A loaded library may then stay in the process unused.
func Load(path string) error {
	loaded.mu.Lock()
	defer loaded.mu.Unlock()
	if !loaded.ready.Load() {
		err := attach("") // the library that the process has loaded already
		if err == nil && !loaded.ready.Load() {
			err = tvmFFI.Load(path, attach)
		}
		if err != nil {
			return newError(ErrLibrary, "load: %v", err)
		}
	}
	if path != "" && !tvmFFI.Is(path, loaded.path) {
		return newError(ErrLibrary, "load: the process has loaded %s, and cannot load %s as well", loaded.path, path)
	}
	return nil
}

// LoadRuntime loads libtvm_runtime into the process, after libtvm_ffi. Kernels with parallel loops need it, and it must
// be loaded before their module. LoadRuntime searches as [Load] does, beginning with path. The environment variable is
// DLBRIDGE_TVM_RUNTIME, and the Python package is apache-tvm. After a success, further calls do nothing, whatever their
// path.
//
// Ownership: nothing moves. Lifetime: the library stays until the process ends. Threads: any. On error: [ErrLibrary].
func LoadRuntime(path string) error {
	if err := ensure(); err != nil {
		return err
	}
	loaded.mu.Lock()
	defer loaded.mu.Unlock()
	if loaded.runtime != "" {
		return nil
	}
	err := tvmRuntime.Load(path, func(file string) error {
		name := C.CString(file)
		defer C.free(unsafe.Pointer(name))
		table.Lock() // the library registers functions when it is loaded
		failed := library.Error(unsafe.Pointer(C.ffi_load_global(name)))
		table.Unlock()
		if failed != nil {
			return failed
		}
		loaded.runtime = file
		return nil
	})
	if err != nil {
		return newError(ErrLibrary, "load runtime: %v", err)
	}
	return nil
}

// Path returns the file from which libtvm_ffi was loaded, or "" if this package does not use the library yet.
func Path() string {
	loaded.mu.Lock()
	defer loaded.mu.Unlock()
	if !loaded.ready.Load() {
		return ""
	}
	return loaded.path
}

// ensure loads libtvm_ffi unless it is loaded.
func ensure() error {
	if loaded.ready.Load() {
		return nil
	}
	return Load("")
}

// The libraries.
var (
	tvmFFI = library.Library{File: library.Name("libtvm_ffi", ""), Variable: LibraryVariable, Install: "the wheel apache-tvm-ffi",
		Elsewhere: func() (string, error) { return pythonFile("tvm_ffi", library.Name("libtvm_ffi", "")) }}
	tvmRuntime = library.Library{File: library.Name("libtvm_runtime", ""), Variable: RuntimeVariable, Install: "the wheel apache-tvm",
		Elsewhere: func() (string, error) { return pythonFile("tvm", library.Name("libtvm_runtime", "")) }}
)

// pythonFile returns the path of a library in a package of python3.
func pythonFile(pythonPackage, file string) (string, error) {
	folder, err := pythonFolder(pythonPackage)
	if err != nil {
		return "", err
	}
	for _, sub := range []string{"lib", "."} {
		name := filepath.Join(folder, sub, file)
		if _, err := os.Stat(name); err == nil {
			return name, nil
		}
	}
	return "", fmt.Errorf("it is not in %s", folder)
}

// patience is the longest time to wait for python3.
var patience = 30 * time.Second

// pythonFolder runs python3 to find the folder of a package, without importing the package.
func pythonFolder(name string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	const program = "import sys, importlib.util as u\n" +
		"sys.path = [p for p in sys.path if p]\n" + // not the current folder
		"s = u.find_spec(sys.argv[1])\n" +
		"print(s.submodule_search_locations[0] if s and s.submodule_search_locations else '')"
	command := exec.CommandContext(ctx, "python3", "-c", program, name)
	command.WaitDelay = time.Second // python3 may be a script, whose child processes may keep its output open
	out, err := command.Output()
	folder := strings.TrimSpace(string(out))
	if err != nil {
		return "", fmt.Errorf("python3 failed: %w", err)
	}
	if folder == "" {
		return "", fmt.Errorf("python3 has no package %s", name)
	}
	return folder, nil
}

// attached reports whether libtvm_ffi is in the process and can be used. It does not load the library.
func attached() bool { return attachPresent() == nil && loaded.ready.Load() }

// attachPresent attaches the libtvm_ffi that is in the process, if there is one. It does not load the library.
func attachPresent() error {
	if loaded.ready.Load() {
		return nil
	}
	loaded.mu.Lock()
	defer loaded.mu.Unlock()
	if loaded.ready.Load() {
		return nil
	}
	return attach("")
}

// attach looks up the functions of the libtvm_ffi in the process, which must have the version of abi.h. If the process
// has no libtvm_ffi, attach loads it from a file. If file is also empty, it returns nil, and loaded.ready stays false.
// The caller holds loaded.mu.
func attach(file string) error {
	var name, found *C.char
	if file != "" {
		name = C.CString(file)
		defer C.free(unsafe.Pointer(name))
	}
	if err := library.Error(unsafe.Pointer(C.ffi_attach(name, &found))); err != nil || found == nil {
		return err
	}
	defer C.free(unsafe.Pointer(found))
	loaded.path = C.GoString(found)
	loaded.ready.Store(true)
	return nil
}
