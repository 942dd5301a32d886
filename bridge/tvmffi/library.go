//go:build cgo

package tvmffi

/*
#cgo CFLAGS: -std=gnu11 -O2 -I${SRCDIR}/../../include
#cgo linux LDFLAGS: -ldl -Wl,--wrap=_cgo_wait_runtime_init_done -Wl,--wrap=crosscall2
#include <stdlib.h>
#include "tvmffi.h"
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	_ "github.com/dlbridge/dlbridge/include/dlpack" // dlpack.h
)

// The environment variables that name the libraries. The value is the file, or the folder that contains it.
const (
	LibraryVariable = "DLBRIDGE_TVM_FFI"
	RuntimeVariable = "DLBRIDGE_TVM_RUNTIME"
)

// library records the loaded libraries, which are never unloaded.
var library struct {
	mu      sync.Mutex
	loaded  atomic.Bool
	path    string
	runtime string
}

// Go's signal handlers are installed by the time this runs.
func init() { C.ffi_note_handler() }

// Load loads libtvm_ffi into the process. A program needs to call it only to name the file: the other functions load the
// library when they need it, as Load with an empty path does.
//
// The library is taken from the first of these places that names one. If it cannot be loaded from there, Load returns an error
// and does not try the other places.
//
//   - The process: Python has loaded the library, or the program is linked with it.
//   - path: the file, or the folder that contains it.
//   - The environment variable DLBRIDGE_TVM_FFI: a file or folder as well.
//   - The search path of the loader (LD_LIBRARY_PATH, ldconfig).
//   - The packages of the python3 in PATH. Load runs python3 to find them, and waits for at most half a minute. Until the
//     library is found, each call does so again.
//
// The symbols of the library become global in the process, because kernels need them. libtvm_ffi installs a handler for
// SIGSEGV that ends the process; Load restores the previous handler, so that a nil dereference in Go remains a panic.
//
// Ownership: nothing moves. Lifetime: the library stays until the process ends. Threads: any. On error: [ErrLibrary], also
// for a library of another version than 0.1.x, for a path that is not a regular file, and if the process has loaded another
// file than path; a library that was loaded may stay in the process unused.
func Load(path string) error {
	library.mu.Lock()
	defer library.mu.Unlock()
	if !library.loaded.Load() {
		err := attach("", false) // the library that the process has loaded already
		if err == nil && !library.loaded.Load() {
			err = search(path, LibraryVariable, libraryFile, "tvm_ffi", func(file string) error { return attach(file, true) })
		}
		if err != nil {
			return newError(ErrLibrary, "load: %v", err)
		}
	}
	if path != "" && !sameFile(fileIn(path, libraryFile), library.path) {
		return newError(ErrLibrary, "load: the process has loaded %s, and cannot load %s as well", library.path, path)
	}
	return nil
}

// LoadRuntime loads libtvm_runtime into the process, after libtvm_ffi. Kernels with parallel loops need it, and it must be
// loaded before their module. It is searched for as [Load] describes, beginning with path. The environment variable is
// DLBRIDGE_TVM_RUNTIME, and the Python package is apache-tvm. Once it has succeeded, further calls do nothing, whatever
// their path.
//
// Ownership: nothing moves. Lifetime: the library stays until the process ends. Threads: any. On error: [ErrLibrary].
func LoadRuntime(path string) error {
	if err := ensure(); err != nil {
		return err
	}
	library.mu.Lock()
	defer library.mu.Unlock()
	if library.runtime != "" {
		return nil
	}
	err := search(path, RuntimeVariable, runtimeFile, "tvm", func(file string) error {
		if file == "" {
			file = runtimeFile
		}
		name := C.CString(file)
		defer C.free(unsafe.Pointer(name))
		table.Lock() // the library registers functions when it is loaded
		failed := taken(C.ffi_load_global(name))
		table.Unlock()
		if failed != nil {
			return failed
		}
		library.runtime = file
		return nil
	})
	if err != nil {
		return newError(ErrLibrary, "load runtime: %v", err)
	}
	return nil
}

// Path returns the file that libtvm_ffi was loaded from, or "" if this package does not use the library yet.
func Path() string {
	library.mu.Lock()
	defer library.mu.Unlock()
	if !library.loaded.Load() {
		return ""
	}
	return library.path
}

// ensure loads libtvm_ffi unless it is loaded.
func ensure() error {
	if library.loaded.Load() {
		return nil
	}
	return Load("")
}

var libraryFile, runtimeFile = "libtvm_ffi" + suffix, "libtvm_runtime" + suffix

var suffix = map[bool]string{true: ".dylib", false: ".so"}[runtime.GOOS == "darwin"]

// search finds a library and loads it. It calls load with "" to leave the search for the file to the system's dynamic loader.
func search(path, variable, file, pythonPackage string, load func(file string) error) error {
	open := func(file string) error {
		if err := loadable(file); err != nil {
			return err
		}
		return load(file)
	}
	if path != "" {
		return open(fileIn(path, file))
	}
	if path = os.Getenv(variable); path != "" {
		if err := open(fileIn(path, file)); err != nil {
			return fmt.Errorf("%s: %w", variable, err)
		}
		return nil
	}
	loader := open("")
	if loader == nil {
		return nil
	}
	folder, err := pythonFolder(pythonPackage)
	if err != nil {
		return fmt.Errorf("%w, and %w; set %s to the path of %s", loader, err, variable, file)
	}
	for _, sub := range []string{"lib", "."} {
		name := filepath.Join(folder, sub, file)
		if _, err := os.Stat(name); err == nil {
			return open(name)
		}
	}
	return fmt.Errorf("%w, and it is not in %s; set %s to the path of %s", loader, folder, variable, file)
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
func attached() bool { return attachPresent() == nil && library.loaded.Load() }

// attachPresent attaches the libtvm_ffi that is in the process, if there is one. It does not load the library.
func attachPresent() error {
	if library.loaded.Load() {
		return nil
	}
	library.mu.Lock()
	defer library.mu.Unlock()
	if library.loaded.Load() {
		return nil
	}
	return attach("", false)
}

// attach looks up the functions of the libtvm_ffi in the process, which must have the version of abi.h. If there is none and
// load is set, it loads the library from a file, or from the search path of the loader if file is empty. If there is none and
// load is not set, it returns nil, and library.loaded stays false. The caller holds library.mu.
func attach(file string, load bool) error {
	var name, found *C.char
	if file != "" {
		name = C.CString(file)
		defer C.free(unsafe.Pointer(name))
	}
	flag := C.int(0)
	if load {
		flag = 1
	}
	if err := taken(C.ffi_attach(name, flag, &found)); err != nil || found == nil {
		return err
	}
	defer C.free(unsafe.Pointer(found))
	library.path = C.GoString(found)
	library.loaded.Store(true)
	return nil
}

// taken converts an error text of C to an error, and frees the text.
func taken(text *C.char) error {
	if text == nil {
		return nil
	}
	defer C.free(unsafe.Pointer(text))
	return errors.New(C.GoString(text))
}

// fileIn returns path, or the file in it if path is a folder.
func fileIn(path, file string) string {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, file)
	}
	if !strings.ContainsRune(path, filepath.Separator) {
		path = "." + string(filepath.Separator) + path // with a separator, so that the loader does not search for it
	}
	return path
}

// loadable returns an error for a path that must not reach the loader: one of a file that is not regular, because the
// loader may wait forever for the writer of a FIFO, and one with a NUL, where the loader would take the path to end. It
// returns nil if there is no file.
func loadable(path string) error {
	if strings.ContainsRune(path, 0) {
		return fmt.Errorf("the path %q contains a NUL", path)
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", path)
	}
	return nil
}

func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	other, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(one, other)
}
