// Package background runs work that belongs to no caller: what the library does by itself, and releases of memory
// whose owners were forgotten.
//
// A goroutine inherits the profiler labels of the goroutine that starts it, and its membership in a bubble of
// testing/synctest. A background goroutine that is started in a caller's context would therefore carry the labels of a
// stranger for as long as the process lives, and would keep the caller's bubble from ending. The goroutines of this
// package are started by one that the package's initialization has started, and inherit nothing.
//
// Cleanups and finalizers must not call foreign code themselves, because it may block: a deleter may wait for Python's
// GIL, or for an interpreter that has ended. The runtime has one goroutine for all cleanups of a process below 8
// processors, so that one such release would stop the cleanups of the whole program.
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

// Go runs f on a goroutine of its own, outside of the context of the caller. A nil f does nothing.
func Go(f func()) {
	if f != nil {
		start <- f
	}
}

// maxRunning is how many releases run at a time at most. Each that blocks in C takes a thread of the operating system, of which Go
// allows 10,000; several thousand tensors that are forgotten at once, and wait for one lock, must not take as many.
const maxRunning = 64

var releases struct {
	mu      sync.Mutex
	waiting []func()
	running int
	// busy is locked while running is not 0. Of all that can be waited for, goroutines inside and outside of a
	// testing/synctest bubble may share mutexes only; others end the process, or count as a deadlock of the bubble.
	busy sync.Mutex
}

// Release runs f, which calls foreign code that gives memory back, on a goroutine of the package, and does not wait
// for it. Up to 64 releases run at a time, so that one that blocks delays no other. One that never returns takes
// its place for good; once all places are taken, later releases wait until one of them returns. No lock is held while
// f runs, and the caller must not hold one that another release may need. A nil f does nothing.
func Release(f func()) {
	if f == nil {
		return
	}
	releases.mu.Lock()
	releases.waiting = append(releases.waiting, f)
	one := releases.running < maxRunning
	if one {
		if releases.running == 0 {
			releases.busy.Lock() // which those who wait hold for a moment only
		}
		releases.running++
	}
	releases.mu.Unlock()
	if one {
		Go(work)
	}
}

// work runs releases until none is waiting.
func work() {
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
}

// Wait waits until no release is running or waiting. Tests use it before they count what is alive.
func Wait() {
	releases.busy.Lock()
	defer releases.busy.Unlock()
}
