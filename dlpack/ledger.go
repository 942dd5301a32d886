//go:build cgo

package dlpack

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"time"
	"weak"

	"github.com/dlbridge/dlbridge/dlpack/internal/core"
)

// ProfileName is the name of the pprof profile of the ledger, for pprof.Lookup.
const ProfileName = "github.com/dlbridge/dlbridge/dlpack"

// ledgerVariable is the environment variable that switches the ledger on from the start, if it is neither empty nor 0.
const ledgerVariable = "DLBRIDGE_LEDGER"

// Kind is the kind of object that a [Record] describes.
type Kind uint8

const (
	KindExport     Kind = iota // an exported managed tensor whose deleter has not run
	KindImport                 // an imported managed tensor that Go still holds
	KindAllocation             // memory of New, Copy, Convert or Lend that Go still holds
)

func (k Kind) String() string {
	if k > KindAllocation {
		return fmt.Sprintf("kind %d", uint8(k))
	}
	return [...]string{"export", "import", "allocation"}[k]
}

// MarshalText implements [encoding.TextMarshaler], so that a kind is "import" in JSON. It never fails.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// A Record is one entry of the ledger.
type Record struct {
	Kind  Kind
	DType DataType
	Shape []int64
	Bytes int64     // of the elements without gaps
	Since time.Time // when it was made
	Count int       // the number of objects: 1 for a live one
	View  bool      // the record shows a view or share of the import or allocation: see [Live]
	Stack []uintptr // the calls that made it, the innermost first, for [runtime.CallersFrames]
}

// Caller returns the innermost call outside this module: the place where the program made the object. The module's own tests, examples
// and commands count as the program. If C called the module, the stack may have no call outside it. Caller then returns the function
// of the module that C called.
func (r Record) Caller() runtime.Frame { return core.Caller(r.Stack) }

// String describes the record in one line: `import of float32[1024], 4096 bytes, 3s old, main.load (load.go:12)`.
func (r Record) String() string {
	c := r.Caller()
	what := r.Kind.String() + " of"
	if r.View {
		what = "view or share of an " + r.Kind.String() + ":"
	}
	if r.Count != 1 {
		what = fmt.Sprintf("%d times %s", r.Count, what)
	}
	return fmt.Sprintf("%s %v%v, %d bytes, %v old, %s (%s:%d)", what, r.DType, r.Shape, r.Bytes,
		time.Since(r.Since).Round(time.Millisecond), c.Function, c.File, c.Line)
}

// MarshalJSON implements [json.Marshaler]. It writes the fields, with the calls of the stack as functions, files and lines. The
// result is for logs: no function decodes it.
func (r Record) MarshalJSON() ([]byte, error) {
	type call struct {
		Function, File string
		Line           int
	}
	stack := []call{}
	for frames, more := runtime.CallersFrames(r.Stack), len(r.Stack) > 0; more; {
		var f runtime.Frame
		f, more = frames.Next()
		stack = append(stack, call{f.Function, f.File, f.Line})
	}
	type record Record // without this method
	return json.Marshal(struct {
		record
		Stack []call
	}{record(r), stack})
}

// LogValue implements [slog.LogValuer]: in a log line a record is a group, with the function, file and line of [Record.Caller].
func (r Record) LogValue() slog.Value {
	c := r.Caller()
	return slog.GroupValue(
		slog.String("kind", r.Kind.String()),
		slog.String("dtype", r.DType.String()),
		slog.Any("shape", r.Shape),
		slog.Int64("bytes", r.Bytes),
		slog.Time("since", r.Since),
		slog.Int("count", r.Count),
		slog.Bool("view", r.View),
		slog.String("function", c.Function),
		slog.String("file", c.File),
		slog.Int("line", c.Line),
	)
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

// SetLedger switches the ledger on or off, and reports whether it was on. While the ledger is on, it records each export,
// import and allocation with its stack, for [Live], [Forgotten] and the pprof profile [ProfileName]. Each record costs
// microseconds, and so does each view or share of an import or allocation. A ledger that is off costs nothing.
//
// If the ledger is already on, SetLedger(true) keeps its records; [Forgotten] then has separate records for objects made before and
// after the call. Switching the ledger off drops its records. Objects that were made while it was off, and exports by C code, have
// no records. The profile may still show exports that were released a moment ago; Live does not.
func SetLedger(on bool) (was bool) { return core.SetLedger(on) }

// Live calls [Reap] and returns the records of live objects, the oldest first. Each import or allocation has one record. It shows the
// tensor that the import or allocation returned or, if that is closed, the oldest view or share that is still open. The line of the
// record therefore lacks a Close.
func Live() []Record { return records(core.Live()) }

// Forgotten returns the imports and allocations that were dropped without Close and that cleanup guards have caught since the ledger was
// switched on. There is one record for each line of source, the oldest first. The line is as for [Live]. If a line made objects before
// and after a call of [SetLedger], it has two records, one for each period.
func Forgotten() []Record { return records(core.Forgotten()) }

func records(list []core.Record) []Record {
	made := make([]Record, len(list))
	for i, r := range list {
		about := r.About.(described)
		made[i] = Record{Kind: Kind(r.Kind), DType: about.dtype, Shape: slices.Clone(about.shape), Bytes: about.bytes,
			Since: r.Since, Count: r.Count, View: r.View, Stack: slices.Clone(r.Stack)}
	}
	return made
}

// record enters a tensor in the ledger. at is the address of the block or managed tensor, or the ID of the allocation.
func (t *Tensor) record(kind core.RecordKind, at uintptr) {
	core.Enter(kind, at, described{t.dtype, t.Shape(), t.NumBytes()})
}

// recordView enters a tensor of existing memory in the ledger, if it is on.
func (t *Tensor) recordView() {
	if core.Recording() {
		t.mem.EnterView(weak.Make(t), described{t.dtype, t.Shape(), t.NumBytes()})
	}
}
