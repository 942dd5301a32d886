//go:build cgo

package dlpack

import (
	"sync"
	"unsafe"
)

// Verdict is what a validator says of a description.
type Verdict struct {
	Status  error
	Message string
	Extent  [5]int64
}

var statusErrors = []error{nil, ErrNull, ErrVersion, ErrDType, ErrDevice, ErrLayout, ErrOverflow, ErrReadOnly, ErrUnaligned, ErrMemory}

// ValidateInC is the verdict of the C core.
func ValidateInC(tensor unsafe.Pointer, flags Flags) Verdict {
	status, message, e := coreValidate(tensor, flags)
	return verdict(statusErrors[status], message, e)
}

// ValidateInGo is the verdict of the import path.
func ValidateInGo(tensor unsafe.Pointer, flags Flags) Verdict {
	if err := checkAddress("x", tensor); err != nil {
		return verdict(err.(*Error).Err, err.(*Error).Where, extent{})
	}
	var e extent
	if _, _, err := checkTensor("x", (*dlTensor)(tensor), flags, &e); err != nil {
		return verdict(err.(*Error).Err, err.(*Error).Where, extent{})
	}
	return verdict(nil, "", e)
}

func verdict(status error, message string, e extent) Verdict {
	v := Verdict{Status: status, Message: message, Extent: [5]int64{e.count, e.nbytes, e.low, e.high, 0}}
	if e.rowMajor {
		v.Extent[4] = 1
	}
	if status != nil {
		v.Extent = [5]int64{}
	}
	return v
}

// LockEverything takes every lock of the library, and returns what gives them back.
func LockEverything() (unlock func()) {
	locks := []*sync.Mutex{&pools.mu, &shares, &ledger.mu, &foreign.mu}
	all := allPools()
	for i := range all {
		locks = append(locks, &all[i].mu)
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

// Forget does to a tensor, which is the only one of its memory and must not be used again, what the safety net does.
func Forget(t *Tensor) { forget((*guard)(t.mem.keep).fate) }

// SettleForeignBytes does what collections do by and by: after many foreign bytes, the next collection that they bring
// about is far away.
func SettleForeignBytes() {
	for last := int64(-1); foreign.limit.Load() != last; {
		last = foreign.limit.Load()
		foreign.settle()
	}
}

// Debugging is whether the build tag debug is set.
const Debugging = debugging

// Settle takes n imports off the counters that a test left behind on purpose.
func Settle(n int64) { liveImports.Add(-n) }

// PinnedBlocks counts blocks that hold memory of Go's, without reaping any.
func PinnedBlocks() (n int) {
	for _, pinned := range PinnedBlocksOfPools() {
		n += pinned
	}
	return n
}

// PinnedBlocksOfPools is PinnedBlocks of each pool.
func PinnedBlocksOfPools() []int {
	all := allPools()
	pinned := make([]int, len(all))
	for i := range all {
		p := &all[i]
		p.mu.Lock()
		for _, slots := range p.slots {
			for j := range slots {
				if slots[j].keep != nil {
					pinned[i]++
				}
			}
		}
		p.mu.Unlock()
	}
	return pinned
}

// SetTurnsBack does to a tensor's rings what a goroutine does that stops in the midst of [ring.next].
func SetTurnsBack(t *Tensor, turns uint64) {
	if all := t.rings.Load(); all != nil {
		for i := range *all {
			if r := (*all)[i].Load(); r != nil {
				r.turn -= min(turns, r.turn)
			}
		}
	}
}
