//go:build cgo

package core

import (
	"os"
	"runtime"
	"sync/atomic"
	"syscall"

	"github.com/dlbridge/dlbridge/dlpack/background"
)

// Reap unpins memory that only Go has a share of, and takes back the slots that were returned.
func Reap() {
	detach()
	drain()
}

// WakeAt sets how many bytes of Go's memory may wait to be unpinned before a deleter wakes Go, and returns the previous
// value. A value below 1 counts as 1.
func WakeAt(bytes int64) (last int64) {
	last = atomic.SwapInt64(wakeThreshold, max(bytes, 1))
	drain() // bytes that are counted already would not cross the new threshold
	return last
}

// drain takes back all slots that were returned. It first resets the count of dead bytes and the word that
// dlbcore_wake_now has set, so that slots that are returned from here on are counted again, and wake Go again.
func drain() {
	atomic.SwapInt64(deadBytes, 0) // the slots of all bytes counted so far are in the return queues
	atomic.SwapInt64(wokenNow, 0)
	const some = 32
	for sh := range lockedShards {
		for b := &sh.slots; b.pending != 0 || atomic.LoadUintptr(&b.dead.top) != 0; {
			b.reap(some)
			sh.yield()
		}
	}
}

// startReaping starts the work in the background: after each garbage collection, it unpins memory and gives back pages
// of blocks; whenever a deleter wakes Go, it unpins memory.
func startReaping() {
	eachCycle(func() {
		Reap()
		trim()
	})
	startWake()
}

// eachCycle calls f once after each collection, on a goroutine of the runtime: f must not call foreign code.
func eachCycle(f func()) {
	runtime.AddCleanup(new([4]uint64), func(struct{}) {
		f()
		eachCycle(f)
	}, struct{}{})
}

// startWake starts a goroutine that waits in the netpoller until a deleter writes to an eventfd or a pipe. If no
// descriptors are left, deleters cannot wake Go, and memory is unpinned only at the next export, garbage collection or
// [Reap].
func startWake() {
	read, write, ok := openWake()
	if !ok {
		return
	}
	if !pollerCanStart(read) {
		syscall.Close(read)
		if write != read {
			syscall.Close(write)
		}
		return
	}
	wakeFile = os.NewFile(uintptr(read), "dlpack-wake")
	background.Go(reapOnWake)
	atomic.StoreInt64(wakeBy, int64(write))
}

// pollerCanStart reports whether there are enough descriptors for Go's poller, which starts with the first file that
// needs it. The poller takes two on Linux and at most three elsewhere, and ends the process if there are too few.
func pollerCanStart(fd int) bool {
	syscall.ForkLock.RLock() // no child of this process inherits the copies
	defer syscall.ForkLock.RUnlock()
	for range 3 {
		other, err := syscall.Dup(fd)
		if err != nil {
			return false
		}
		defer syscall.Close(other)
	}
	return true
}

// wakeFile stays open for good, so that deleters never write to another file with the same number.
var wakeFile *os.File

// reapOnWake takes back returned slots whenever wakeFile can be read. If a read fails, deleters no longer wake Go.
func reapOnWake() {
	var buffer [64]byte
	for {
		if _, err := wakeFile.Read(buffer[:]); err != nil {
			atomic.StoreInt64(wakeBy, -1)
			return
		}
		drain()
	}
}
