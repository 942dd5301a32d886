//go:build cgo

package zeromq

/*
#cgo CFLAGS: -I${SRCDIR}/../../include -I${SRCDIR}/../internal/library
#include "libzmq.h"
#include <stdlib.h>
*/
import "C"

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/dlbridge/dlbridge/bridge/internal/library"
	_ "github.com/dlbridge/dlbridge/include/dlpack" // dlpack.h
)

// LibraryVariable is the environment variable that names libzmq: the file, or the folder that contains it.
const LibraryVariable = "DLBRIDGE_LIBZMQ"

// ErrLibrary reports that libzmq cannot be loaded: it was not found, it is not version 4.2 or a later 4.x, or it is not
// libzmq.
var ErrLibrary = errors.New("libzmq cannot be loaded")

// ErrDrafts reports that the loaded libzmq lacks the sockets of the draft API, [Client] and [Server].
var ErrDrafts = errors.New("libzmq has no draft API")

var libzmq = library.Library{File: library.Name("libzmq", "5"), Variable: LibraryVariable, Install: "libzmq 4.2 or later (libzmq5 of Debian)"}

// loaded records libzmq, which is never unloaded.
var loaded struct {
	mu    sync.Mutex
	ready atomic.Bool
}

// Load loads libzmq into the process. A program needs to call Load only to name the file. [NewContext] and [Version]
// load the library when they need it, as Load does with an empty path.
//
// Load takes the library from the first of these places that names one. If it cannot be loaded from there, Load returns
// an error and does not try the other places.
//
//   - path: the file, or the folder that contains it.
//   - The environment variable DLBRIDGE_LIBZMQ: also a file or folder.
//   - The search path of the loader (LD_LIBRARY_PATH, ldconfig), for libzmq.so.5, or libzmq.5.dylib on macOS. This
//     also finds the libzmq with which the program is linked.
//
// Ownership: nothing moves. Lifetime: the library stays until the process ends. Threads: any. On error: [ErrLibrary],
// also for a path that is not a regular file, and if this package has loaded a file other than path. A loaded library
// may then stay in the process unused. After an error Load can be called again.
func Load(path string) error {
	if path == "" && loaded.ready.Load() {
		return nil
	}
	loaded.mu.Lock()
	defer loaded.mu.Unlock()
	if !loaded.ready.Load() {
		err := libzmq.Load(path, func(path string) error {
			name := C.CString(path)
			defer C.free(unsafe.Pointer(name))
			if err := library.Error(unsafe.Pointer(C.zeromq_load(name))); err != nil {
				return err
			}
			if filepath.IsAbs(path) && !libzmq.Is(path, file()) {
				return fmt.Errorf("%s is not libzmq, but a library that uses %s", path, file())
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("zeromq: %w: %w", ErrLibrary, err)
		}
		loaded.ready.Store(true)
	}
	if path != "" && !libzmq.Is(path, file()) {
		return fmt.Errorf("zeromq: %w: the process has loaded %s, and cannot load %s as well", ErrLibrary, file(), path)
	}
	return nil
}

// requireDrafts returns an error for a socket of the draft API if libzmq lacks this API. Such a libzmq still makes the
// sockets, but has no functions for their routing ids.
func requireDrafts(kind Type) error {
	if kind != Client && kind != Server || bool(C.zeromq_drafts()) {
		return nil
	}
	return fmt.Errorf("zeromq: socket: CLIENT and SERVER: %w: %s lacks this API; set %s to libzmq 4.3.2 or later that is built with it "+
		"(cmake -DENABLE_DRAFTS=ON)", ErrDrafts, file(), LibraryVariable)
}

// file returns the path of the loaded libzmq.
func file() string { return C.GoString(C.zeromq_path()) }
