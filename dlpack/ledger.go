//go:build cgo

package dlpack

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// ProfileName is the pprof profile of what the ledger holds: pprof.Lookup(ProfileName).
const ProfileName = "github.com/dlbridge/dlbridge/dlpack"

// LedgerVariable is the environment variable that switches the ledger on from the start, with any value but
// none and 0.
const LedgerVariable = "DLBRIDGE_LEDGER"

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
func (r Record) Caller() runtime.Frame {
	frames := runtime.CallersFrames(r.Stack)
	for {
		frame, more := frames.Next()
		if !more || !strings.HasPrefix(frame.Function, ProfileName+".") {
			return frame
		}
	}
}

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

// A key says what is recorded: the address of its block, managed tensor or share is nobody else's of that
// kind as long as it lives, and keeps nothing alive.
type key struct {
	kind Kind
	at   uintptr
}

var ledger struct {
	on        atomic.Bool
	mu        sync.Mutex
	live      map[key]*Record
	forgotten map[uintptr]*Record // by the caller
	profile   *pprof.Profile
}

func init() {
	ledger.profile = pprof.NewProfile(ProfileName)
	if v := os.Getenv(LedgerVariable); v != "" && v != "0" {
		SetLedger(true)
	}
}

// SetLedger switches the ledger on or off, and returns what it was. While it is on, each export, import
// and allocation is recorded with its stack, for [Live], [Forgotten] and the pprof profile [ProfileName];
// that takes microseconds, and exports use no block again at once. While it is off, it costs nothing.
// To switch it off drops its records. What was made while it was off is not in it, nor are the
// exports that C code makes.
func SetLedger(on bool) (was bool) {
	ledger.mu.Lock()
	defer ledger.mu.Unlock()
	if was = ledger.on.Swap(on); was == on {
		return was
	}
	for _, r := range ledger.live {
		ledger.profile.Remove(r)
	}
	ledger.live = map[key]*Record{}
	ledger.forgotten = map[uintptr]*Record{}
	return was
}

// Live returns what the ledger knows to be alive, the oldest first, after a [Reap].
func Live() []Record {
	Reap()
	ledger.mu.Lock()
	defer ledger.mu.Unlock()
	return sorted(ledger.live)
}

// Forgotten returns what the safety net has caught since the ledger was switched on: imports and allocations
// that were dropped without Close, one record for all from one line, the oldest first.
func Forgotten() []Record {
	ledger.mu.Lock()
	defer ledger.mu.Unlock()
	return sorted(ledger.forgotten)
}

func sorted[K comparable](records map[K]*Record) []Record {
	list := make([]Record, 0, len(records))
	for _, r := range records {
		list = append(list, *r)
	}
	slices.SortFunc(list, func(a, b Record) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Kind, b.Kind)) })
	return list
}

// record enters a tensor.
func (t *Tensor) record(k key) {
	if ledger.on.Load() {
		t.enter(k)
	}
}

func (t *Tensor) enter(k key) {
	stack := make([]uintptr, 32)
	r := &Record{Kind: k.kind, DType: t.dtype, Shape: t.Shape(), Bytes: t.NumBytes(), Since: time.Now(), Count: 1,
		Stack: stack[:runtime.Callers(3, stack)]}
	ledger.mu.Lock()
	defer ledger.mu.Unlock()
	if !ledger.on.Load() {
		return
	}
	if old := ledger.live[k]; old != nil {
		ledger.profile.Remove(old)
	}
	ledger.live[k] = r
	ledger.profile.Add(r, 2)
}

// strike takes a record out, if there is one.
func strike(k key) {
	if ledger.on.Load() {
		k.leave()
	}
}

func (k key) leave() {
	ledger.mu.Lock()
	defer ledger.mu.Unlock()
	if r := ledger.live[k]; r != nil {
		delete(ledger.live, k)
		ledger.profile.Remove(r)
	}
}

// lose notes that what is recorded was dropped without Close.
func lose(k key) {
	if !ledger.on.Load() {
		return
	}
	ledger.mu.Lock()
	defer ledger.mu.Unlock()
	r := ledger.live[k]
	if r == nil {
		return
	}
	line := r.Caller().PC
	if known := ledger.forgotten[line]; known != nil {
		known.Count++
		return
	}
	known := *r
	ledger.forgotten[line] = &known
}
