//go:build cgo

package core

/*
#include "core.h"
*/
import "C"

import (
	"sync"
	"unsafe"
)

// This file is for the tests of this package and of package dlpack: test files cannot use cgo.

// Quarantine is the number of further exports of its cache before a dead block is used again.
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

// SettleForeignBytes lowers the limit of foreign bytes as far as many collections would. After many foreign bytes, the next
// collection that they cause is far away.
func SettleForeignBytes() {
	for last := int64(-1); foreign.limit.Load() != last; {
		last = foreign.limit.Load()
		foreign.settle()
	}
}

// SettleImports counts n imports as ended, which a test has left open on purpose.
func SettleImports(n int64) { liveImports.end(n) }

// SetReferences sets the number of references to a memory.
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

// Blocks counts the blocks that have memory, in all caches.
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

// CheckTensorInC returns the result of the C function core_check_tensor and its message.
func CheckTensorInC(tensor unsafe.Pointer, flags uint64) (status Status, message string, e Extent) {
	var c C.core_extent
	var text [256]C.char
	status = Status(C.core_check_tensor((*C.DLTensor)(tensor), C.uint64_t(flags), &c, &text[0], C.size_t(len(text))))
	e = Extent{Count: int64(c.count), NumBytes: int64(c.nbytes), Low: int64(c.low), High: int64(c.high), RowMajor: c.row_major != 0}
	return status, C.GoString(&text[0]), e
}

// SetRowMajorInC calls the C function core_set_row_major.
func SetRowMajorInC(strides, shape []int64) {
	if len(shape) > 0 {
		C.core_set_row_major((*C.int64_t)(&strides[0]), (*C.int64_t)(&shape[0]), C.int32_t(len(shape)))
	}
}

// HostReadableInC calls the C function core_host_readable.
func HostReadableInC(deviceType int32) bool { return C.core_host_readable(C.int32_t(deviceType)) != 0 }
