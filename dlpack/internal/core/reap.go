//go:build cgo

package core

import (
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
)

// Reap unpins what nobody has a share of any more but Go, and takes back what has come home.
func Reap() {
	detach()
	drain()
}

// WakeAt sets how many bytes of Go's memory may wait to be unpinned before a deleter wakes Go.
func WakeAt(bytes int64) (last int64) {
	last = wakeAt(max(bytes, 1))
	drain() // what is dead already will not pass the new threshold
	return last
}

// drain takes all slots back that have come home. The count of dead bytes is set back first: what dies from here on counts
// anew.
func drain() {
	all := allShards()
	if all == nil {
		return
	}
	atomic.SwapInt64(deadBytes(), 0) // sees the pushes of all that were counted
	const some = 32
	for i := range all {
		sh := &all[i]
		sh.mu.Lock()
		for b := &sh.slots; b.pending != 0 || atomic.LoadUintptr(&b.dead.top) != 0; {
			b.reap(some)
			sh.mu.Unlock() // lets exports in between
			sh.mu.Lock()
		}
		sh.mu.Unlock()
	}
}

// startReaping makes sure that memory is unpinned, and given back, while nobody calls.
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

// pollerCanStart reports whether there are descriptors for Go's poller, which is started by the first file that needs
// it. It takes two on Linux and at most three elsewhere, and ends the process when it gets none.
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

// wakeFile stays open, so that deleters never write to another file that got its number. A program must not close it.
var wakeFile *os.File

// reapOnWake reaps whenever wakeFile can be read, as long as the process lives.
func reapOnWake() {
	var buffer [64]byte
	for {
		if _, err := wakeFile.Read(buffer[:]); err != nil {
			wakeBy(-1)
			return
		}
		drain()
	}
}
