//go:build cgo

package core

import "sync"

// This file is for the tests of package dlpack.

// Quarantine is how many further exports its pool makes before a dead block is used again.
const Quarantine = quarantine

// LockEverything takes every lock, and returns what gives them back.
func LockEverything() (unlock func()) {
	locks := []*sync.Mutex{&shards.mu, &table.mu, &ledger.mu, &foreign.mu}
	for i := range allShards() {
		locks = append(locks, &allShards()[i].mu)
	}
	for _, l := range locks {
		l.Lock()
	}
	return func() {
		for _, l := range locks {
			l.Unlock()
		}
	}
}

// SettleForeignBytes does what collections do by and by: after many foreign bytes, the next collection that they bring
// about is far away.
func SettleForeignBytes() {
	for last := int64(-1); foreign.limit.Load() != last; {
		last = foreign.limit.Load()
		foreign.settle()
	}
}

// SettleImports takes n imports off the counters that a test left behind on purpose.
func SettleImports(n int64) { liveImports.end(n) }

// SetReferences makes it look as if so many references were taken of a memory.
func SetReferences(m *Memory, n int32) { m.refs.Store(n) }

// Pinned counts the pins in use.
func Pinned() (n int) {
	all := allShards()
	for i := range all {
		sh := &all[i]
		sh.mu.Lock()
		for _, first := range sh.slots.runs {
			for at := range uint32(runSlots) {
				s := handle(first + at).slot()
				if Kind(s.kind) == Collected && s.bytes > 0 {
					n++
				}
			}
		}
		sh.mu.Unlock()
	}
	return n
}

// Blocks counts the blocks that have memory, in all pools.
func Blocks() (n int) {
	all := allShards()
	for i := range all {
		sh := &all[i]
		sh.mu.Lock()
		n += sh.blocks.exported.n + sh.blocks.free.n
		sh.mu.Unlock()
	}
	return n
}
