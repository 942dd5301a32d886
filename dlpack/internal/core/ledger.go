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
	Stack []uintptr
}

// A key names a recorded object by the address of its block or managed tensor, or by its handle. No other live object of the
// kind has the same key, and a key keeps nothing alive.
type key struct {
	kind RecordKind
	at   uintptr
}

// A line of source.
type line struct {
	file   string
	number int
}

var ledger struct {
	on        atomic.Bool
	mu        sync.Mutex
	live      map[key]*Record
	forgotten map[line]*Record // by the line that made the object
	profile   *pprof.Profile
}

// packages is the prefix of the names of functions in package dlpack and the packages below it.
var packages = strings.TrimSuffix(reflect.TypeFor[Record]().PkgPath(), "/internal/core")

// StartLedger makes the profile. If another copy of the module in the program has the name already, the package's own path
// is appended.
func StartLedger(profile string) {
	for pprof.Lookup(profile) != nil {
		profile += "+" + packages
	}
	ledger.profile = pprof.NewProfile(profile)
}

// SetLedger switches the ledger on or off, and reports whether it was on. A change drops all records.
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
	ledger.forgotten = map[line]*Record{}
	return was
}

// Live returns the records of live objects, the oldest first.
func Live() []Record {
	Reap()
	lookAtAll()
	ledger.mu.Lock()
	defer ledger.mu.Unlock()
	return sorted(ledger.live)
}

// Forgotten returns records of the objects that cleanup guards have caught since the ledger was switched on: one for
// each line of source that made such objects, the oldest first.
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

// Recording reports whether the ledger is on.
func Recording() bool { return ledger.on.Load() }

// Enter records an object, if the ledger is on. at is the address of an export's block or of an import's managed
// tensor, or the [Memory.ID] of an allocation; about is the description of the tensor. The recorded stack begins with
// the caller's caller.
func Enter(kind RecordKind, at uintptr, about any) {
	stack := make([]uintptr, 32)
	r := &Record{Kind: kind, About: about, Since: time.Now(), Count: 1, Stack: stack[:runtime.Callers(3, stack)]}
	ledger.mu.Lock()
	defer ledger.mu.Unlock()
	if !ledger.on.Load() {
		return
	}
	k := key{kind, at}
	if old := ledger.live[k]; old != nil {
		ledger.profile.Remove(old)
	}
	ledger.live[k] = r
	ledger.profile.Add(r, 2)
}

// Caller returns the innermost call of a stack outside of package dlpack and its internal packages, or the outermost
// call if there is none.
func Caller(stack []uintptr) runtime.Frame {
	frames := runtime.CallersFrames(stack)
	for {
		frame, more := frames.Next()
		if !more || !strings.HasPrefix(frame.Function, packages+".") && !strings.HasPrefix(frame.Function, packages+"/internal/") {
			return frame
		}
	}
}

// removeRecord removes a record, if there is one.
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

// recordLost notes that a recorded object was dropped without Close.
func recordLost(kind RecordKind, id uintptr) {
	if !ledger.on.Load() {
		return
	}
	ledger.mu.Lock()
	defer ledger.mu.Unlock()
	r := ledger.live[key{kind, id}]
	if r == nil {
		return
	}
	caller := Caller(r.Stack)
	at := line{caller.File, caller.Line}
	if known := ledger.forgotten[at]; known != nil {
		known.Count++
		return
	}
	known := *r
	ledger.forgotten[at] = &known
}
