//go:build linux || darwin

package dlpack

import "syscall"

// canMap reports whether the system can map size more bytes.
func canMap(size int) bool {
	probe, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	return err == nil && syscall.Munmap(probe) == nil
}
