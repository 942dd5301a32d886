//go:build cgo

package core

import (
	"runtime"
	"sync"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack/background"
)

// A guard is the safety net of one memory after another: when it is unreachable, so is the memory, and nobody has closed
// it. To hang up a net for each memory anew would cost more than the rest of an import.
type guard struct {
	state *cleanupState
}

// A fate is what the cleanup of a guard holds, while the guard is unreachable.
type cleanupState struct {
	kind    Kind
	escaped bool // a bare slice over the memory is out
	managed uintptr
	handle  handle // noHandle for an import that was not exported yet
	bytes   int64  // what the safety net is accountable for, up to foreignMost
}

var guards = sync.Pool{New: func() any {
	g := &guard{state: new(cleanupState)}
	runtime.AddCleanup(g, cleanUp, g.state)
	return g
}}

// catch hangs the safety net on a memory that is being made.
func (m *Memory) setGuard(kind Kind, managed uintptr, h handle, bytes int64) {
	g := guards.Get().(*guard)
	m.kind, m.guarded, m.keep = kind, true, unsafe.Pointer(g)
	f := g.state
	f.kind, f.managed, f.bytes = kind, managed, min(bytes, foreignMost)
	f.handle = h
	foreign.add(f.bytes)
}

// uncatch takes the safety net away from a memory that is closed, for another one.
func (m *Memory) dropGuard() {
	g := (*guard)(m.keep) // reachable until here, so that cleanUp has not run
	f := g.state
	foreign.add(-f.bytes)
	f.kind = nothing
	f.escaped = false
	guards.Put(g)
}

// HasEscaped reports whether it is noted that a bare slice over the memory is out, or need not be.
func (m *Memory) HasEscaped() bool { return !m.guarded || m.escaped.Load() }

// Escape notes that a bare slice over the memory is out, which may be used after all tensors were forgotten. The caller
// holds a reference for an open tensor.
func (m *Memory) Escape() {
	if !m.HasEscaped() && m.escaped.CompareAndSwap(false, true) { // and nobody else writes to the fate
		(*guard)(m.keep).state.escaped = true
	}
}

// cleanUp is the safety net: all tensors of a memory are unreachable and none was closed. Where a bare slice was handed
// out it may be in use still, so that nothing is freed. It is counted once all is done.
//
// It runs on a goroutine of the runtime, which all cleanups of the process share, and must therefore not call the
// memory's deleter, which may block.
func cleanUp(f *cleanupState) {
	if f.kind == nothing {
		return
	}
	kind, managed, h, bytes := f.kind, f.managed, f.handle, f.bytes
	if kind == Allocated || kind == Lent {
		lose(KindAllocation, uintptr(h))
	} else {
		lose(KindImport, managed)
	}
	if f.escaped {
		forgotten.Add(1)
		return
	}
	f.kind = nothing
	background.Release(func() {
		foreign.add(-bytes)
		giveUp(kind, managed, h)
		foreign.settle()
		forgotten.Add(1)
	})
}
