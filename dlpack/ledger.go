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

// ProfileName is the pprof profile of what the ledger holds: pprof.Lookup(ProfileName).
const ProfileName = "github.com/dlbridge/dlbridge/dlpack"

// ledgerVariable is the environment variable that switches the ledger on from the start, with any value but
// none and 0.
const ledgerVariable = "DLBRIDGE_LEDGER"

// Kind is what a [Record] is of.
type Kind uint8

const (
	KindExport     Kind = iota // a managed tensor handed out whose deleter has not run
	KindImport                 // a managed tensor taken over that Go still holds
	KindAllocation             // memory of New, Copy or Lend that Go still holds
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
	Count int       // how many there were: 1 of what is alive
	Stack []uintptr // where it was made, for [runtime.CallersFrames]; the innermost call first
}

// Caller is the innermost call outside of this package: the line that must see to the end of what it made.
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

// described is what the ledger keeps of a tensor.
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

// SetLedger switches the ledger on or off, and returns what it was. While it is on, each export, import
// and allocation is recorded with its stack, for [Live], [Forgotten] and the pprof profile [ProfileName];
// that takes microseconds. While it is off, it costs nothing.
// To switch it off drops its records. What was made while it was off is not in it, nor are the
// exports that C code makes. The profile may still show exports that were released a moment ago; Live does not.
func SetLedger(on bool) (was bool) { return core.SetLedger(on) }

// Live returns what the ledger knows to be alive, the oldest first, after a [Reap].
func Live() []Record { return records(core.Live()) }

// Forgotten returns what the safety net has caught since the ledger was switched on: imports and allocations
// that were dropped without Close, one record for all from one line, the oldest first.
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

// record enters a tensor, as what is at an address.
func (t *Tensor) record(kind core.RecordKind, at uintptr) {
	core.Enter(kind, at, described{t.dtype, t.Shape(), t.NumBytes()})
}
