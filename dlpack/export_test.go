//go:build cgo

package dlpack

import (
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack/internal/core"
)

// A Verdict is the result of checking a description.
type Verdict struct {
	Status  error
	Message string
	Extent  [5]int64
}

// CheckTensorInC returns the verdict of the C core.
func CheckTensorInC(tensor unsafe.Pointer, flags Flags) Verdict {
	status, message, e := core.CheckTensorInC(tensor, uint64(flags))
	return verdict(causes[status], message, e)
}

// CheckTensorInGo returns the verdict of the functions that Import calls.
func CheckTensorInGo(tensor unsafe.Pointer, flags Flags) Verdict {
	var e core.Extent
	if f := core.CheckAddress(uintptr(tensor)); f != nil {
		return verdict(causes[f.Status], f.Text, e)
	}
	if _, _, err := checkTensor("x", (*core.DLTensor)(tensor), flags, &e); err != nil {
		return verdict(err.(*Error).Err, err.(*Error).Where, core.Extent{})
	}
	return verdict(nil, "", e)
}

func verdict(status error, message string, e core.Extent) Verdict {
	v := Verdict{Status: status, Message: message, Extent: [5]int64{e.Count, e.NumBytes, e.Low, e.High, 0}}
	if e.RowMajor {
		v.Extent[4] = 1
	}
	if status != nil {
		v.Extent = [5]int64{}
	}
	return v
}

// LockEverything takes every lock of the library, and returns what gives them back.
func LockEverything() (unlock func()) { return core.LockEverything() }

// Trim gives the pages of free blocks back. A test that calls a deleter a second time, which is safe until then, calls Trim first:
// what other tests have left could otherwise be given back in the middle of it.
func Trim() { core.Trim() }

// SettleForeignBytes does what collections do by and by.
func SettleForeignBytes() { core.SettleForeignBytes() }

// Quarantine is the number of further exports of its cache before a dead block is used again.
const Quarantine = core.Quarantine

// Debugging is whether the build tag debug is set.
const Debugging = core.Quarantine > 64

// Settle takes n imports off the counters that a test left behind on purpose.
func Settle(n int64) { core.SettleImports(n) }

// Pinned counts the pins that are in use, without reaping any.
func Pinned() int { return core.Pinned() }

// Blocks counts the blocks that have memory.
func Blocks() int { return core.Blocks() }
