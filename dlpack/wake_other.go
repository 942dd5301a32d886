//go:build cgo && !linux

package dlpack

import (
	"os"
	"syscall"

	"github.com/dlbridge/dlbridge/dlpack/background"
)

// startWake parks a goroutine in the netpoller until a deleter writes to the pipe.
func startWake() {
	var fds [2]int
	if syscall.Pipe(fds[:]) != nil {
		return // the collector's cycles reap
	}
	if !pollerCanStart(fds[0]) {
		syscall.Close(fds[0])
		syscall.Close(fds[1])
		return
	}
	for _, fd := range fds {
		syscall.CloseOnExec(fd)
		syscall.SetNonblock(fd, true)
	}
	wakeFile = os.NewFile(uintptr(fds[0]), "dlpack-wake")
	background.Go(reapOnWake)
	coreWakeBy(fds[1])
}
