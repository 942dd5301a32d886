//go:build cgo && !linux

package core

import "syscall"

// openWake opens a pipe.
func openWake() (read, write int, ok bool) {
	var fds [2]int
	syscall.ForkLock.RLock() // no child of this process inherits them
	defer syscall.ForkLock.RUnlock()
	if syscall.Pipe(fds[:]) != nil {
		return 0, 0, false
	}
	for _, fd := range fds {
		syscall.CloseOnExec(fd)
		syscall.SetNonblock(fd, true)
	}
	return fds[0], fds[1], true
}
