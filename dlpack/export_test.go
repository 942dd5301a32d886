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

// LockEverything takes every lock of the library, and returns the function that unlocks them.
func LockEverything() (unlock func()) { return core.LockEverything() }

// Trim gives the pages of free blocks back. A second call of a deleter is safe only until its page is given back. Tests that make
// such calls therefore call Trim first, so that no earlier pages are given back in the middle of the test.
func Trim() { core.Trim() }

// SettleForeignBytes lowers the limit of foreign bytes as far as many garbage collections would.
func SettleForeignBytes() { core.SettleForeignBytes() }

// Quarantine is the number of exports from a block cache before it reuses a dead block.
const Quarantine = core.Quarantine

// Debugging is true if the build tag debug is set.
const Debugging = core.Quarantine > 64

// Settle subtracts from the counters n imports that a test left behind on purpose.
func Settle(n int64) { core.SettleImports(n) }

// Pinned counts the pins that are in use, without reaping any.
func Pinned() int { return core.Pinned() }

// Blocks counts the blocks that have memory.
func Blocks() int { return core.Blocks() }
