//go:build cgo

// Package library finds libraries that are opened at run time: programs build and start without them. library.h has the
// code shared by the C files that open libraries.
package library

// #cgo linux LDFLAGS: -ldl
// #include <stdlib.h>
import "C"

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"unsafe"
)

// A Library is a library that a program may need.
type Library struct {
	File     string // name of the file, for the loader of the system and in a folder
	Variable string // environment variable with the path of the file, or of the folder that contains it
	Install  string // the package that has the library, for errors
	// Elsewhere returns the path of the file if the loader has not found it. It is nil if there is no other place to
	// search.
	Elsewhere func() (string, error)
}

// Load opens the library. It calls open with the given path. If this path is empty, it calls open with the path in the
// environment variable. If open fails, Load tries no other place. If neither path is set, Load calls open with the bare
// name of the file, for which the system's loader searches. If this call fails, it calls open with the path that
// Elsewhere returns.
func (l *Library) Load(path string, open func(file string) error) error {
	if path != "" {
		return l.open(path, open)
	}
	if path = os.Getenv(l.Variable); path != "" {
		if err := l.open(path, open); err != nil {
			return fmt.Errorf("%s: %w; set the variable to the path of %s, or unset it", l.Variable, err, l.File)
		}
		return nil
	}
	err := open(l.File)
	if err == nil {
		return nil
	}
	if l.Elsewhere != nil {
		path, other := l.Elsewhere()
		if other == nil {
			return l.open(path, open)
		}
		err = fmt.Errorf("%w, and %w", err, other)
	}
	return fmt.Errorf("%w; install %s, or set %s to the path of %s", err, l.Install, l.Variable, l.File)
}

func (l *Library) open(path string, open func(file string) error) error {
	file := l.in(path)
	if err := Loadable(file); err != nil {
		return err
	}
	return open(file)
}

// Is reports whether path names the file that was loaded, or the folder that contains it.
func (l *Library) Is(path, loaded string) bool {
	one, err := os.Stat(l.in(path))
	other, err2 := os.Stat(loaded)
	return err == nil && err2 == nil && os.SameFile(one, other)
}

// in returns the absolute path of the library: path itself, or the file in it if path is a folder.
func (l *Library) in(path string) string {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, l.File)
	}
	if whole, err := filepath.Abs(path); err == nil {
		path = whole // so that the loader does not search for it, and the name stays valid when the working directory changes
	}
	return path
}

// Loadable returns an error for a path that must not reach the loader: the path of a file that is not regular, because
// the loader may wait forever for the writer of a FIFO, or a path with a NUL, which would end the path for the loader.
// It returns nil if there is no file.
func Loadable(path string) error {
	if strings.ContainsRune(path, 0) {
		return fmt.Errorf("the path %q contains a NUL", path)
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", path)
	}
	return nil
}

// Name returns the name of a library's file: Name("libx", "5") is libx.so.5, and libx.5.dylib on macOS. The version may be empty.
func Name(name, version string) string {
	if version != "" {
		version = "." + version
	}
	if runtime.GOOS == "darwin" {
		return name + version + ".dylib"
	}
	return name + ".so" + version
}

// Error converts an error text from C, of type char *, to an error, and frees the text. It returns nil for NULL.
func Error(text unsafe.Pointer) error {
	if text == nil {
		return nil
	}
	defer C.free(text)
	return errors.New(C.GoString((*C.char)(text)))
}
