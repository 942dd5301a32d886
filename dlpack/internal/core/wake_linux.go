//go:build cgo

package core

import "syscall"

// openWake opens an eventfd, which has one descriptor for reading and writing.
func openWake() (read, write int, ok bool) {
	fd, _, errno := syscall.RawSyscall(syscall.SYS_EVENTFD2, 0, syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	return int(fd), int(fd), errno == 0
}
