//go:build cgo

package core

import (
	"runtime"
	"sync"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack/background"
)

// A guard is the cleanup guard of a memory. Only the memory refers to it. So when the guard becomes unreachable, all
// tensors of the memory were dropped without Close. (The pool may also drop a guard without a memory; its kind is
// nothing.) Guards are reused for other memories, because adding a cleanup for each memory would cost more than the
// rest of an import.
type guard struct {
	state *cleanupState
}

// cleanupState is the argument of the guard's cleanup. It must not point to the guard, or the guard would never become
// unreachable.
type cleanupState struct {
	kind    Kind
	escaped bool    // a Go slice of the memory was handed out
	managed uintptr // of an import
	handle  handle  // noHandle for an import that was not exported yet
	bytes   int64   // counted as foreign, at most foreignMost
}

var guards = sync.Pool{New: func() any {
	g := &guard{state: new(cleanupState)}
	runtime.AddCleanup(g, cleanUp, g.state)
	return g
}}

// setGuard gives a guard to a memory that is being initialized, and counts the memory's bytes as foreign.
func (m *Memory) setGuard(kind Kind, managed uintptr, h handle, bytes int64) {
	g := guards.Get().(*guard)
	m.kind, m.guarded, m.keep = kind, true, unsafe.Pointer(g)
	f := g.state
	f.kind, f.managed, f.bytes = kind, managed, min(bytes, foreignMost)
	f.handle = h
	foreign.add(f.bytes)
}

// dropGuard takes the guard from a memory that is closed, and no longer counts the bytes as foreign. Another memory can
// then use the guard.
func (m *Memory) dropGuard() {
	g := (*guard)(m.keep) // reachable until here, so that cleanUp has not run
	f := g.state
	foreign.add(-f.bytes)
	f.kind = nothing
	f.escaped = false
	guards.Put(g)
}

// HasEscaped reports whether Escape has been called, or is not needed because there is neither a guard nor a notice.
func (m *Memory) HasEscaped() bool {
	marks := m.marks.Load()
	return !m.guarded && marks&watched == 0 || marks&escaped != 0
}

// Escape records in the guard or the notice that a Go slice of the memory was handed out, which may be used after all
// tensors are dropped. The caller holds a reference to an open tensor.
func (m *Memory) Escape() {
	if m.HasEscaped() || m.marks.Or(escaped)&escaped != 0 {
		return
	}
	if m.guarded {
		(*guard)(m.keep).state.escaped = true // only this call writes the field: it has set the mark
	} else {
		m.loadHandle().slot().notice().escaped.Store(true)
	}
}

// cleanUp gives up Go's share of a memory whose tensors are all unreachable and were not closed. If a Go slice of the
// memory was handed out, the slice may still be in use, so nothing is freed. The ledger records the loss immediately;
// forgotten counts it after the deleter has returned, or immediately if nothing is freed.
//
// The runtime runs cleanUp on one of the few goroutines for all cleanups of the process. The memory's deleter may
// block, which would stop other cleanups, so it runs on a goroutine of package background.
func cleanUp(f *cleanupState) {
	if f.kind == nothing {
		return
	}
	kind, managed, h, bytes := f.kind, f.managed, f.handle, f.bytes
	if kind == Allocated || kind == Lent {
		recordLost(KindAllocation, uintptr(h))
	} else {
		recordLost(KindImport, managed)
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
