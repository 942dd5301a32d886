//go:build cgo

package dlpacktest

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/repotest"
	"github.com/dlbridge/dlbridge/dlpack/frames"
	"github.com/dlbridge/dlbridge/dlpack/internal/extent"
)

// Main runs the tests of a package and ends the process. The exit status is 1 if the tests leave tensors behind. This is a
// complete TestMain:
//
//	func TestMain(m *testing.M) { dlpacktest.Main(m) }
//
// Tensors left behind are exports whose deleter was not called, imports and allocations that were not closed, and pinned memory of Go
// ([dlpack.Stats]). If a cleanup guard has released a tensor that was dropped without Close, it counts as forgotten. Main prints the number
// of each kind. If the ledger is on, for example with DLBRIDGE_LEDGER=1, Main also prints a line for each stack, with the type, shape and
// age of its first tensor, and the line of code that made it. Main checks nothing if a test fails, because a failing test may leave tensors
// behind.
func Main(m *testing.M) { os.Exit(Run(m)) }

// Run is [Main] without the end of the process: it returns the exit status. It is for a TestMain that must clean up
// after the tests.
func Run(m interface{ Run() int }) int { return run(m, os.Stderr) }

func run(m interface{ Run() int }, out io.Writer) int {
	if code := m.Run(); code != 0 {
		return code
	}
	s := dlpack.ReadStats()
	imports, pinned := repotest.Forgiven()
	left := tally{s.Exports, s.Imports - imports, s.Allocations, s.PinnedBytes - pinned, max(s.Forgotten-repotest.Forgotten(), 0)}
	if left == (tally{}) {
		return 0
	}
	fmt.Fprintf(out, "dlpacktest: the tests left tensors behind: %v\n", left)
	live, forgotten := grouped(dlpack.Live()), grouped(dlpack.Forgotten())
	for _, record := range live {
		fmt.Fprintf(out, "dlpacktest: %v\n", record)
	}
	for _, record := range forgotten {
		fmt.Fprintf(out, "dlpacktest: forgotten: %v\n", record)
	}
	if left.exports == 0 && left.pinned > 0 {
		fmt.Fprintln(out, "dlpacktest: "+pinnedWithoutExports)
	}
	if len(live)+len(forgotten) == 0 && left.exports+left.imports+left.allocations+left.forgotten > 0 {
		fmt.Fprintln(out, "dlpacktest: run the tests with DLBRIDGE_LEDGER=1 to see which lines made them")
	}
	return 1
}

// CheckLeaks fails the test if exports, imports, allocations or pinned bytes that were made after this call are alive when the test ends.
// It prints the records of the ledger: the lines that made these objects, their stacks and their numbers. Objects made before this call do
// not count, but tensors of tests that run at the same time do. Pinned bytes, and objects made by C, have no records. At the end of the
// test there must not be more pinned bytes and objects made by C than at this call.
//
// A garbage collection does not hide an import or allocation that the test dropped without Close: it counts as forgotten ([dlpack.Stats]),
// and is printed as forgotten. If it is not released, because [dlpack.Values] has returned a slice of it, it is printed as alive, too.
//
// The ledger records exports, imports and allocations. The line of an import or allocation is the line that made it. If the tensor made at
// this line is closed, the record shows the line that made the oldest view or share that is still open ([dlpack.Live]). Pinned bytes are
// counted as in [dlpack.Stats]. Bytes that are pinned without an export belong to [dlpack.NewFrom] or to memory with [dlpack.Tensor.OnRelease]:
// a tensor of this memory was not closed. The ledger has no record of this tensor. If this tensor is dropped without Close, and the
// garbage collector finds it before the test ends, only [Main] reports it. A dropped tensor of other memory of Go leaves nothing behind.
//
// The ledger is on until the test ends ([dlpack.SetLedger]), so each recorded operation takes some microseconds and allocations more.
// With DLBRIDGE_LEDGER=0 in the environment it stays off. CheckLeaks then only compares all numbers with those at this call, and does not
// find objects that were forgotten and released.
func CheckLeaks(t testing.TB) {
	before, start, expected := dlpack.ReadStats(), time.Now(), repotest.Forgotten()
	if os.Getenv("DLBRIDGE_LEDGER") != "0" {
		beginRecording()
		t.Cleanup(endRecording)
	}
	t.Cleanup(func() {
		after := dlpack.ReadStats()
		live, made := since(start, dlpack.Live())
		forgotten, lost := since(start, dlpack.Forgotten())
		left := tally{
			// Objects made by C have no records, and earlier objects may be released meanwhile, so neither number is
			// complete.
			exports:     max(after.Exports-before.Exports, made[dlpack.KindExport]),
			imports:     max(after.Imports-before.Imports, made[dlpack.KindImport]),
			allocations: max(after.Allocations-before.Allocations, made[dlpack.KindAllocation]),
			pinned:      max(after.PinnedBytes-before.PinnedBytes, 0),
			forgotten:   max(lost[dlpack.KindImport]+lost[dlpack.KindAllocation]-(repotest.Forgotten()-expected), 0),
		}
		if left == (tally{}) {
			return
		}
		about := stacks("", live)
		if left.forgotten > 0 {
			about += stacks("forgotten: ", forgotten)
		}
		if about == "" && left.exports+left.imports+left.allocations > 0 {
			about = "the ledger has no record of these tensors: C code made them, or the ledger was off\n"
		}
		if left.exports == 0 && left.pinned > 0 {
			about += pinnedWithoutExports
		}
		t.Errorf("tensors leaked since the test began: %v\n%s", left, about)
	})
}

// A tally has the numbers of objects left behind.
type tally struct{ exports, imports, allocations, pinned, forgotten int64 }

// String lists the numbers above 0, as in "2 exports, 1 forgotten".
func (l tally) String() string {
	var parts []string
	for _, p := range []struct {
		n             int64
		thing, things string
	}{
		{l.exports, "export", "exports"},
		{l.imports, "import", "imports"},
		{l.allocations, "allocation", "allocations"},
		{l.pinned, "byte pinned", "bytes pinned"},
		{l.forgotten, "forgotten", "forgotten"},
	} {
		if p.n != 0 {
			parts = append(parts, extent.Number(p.n, p.thing, p.things))
		}
	}
	return strings.Join(parts, ", ")
}

// since returns the records of the objects that were made since start, grouped, and the number of objects of each kind. This also
// works for a record of several forgotten objects: all of them were made before beginRecording, or all after it.
func since(start time.Time, records []dlpack.Record) (groups []dlpack.Record, made map[dlpack.Kind]int64) {
	made = map[dlpack.Kind]int64{}
	groups = grouped(slices.DeleteFunc(records, func(r dlpack.Record) bool { return r.Since.Before(start) }))
	for _, r := range groups {
		made[r.Kind] += int64(r.Count)
	}
	return groups, made
}

// grouped joins records of the same kind and stack. The joined record is the first of these, with the total number of
// objects.
func grouped(records []dlpack.Record) (groups []dlpack.Record) {
	for _, r := range records {
		same := func(g dlpack.Record) bool { return g.Kind == r.Kind && slices.Equal(g.Stack, r.Stack) }
		if i := slices.IndexFunc(groups, same); i >= 0 {
			groups[i].Count += r.Count
		} else {
			groups = append(groups, r)
		}
	}
	return groups
}

// pinnedWithoutExports is the explanation for memory that is pinned without an export.
const pinnedWithoutExports = "bytes stay pinned without an export: a tensor of NewFrom, or of memory with OnRelease, was not closed"

// recording has the number of tests for which the ledger is on, and whether it was on before these tests.
var recording struct {
	sync.Mutex
	tests int
	was   bool
}

// beginRecording switches the ledger on. Each test gets separate records of forgotten objects.
func beginRecording() {
	recording.Lock()
	defer recording.Unlock()
	was := dlpack.SetLedger(true)
	if recording.tests++; recording.tests == 1 {
		recording.was = was
	}
}

func endRecording() {
	recording.Lock()
	defer recording.Unlock()
	if recording.tests--; recording.tests == 0 {
		dlpack.SetLedger(recording.was)
	}
}

// stacks describes objects, each after the text before, with the calls of the program in their stacks.
func stacks(before string, records []dlpack.Record) string {
	var b strings.Builder
	for _, r := range records {
		fmt.Fprintf(&b, "%s%v\n", before, r)
		calls, caller, begun := runtime.CallersFrames(r.Stack), r.Caller(), false
		for more := true; more; {
			var f runtime.Frame
			if f, more = calls.Next(); f.Function == "testing.tRunner" {
				break
			}
			first := caller.PC == f.PC && caller.Function == f.Function
			if begun = begun || first; first || begun && !frames.OfLibrary(f) {
				fmt.Fprintf(&b, "\t%s\n\t\t%s:%d\n", f.Function, f.File, f.Line)
			}
		}
	}
	return b.String()
}
