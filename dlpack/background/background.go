// Package background runs functions on goroutines that inherit nothing from the caller. The packages of this module use
// it for long-running work of the library, for releases of forgotten memory, and for the functions of OnRelease.
//
// A goroutine inherits the profiler labels of the goroutine that starts it. It also joins the testing/synctest bubble
// of that goroutine. If a caller's goroutine started a goroutine of the library, the new goroutine would have the
// caller's labels until the process ends, and the caller's bubble could not end. The initialization of this package
// therefore starts a goroutine that starts all others.
//
// Cleanups and finalizers must not call foreign code themselves, because foreign code may block: a deleter may wait for
// Python's GIL, or for an interpreter that has ended. With fewer than 8 processors, the runtime has one goroutine for all
// cleanups of the process. One release that blocks would stop the cleanups of the whole program. [Release] makes such
// calls on other goroutines.
package background

import "sync"

// start carries functions to the goroutine that starts all others.
var start = make(chan func())

func init() {
	go func() {
		for f := range start {
			go f()
		}
	}()
}

// Go runs f on a new goroutine that inherits nothing from the caller. A nil f does nothing.
func Go(f func()) {
	if f != nil {
		start <- f
	}
}

// maxRunning is the largest number of releases that run at the same time. Each release that blocks in C occupies a thread of the
// operating system, and Go ends the process if it needs more than 10,000 threads. Without the limit, thousands of forgotten
// tensors whose deleters wait for one lock would need that many.
const maxRunning = 64

var releases struct {
	mu      sync.Mutex
	waiting []func()
	running int
	// busy is locked while running is not 0; Wait waits for it. It is a mutex because only mutexes work between goroutines
	// inside and outside a testing/synctest bubble: other means of waiting end the process, or count as a deadlock of the
	// bubble.
	busy sync.Mutex
}

// Release runs f on a goroutine of the package. f gives memory back, or tells the program that it was given back, and
// may block. Up to 64 releases run at the same time, so that a release that blocks does not delay the others. If 64
// releases block, later releases wait until one of the 64 returns. No lock is held while f runs. Release does not wait
// for f or other releases, so the caller may hold locks that these need. A nil f does nothing.
func Release(f func()) {
	if f == nil {
		return
	}
	releases.mu.Lock()
	releases.waiting = append(releases.waiting, f)
	one := releases.running < maxRunning
	if one {
		if releases.running == 0 {
			releases.busy.Lock() // Wait holds it only for a moment
		}
		releases.running++
	}
	releases.mu.Unlock()
	if one {
		Go(work)
	}
}

// work runs releases until none is waiting. It does not hold the mutex during a release, which may block. If a release calls
// [runtime.Goexit], another goroutine takes over.
func work() {
	exited := true
	defer func() {
		if exited {
			Go(work)
		}
	}()
	releases.mu.Lock()
	for len(releases.waiting) > 0 {
		f := releases.waiting[0]
		releases.waiting[0] = nil
		releases.waiting = releases.waiting[1:]
		releases.mu.Unlock()
		f()
		releases.mu.Lock()
	}
	if releases.running--; releases.running == 0 {
		releases.busy.Unlock()
	}
	releases.mu.Unlock()
	exited = false
}

// Wait waits until no release is running or waiting. Tests call it before they count live objects.
func Wait() {
	releases.busy.Lock()
	defer releases.busy.Unlock()
}
