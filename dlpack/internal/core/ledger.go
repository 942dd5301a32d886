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

// RecordKind is what a [Record] is of.
type RecordKind uint8

const (
	KindExport RecordKind = iota
	KindImport
	KindAllocation
)

// A Record is one entry of the ledger.
type Record struct {
	Kind  RecordKind
	About any // what the tensor was
	Since time.Time
	Count int
	Stack []uintptr
}

// A key says what is recorded: the address of its block or managed tensor, or its handle, is nobody else's of that kind as
// long as it lives, and keeps nothing alive.
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
	forgotten map[line]*Record // by the caller
	profile   *pprof.Profile
}

// packages is what the functions of package dlpack and of those below it begin with.
var packages = strings.TrimSuffix(reflect.TypeFor[Record]().PkgPath(), "/internal/core")

// StartLedger makes the profile. Another copy of the module in the program may have the name already: then that of the
// package's own path is taken.
func StartLedger(profile string) {
	for pprof.Lookup(profile) != nil {
		profile += "+" + packages
	}
	ledger.profile = pprof.NewProfile(profile)
}

// SetLedger switches the ledger on or off, and returns what it was.
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

// Live returns what the ledger knows to be alive, the oldest first.
func Live() []Record {
	Reap()
	lookAtAll()
	ledger.mu.Lock()
	defer ledger.mu.Unlock()
	return sorted(ledger.live)
}

// Forgotten returns what the safety net has caught since the ledger was switched on.
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

// Enter records a block, a managed tensor or, by [Memory.ID], an allocation.
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

// Caller is the innermost call of a stack outside of package dlpack and those below it.
func Caller(stack []uintptr) runtime.Frame {
	frames := runtime.CallersFrames(stack)
	for {
		frame, more := frames.Next()
		if !more || !strings.HasPrefix(frame.Function, packages+".") && !strings.HasPrefix(frame.Function, packages+"/internal/") {
			return frame
		}
	}
}

// strike takes a record out, if there is one.
func strike(kind RecordKind, at uintptr) {
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

// lose notes that what is recorded was dropped without Close.
func lose(kind RecordKind, id uintptr) {
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
