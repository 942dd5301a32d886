//go:build linux || darwin

package files

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"syscall"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack"
)

// A part is an open and mapped file. A File has one part, or the parts of a set.
type part struct {
	path     string
	file     *os.File
	opened   fs.FileInfo // when it was opened
	writable bool
	mapping
}

// openPart opens and maps a file. The errors have no prefix.
func openPart(path string, writable bool) (*part, error) {
	// Some devices act when they are opened, and opening a FIFO waits. So the file is checked before it is opened, and
	// again afterwards because another file may have taken its name.
	if info, err := os.Stat(path); err != nil {
		return nil, withoutPath(err)
	} else if err := checkKind(info); err != nil {
		return nil, err
	}
	flags := os.O_RDONLY | syscall.O_NONBLOCK | syscall.O_NOCTTY
	if writable {
		flags = os.O_RDWR | syscall.O_NONBLOCK | syscall.O_NOCTTY
	}
	file, err := os.OpenFile(path, flags, 0)
	if err != nil {
		return nil, withoutPath(err)
	}
	p := &part{path: path, file: file, writable: writable}
	if err := p.mapFile(); err != nil {
		file.Close()
		return nil, err
	}
	return p, nil
}

func (p *part) mapFile() (err error) {
	if p.opened, err = p.file.Stat(); err != nil {
		return withoutPath(err)
	}
	if err := checkKind(p.opened); err != nil {
		return err
	}
	size := p.opened.Size()
	switch {
	case size == 0:
		if n, _ := p.file.Read(make([]byte, 1)); n > 0 {
			return fmt.Errorf("the system reports a size of 0 for a file with contents, as for files of /proc; copy it to an ordinary file: %w", ErrKind)
		}
		return fmt.Errorf("the file is empty: %w", ErrKind)
	case size > math.MaxInt:
		return fmt.Errorf("the file has %d bytes: %w", size, dlpack.ErrMemory)
	}
	p.mapping, err = newMapping(p.file, int(size), p.writable)
	switch {
	case errors.Is(err, syscall.ENODEV):
		return fmt.Errorf("its file system cannot map files; copy it to another file system: %w", ErrKind)
	case errors.Is(err, syscall.ENOMEM):
		return fmt.Errorf("the system refuses to map %d bytes: %w", size, dlpack.ErrMemory)
	}
	return err
}

// checkKind returns an error for a file that is not regular.
func checkKind(info fs.FileInfo) error {
	kind := "special file"
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		kind = "directory"
	case mode&fs.ModeNamedPipe != 0:
		kind = "FIFO"
	case mode&fs.ModeSocket != 0:
		kind = "socket"
	case mode&fs.ModeDevice != 0:
		kind = "device"
	}
	return fmt.Errorf("it is a %s: %w", kind, ErrKind)
}

// withoutPath returns an error without its path, because the caller's error text names the file.
func withoutPath(err error) error {
	var e *fs.PathError
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

func (p *part) close() {
	p.file.Close()
	p.mapping.close()
}

// verify returns [ErrChanged] if the size of the file has changed since it was opened, or the file was written to. With
// a writable mapping this process may write to it, so then only the size counts.
func (p *part) verify() error {
	now, err := p.file.Stat()
	switch {
	case err != nil:
		return withoutPath(err)
	case now.Size() != p.opened.Size():
		return fmt.Errorf("it had %d bytes when it was opened, but has %d now: %w", p.opened.Size(), now.Size(), ErrChanged)
	case !p.writable && !now.ModTime().Equal(p.opened.ModTime()):
		return fmt.Errorf("it was last written at %v when it was opened, but at %v now: %w", p.opened.ModTime(), now.ModTime(), ErrChanged)
	}
	return nil
}

// reading calls f, which reads the mapping in Go. Without reading, access to a page that the file has lost would end
// the process.
func (p *part) reading(f func() error) error {
	return withoutFaults(f, func(address uintptr) error {
		at := address - uintptr(unsafe.Pointer(unsafe.SliceData(p.data)))
		if at >= uintptr(len(p.data)) {
			return nil
		}
		return fmt.Errorf("byte %d of %d can no longer be read: %w", at, len(p.data), ErrChanged)
	})
}

// withoutFaults calls f. If Go code in f reads memory that does not exist, withoutFaults returns the error of explain
// for that address. If explain returns nil, withoutFaults panics like f.
func withoutFaults(f func() error, explain func(address uintptr) error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch fault := recover().(type) {
		case nil:
		case interface {
			runtime.Error
			Addr() uintptr
		}:
			if err = explain(fault.Addr()); err == nil {
				panic(fault)
			}
		default:
			panic(fault)
		}
	}()
	return f()
}
