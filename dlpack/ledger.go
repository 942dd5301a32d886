//go:build cgo

package dlpack

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/dlbridge/dlbridge/dlpack/internal/core"
)

// ProfileName is the name of the pprof profile of the ledger, for pprof.Lookup.
const ProfileName = "github.com/dlbridge/dlbridge/dlpack"

// ledgerVariable is the environment variable that switches the ledger on from the start, if it is neither empty nor 0.
const ledgerVariable = "DLBRIDGE_LEDGER"

// Kind is the kind of object that a [Record] describes.
type Kind uint8

const (
	KindExport     Kind = iota // a managed tensor handed out whose deleter has not run
	KindImport                 // a managed tensor taken over that Go still holds
	KindAllocation             // memory of New, Copy, Convert or Lend that Go still holds
)

func (k Kind) String() string {
	if k > KindAllocation {
		return fmt.Sprintf("kind %d", uint8(k))
	}
	return [...]string{"export", "import", "allocation"}[k]
}

// A Record is one entry of the ledger.
type Record struct {
	Kind  Kind
	DType DataType
	Shape []int64
	Bytes int64     // of the elements without gaps
	Since time.Time // when it was made
	Count int       // the number of objects: 1 for a live one
	Stack []uintptr // where it was made, for [runtime.CallersFrames]; the innermost call first
}

// Caller returns the innermost call outside of this package, which is where the object was made.
func (r Record) Caller() runtime.Frame { return core.Caller(r.Stack) }

// String describes the record in one line: `import of float32[1024], 4096 bytes, 3s old, main.load (load.go:12)`.
func (r Record) String() string {
	c := r.Caller()
	var count string
	if r.Count != 1 {
		count = fmt.Sprintf("%d times ", r.Count)
	}
	return fmt.Sprintf("%s%v of %v%v, %d bytes, %v old, %s (%s:%d)", count, r.Kind, r.DType, r.Shape, r.Bytes,
		time.Since(r.Since).Round(time.Millisecond), c.Function, c.File, c.Line)
}

// described is the ledger's description of a tensor.
type described struct {
	dtype DataType
	shape []int64
	bytes int64
}

func init() {
	core.StartLedger(ProfileName)
	if v := os.Getenv(ledgerVariable); v != "" && v != "0" {
		SetLedger(true)
	}
}

// SetLedger switches the ledger on or off, and reports whether it was on. While it is on, each export, import and
// allocation is recorded with its stack, for [Live], [Forgotten] and the pprof profile [ProfileName], and takes microseconds
// more. While it is off, it costs nothing.
//
// Switching the ledger off drops its records. It has no records of objects that were made while it was off, nor of exports
// by C code. The profile may still show exports that were released a moment ago; Live does not.
func SetLedger(on bool) (was bool) { return core.SetLedger(on) }

// Live calls [Reap] and returns the records of live objects, the oldest first.
func Live() []Record { return records(core.Live()) }

// Forgotten returns the imports and allocations that were dropped without Close and that cleanup guards have caught since
// the ledger was switched on: one record for each line of source, the oldest first.
func Forgotten() []Record { return records(core.Forgotten()) }

func records(list []core.Record) []Record {
	made := make([]Record, len(list))
	for i, r := range list {
		about := r.About.(described)
		made[i] = Record{Kind: Kind(r.Kind), DType: about.dtype, Shape: slices.Clone(about.shape), Bytes: about.bytes,
			Since: r.Since, Count: r.Count, Stack: slices.Clone(r.Stack)}
	}
	return made
}

// record enters a tensor in the ledger. at is the address of the block or managed tensor, or the ID of the allocation.
func (t *Tensor) record(kind core.RecordKind, at uintptr) {
	core.Enter(kind, at, described{t.dtype, t.Shape(), t.NumBytes()})
}
