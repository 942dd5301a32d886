// Package background runs functions on goroutines that have nothing in common with the caller. The packages of this
// module use it for long-running work of the library, for the release of memory whose tensors were forgotten, and for
// the functions of OnRelease.
//
// A goroutine inherits the profiler labels of the goroutine that starts it, and its membership in a bubble of
// testing/synctest. A library goroutine that a caller's goroutine started would keep the caller's labels for as long as the
// process lives, and would keep the caller's bubble from ending. The goroutines of this package are started by a goroutine
// that the initialization of the package has started, and inherit nothing.
//
// Cleanups and finalizers must not call foreign code themselves, because it may block: a deleter may wait for Python's
// GIL, or for an interpreter that has ended. With fewer than 8 processors, the runtime has one goroutine for all cleanups of
// the process, so one release that blocks would stop the cleanups of the whole program. [Release] is for such calls.
package background

import "sync"

// start carries functions to the goroutine that starts others.
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
// operating system, and Go ends the process if it needs more than 10,000. Without the limit, thousands of forgotten tensors
// whose deleters wait for one lock would occupy that many.
const maxRunning = 64

var releases struct {
	mu      sync.Mutex
	waiting []func()
	running int
	// busy is locked while running is not 0, so that Wait can wait for it. It is a mutex because goroutines inside and outside
	// of a testing/synctest bubble can share nothing else: other means of waiting end the process, or count as a deadlock of the
	// bubble.
	busy sync.Mutex
}

// Release runs f on a goroutine of the package, and does not wait for it. f gives memory back, or tells the program
// that it was given back, and may block. Up to 64 releases run at the same time, so that one that blocks does not delay
// the others. If 64 releases block, later ones wait until one of them returns. No lock is held while f runs. Release
// waits for no release, so the caller may hold locks that releases need. A nil f does nothing.
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

// work runs releases until none is waiting. It does not hold the mutex during a release, which may block. After a release that
// calls [runtime.Goexit], another goroutine goes on in its place.
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

// Wait waits until no release is running or waiting. Tests use it before they count what is alive.
func Wait() {
	releases.busy.Lock()
	defer releases.busy.Unlock()
}
