//go:build cgo && !linux

package core

import (
	"os"
	"syscall"

	"github.com/dlbridge/dlbridge/dlpack/background"
)

// startWake parks a goroutine in the netpoller until a deleter writes to the pipe.
func startWake() {
	var fds [2]int
	syscall.ForkLock.RLock() // no child of this process inherits them
	err := syscall.Pipe(fds[:])
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return // the collector's cycles reap
	}
	if !pollerCanStart(fds[0]) {
		syscall.Close(fds[0])
		syscall.Close(fds[1])
		return
	}
	for _, fd := range fds {
		syscall.SetNonblock(fd, true)
	}
	wakeFile = os.NewFile(uintptr(fds[0]), "dlpack-wake")
	background.Go(reapOnWake)
	wakeBy(fds[1])
}
