//go:build cgo

package core

import (
	"cmp"
	"reflect"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dlbridge/dlbridge/dlpack/frames"
)

// RecordKind is the kind of object that a [Record] describes.
type RecordKind uint8

const (
	KindExport RecordKind = iota
	KindImport
	KindAllocation
)

// A Record is one entry of the ledger. The type of the same name in package dlpack explains the fields.
type Record struct {
	Kind  RecordKind
	About any // the description of the tensor
	Since time.Time
	Count int
	View  bool
	Stack []uintptr

	generation int
	closed     bool            // the tensor with which the memory was made is closed
	views      map[any]*Record // of other tensors of the memory that are not closed
}

// A key identifies a recorded object by the address of its block or managed tensor, or by its handle. No other live
// object of the kind has the same key. A key keeps nothing alive.
type key struct {
	kind RecordKind
	at   uintptr
}

// An origin is a source line that makes objects, in one generation.
type origin struct {
	file             string
	line, generation int
}

var ledger struct {
	on         atomic.Bool
	mu         sync.Mutex
	generation int // how often the ledger was switched
	live       map[key]*Record
	forgotten  map[origin]*Record
	profile    *pprof.Profile
}

// StartLedger makes the profile. If another copy of the module in the program already has a profile of this name, the
// package's path is appended.
func StartLedger(profile string) {
	for pprof.Lookup(profile) != nil {
		profile += "+" + strings.TrimSuffix(reflect.TypeFor[Record]().PkgPath(), "/internal/core")
	}
	ledger.profile = pprof.NewProfile(profile)
}

// SetLedger switches the ledger on or off, and reports whether it was on. A change drops all records. Each call begins
// a generation: no record of [Forgotten] has objects made both before and after the call.
func SetLedger(on bool) (was bool) {
	ledger.mu.Lock()
	defer ledger.mu.Unlock()
	ledger.generation++
	if was = ledger.on.Swap(on); was == on {
		return was
	}
	for _, r := range ledger.live {
		ledger.profile.Remove(r)
	}
	ledger.live = map[key]*Record{}
	ledger.forgotten = map[origin]*Record{}
	return was
}

// Live returns the records of live objects, oldest first.
func Live() []Record {
	Reap()
	lookAtAll()
	ledger.mu.Lock()
	defer ledger.mu.Unlock()
	return sorted(ledger.live)
}

// Forgotten returns records of the objects that cleanup guards have caught since the ledger was switched on, oldest
// first. There is one record for each source line that made such objects, in each generation.
func Forgotten() []Record {
	ledger.mu.Lock()
	defer ledger.mu.Unlock()
	return sorted(ledger.forgotten)
}

func sorted[K comparable](records map[K]*Record) []Record {
	list := make([]Record, 0, len(records))
	for _, r := range records {
		list = append(list, r.ofOldest())
	}
	slices.SortFunc(list, func(a, b Record) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Kind, b.Kind)) })
	return list
}

// Recording reports whether the ledger is on.
func Recording() bool { return ledger.on.Load() }

// Enter records an object, if the ledger is on. at is the address of an export's block or of an import's managed
// tensor, or the [Memory.ID] of an allocation; about is the description of the tensor. The recorded stack begins with
// the caller's caller.
func Enter(kind RecordKind, at uintptr, about any) {
	stack := make([]uintptr, 32)
	r := &Record{Kind: kind, About: about, Count: 1, Stack: stack[:runtime.Callers(3, stack)]}
	ledger.mu.Lock()
	defer ledger.mu.Unlock()
	if !ledger.on.Load() {
		return
	}
	r.Since, r.generation = time.Now(), ledger.generation // under the lock, so that a later generation has later times
	k := key{kind, at}
	if old := ledger.live[k]; old != nil {
		ledger.profile.Remove(old)
	}
	ledger.live[k] = r
	_, depth := caller(r.Stack)
	ledger.profile.Add(r, 3+depth) // 3 is for Add, Enter and its caller, which r.Stack does not have
}

// EnterView records another tensor of the memory, if the memory has a record. [Memory.LeaveTensor] gets the same tensor
// value, which keeps nothing alive. about and the stack are as for [Enter].
func (m *Memory) EnterView(tensor, about any) {
	if _, ok := m.key(); !ok {
		return
	}
	stack := make([]uintptr, 32)
	v := &Record{About: about, Count: 1, View: true, Stack: stack[:runtime.Callers(3, stack)]}
	ledger.mu.Lock()
	defer ledger.mu.Unlock()
	r := m.record()
	if r == nil { // the ledger was off when the memory was made
		return
	}
	v.Kind, v.Since, v.generation = r.Kind, time.Now(), ledger.generation
	if r.views == nil {
		r.views = map[any]*Record{}
	}
	r.views[tensor] = v
}

// LeaveTensor records that a tensor of the memory is closed. The tensor still has its reference.
func (m *Memory) LeaveTensor(tensor any) {
	ledger.mu.Lock()
	defer ledger.mu.Unlock()
	r := m.record()
	if r == nil {
		return
	}
	if r.views[tensor] == nil {
		r.closed = true
	}
	delete(r.views, tensor)
}

// record returns the record of the memory, or nil if it has none.
func (m *Memory) record() *Record {
	if k, ok := m.key(); ok {
		return ledger.live[k]
	}
	return nil
}

// key returns the key of memory that the ledger records.
func (m *Memory) key() (k key, ok bool) {
	switch m.kind {
	case Allocated, Lent:
		return key{KindAllocation, m.ID()}, true
	case ImportedVersioned, ImportedLegacy:
		return key{KindImport, m.managed}, true
	}
	return key{}, false
}

// ofOldest returns the record of the memory's oldest tensor that is not closed. It is r itself unless the first tensor
// is closed and another is open.
func (r *Record) ofOldest() Record {
	oldest := r
	if r.closed {
		for _, v := range r.views {
			if oldest == r || v.Since.Before(oldest.Since) {
				oldest = v
			}
		}
	}
	return Record{Kind: oldest.Kind, About: oldest.About, Since: oldest.Since, Count: oldest.Count, View: oldest.View, Stack: oldest.Stack,
		generation: oldest.generation}
}

// Caller returns the innermost call of a stack that the program has made: a call outside this module, or in its tests,
// examples and commands. If there is no such call, because C has called or the goroutine belongs to this module, it
// returns the outermost call of this module.
func Caller(stack []uintptr) runtime.Frame {
	frame, _ := caller(stack)
	return frame
}

// caller is [Caller]. depth is the number of calls of the stack within this call.
func caller(stack []uintptr) (found runtime.Frame, depth int) {
	calls := runtime.CallersFrames(stack)
	for i := 0; ; i++ {
		frame, more := calls.Next()
		switch f := frame.Function; {
		case frames.OfLibrary(frame):
			found, depth = frame, i
		case !strings.HasPrefix(f, "runtime.") && !strings.HasPrefix(f, "_cgoexp_"): // which cgo makes of an exported function
			return frame, i
		}
		if !more {
			return found, depth
		}
	}
}

// removeRecord removes a record, if it exists.
func removeRecord(kind RecordKind, at uintptr) {
	if ledger.on.Load() {
		key{kind, at}.leave()
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

// recordLost records that an object was dropped without Close.
func recordLost(kind RecordKind, id uintptr) {
	if !ledger.on.Load() {
		return
	}
	ledger.mu.Lock()
	defer ledger.mu.Unlock()
	live := ledger.live[key{kind, id}]
	if live == nil {
		return
	}
	r := live.ofOldest()
	caller := Caller(r.Stack)
	at := origin{caller.File, caller.Line, r.generation}
	if known := ledger.forgotten[at]; known != nil {
		known.Count++
		return
	}
	ledger.forgotten[at] = &r
}
