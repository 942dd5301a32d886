//go:build cgo

package tvmffi

/*
#cgo CFLAGS: -std=gnu11 -O2 -I${SRCDIR}/../../include -I${SRCDIR}/../../dlpack/internal/core
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

// The environment variables that say where the libraries are: a file, or the folder that it is in.
const (
	LibraryVariable = "DLBRIDGE_TVM_FFI"
	RuntimeVariable = "DLBRIDGE_TVM_RUNTIME"
)

// library has the loaded libraries, which are never unloaded.
var library struct {
	mu      sync.Mutex
	loaded  atomic.Bool
	path    string
	runtime string
}

// Go's signal handlers are in place by now.
func init() { C.ffi_note_handler() }

// Load makes libtvm_ffi part of the process. Calling it is only needed to say where the library is:
// other functions load it when they need it, as with an empty path. Nothing is looked for before
// that.
//
// The library is taken from the first of these places that names one: the process, where Python has
// loaded it, or a program is linked with it; path, a file or the folder that it is in; the
// environment variable DLBRIDGE_TVM_FFI, a file or folder as well; the loader's own search
// (LD_LIBRARY_PATH, ldconfig); and the packages of the python3 in PATH, which each call asks for them
// until one finds the library, and waits for half a minute at most. When that one cannot be loaded, no other is tried.
//
// The symbols become those of the process, as kernels need it. libtvm_ffi installs a handler for
// SIGSEGV that ends the process; the one from before is put back, so that a nil dereference in Go
// is a panic as ever.
//
// Ownership: none moves. Lifetime: the library stays until the process ends. Threads: any. On
// error: [ErrLibrary], also for a path that is not a regular file; the process is as it was, or has a library that is
// not used.
func Load(path string) error {
	library.mu.Lock()
	defer library.mu.Unlock()
	if !library.loaded.Load() {
		err := attach("", false) // what the process has
		if err == nil && !library.loaded.Load() {
			err = search(path, LibraryVariable, libraryFile, "tvm_ffi", func(file string) error { return attach(file, true) })
		}
		if err != nil {
			return refuse("load", ErrLibrary, "%v", err)
		}
	}
	if path != "" && !sameFile(fileIn(path, libraryFile), library.path) {
		return refuse("load", ErrLibrary, "the process has %s, and cannot have %s as well", library.path, path)
	}
	return nil
}

// LoadRuntime makes libtvm_runtime part of the process, which kernels with parallel loops need. It
// must be loaded before their module is. It is looked for as libtvm_ffi is (see [Load]), which is
// loaded first; the environment variable is DLBRIDGE_TVM_RUNTIME, the package apache-tvm.
//
// Ownership: none moves. Lifetime: the library stays until the process ends. Threads: any. On
// error: [ErrLibrary].
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
		table.Lock() // it registers functions
		failed := taken(C.ffi_load_global(name))
		table.Unlock()
		if failed != nil {
			return failed
		}
		library.runtime = file
		return nil
	})
	if err != nil {
		return refuse("load runtime", ErrLibrary, "%v", err)
	}
	return nil
}

// Path is the file that libtvm_ffi was loaded from, and empty where it is not loaded.
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

// search finds a library, and opens it. An empty name is what the loader finds by itself.
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
		return fmt.Errorf("set %s: %w, and %w", variable, loader, err)
	}
	for _, sub := range []string{"lib", "."} {
		if name := filepath.Join(folder, sub, file); exists(name) {
			return open(name)
		}
	}
	return fmt.Errorf("set %s: %w, and it is not in %s", variable, loader, folder)
}

// patience is the time that python3 may take.
var patience = 30 * time.Second

// pythonFolder asks python3 where a package is, without importing it.
func pythonFolder(name string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	const program = "import sys, importlib.util as u\n" +
		"sys.path = [p for p in sys.path if p]\n" + // not the current folder
		"s = u.find_spec(sys.argv[1])\n" +
		"print(s.submodule_search_locations[0] if s and s.submodule_search_locations else '')"
	command := exec.CommandContext(ctx, "python3", "-c", program, name)
	command.WaitDelay = time.Second // python3 may be a script, and what it has started may hold its output
	out, err := command.Output()
	folder := strings.TrimSpace(string(out))
	if err != nil {
		return "", fmt.Errorf("python3 was asked: %w", err)
	}
	if folder == "" {
		return "", fmt.Errorf("python3 has no package %s", name)
	}
	return folder, nil
}

// attached reports whether libtvm_ffi is in the process, and loads nothing.
func attached() bool {
	if library.loaded.Load() {
		return true
	}
	library.mu.Lock()
	defer library.mu.Unlock()
	return attach("", false) == nil && library.loaded.Load()
}

// attach takes the libtvm_ffi of the process, which may have none, or, with load, the one in a
// file.
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
	if v := C.ffi_loaded_version(); v.major != 0 || v.minor != 1 {
		return fmt.Errorf("%s has version %d.%d.%d, know 0.1.x", C.GoString(found), v.major, v.minor, v.patch)
	}
	library.path = C.GoString(found)
	library.loaded.Store(true)
	return nil
}

// taken makes an error of a text of C's, which it frees.
func taken(text *C.char) error {
	if text == nil {
		return nil
	}
	defer C.free(unsafe.Pointer(text))
	return errors.New(C.GoString(text))
}

func fileIn(path, file string) string {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, file)
	}
	if !strings.ContainsRune(path, filepath.Separator) {
		path = "." + string(filepath.Separator) + path // a file, and no name for the loader to look for
	}
	return path
}

// loadable refuses a path that the loader cannot have: it waits for a writer of a FIFO, perhaps for ever, and reads a
// path to its first NUL.
func loadable(path string) error {
	if strings.ContainsRune(path, 0) {
		return fmt.Errorf("the path %q has a NUL in it", path)
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file", path)
	}
	return nil
}

func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	other, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(one, other)
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
