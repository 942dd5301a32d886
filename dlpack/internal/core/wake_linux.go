//go:build cgo

package core

import (
	"os"
	"syscall"

	"github.com/dlbridge/dlbridge/dlpack/background"
)

// startWake parks a goroutine in the netpoller until a deleter writes to the eventfd.
func startWake() {
	fd, _, errno := syscall.RawSyscall(syscall.SYS_EVENTFD2, 0, syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if errno != 0 {
		return // the collector's cycles reap
	}
	if !pollerCanStart(int(fd)) {
		syscall.Close(int(fd))
		return
	}
	wakeFile = os.NewFile(fd, "dlpack-wake")
	background.Go(reapOnWake)
	wakeBy(int(fd))
}
