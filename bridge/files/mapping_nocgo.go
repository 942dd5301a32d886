//go:build !cgo && (linux || darwin)

package files

import (
	"os"
	"syscall"
)

// mapping is the memory of a file.
type mapping struct{ data []byte }

func newMapping(file *os.File, size int, writable bool) (m mapping, err error) {
	protection := syscall.PROT_READ
	if writable {
		protection |= syscall.PROT_WRITE
	}
	m.data, err = syscall.Mmap(int(file.Fd()), 0, size, protection, syscall.MAP_SHARED)
	return m, err
}

func (m *mapping) close() { _ = syscall.Munmap(m.data) }
