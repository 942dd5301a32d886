//go:build cgo

package dlpacktest

import (
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/repotest"
)

// Main runs the tests of a package and ends the process. The exit status is 1 if the tests leave tensors behind. A TestMain
// needs nothing else:
//
//	func TestMain(m *testing.M) { dlpacktest.Main(m) }
//
// Tensors left behind are exports whose deleter was not called, and imports and allocations that were neither closed nor
// released by their cleanup guard. Main prints the number of each kind. If the ledger is on, for example by DLBRIDGE_LEDGER=1, it
// also prints a line for each of them with its type, shape, age and the line of code that made it. Main checks nothing if a
// test fails, because a failing test may leave tensors behind.
func Main(m *testing.M) { os.Exit(Run(m)) }

// Run is [Main] for a TestMain that has to clean up afterwards. It does not end the process, and returns the exit status instead.
func Run(m interface{ Run() int }) int { return run(m, os.Stderr) }

func run(m interface{ Run() int }, out io.Writer) int {
	if code := m.Run(); code != 0 {
		return code
	}
	s := dlpack.ReadStats()
	s.Imports -= repotest.Forgiven()
	if s.Exports == 0 && s.Imports == 0 && s.Allocations == 0 {
		return 0
	}
	fmt.Fprintf(out, "dlpacktest: the tests left tensors behind: %d exports, %d imports, %d allocations\n", s.Exports, s.Imports, s.Allocations)
	live := dlpack.Live()
	for _, record := range live {
		fmt.Fprintf(out, "dlpacktest: %v\n", record)
	}
	if len(live) == 0 {
		fmt.Fprintln(out, "dlpacktest: run the tests with DLBRIDGE_LEDGER=1 to see which lines made them")
	}
	return 1
}

// CheckLeaks makes the test fail if more exports, imports or allocations are alive when it ends than at this call. Each kind
// is compared by itself. There may be fewer, because cleanup guards may release tensors that earlier tests have
// forgotten. Tensors of tests that run at the same time are counted too.
func CheckLeaks(t testing.TB) {
	before := dlpack.ReadStats()
	t.Cleanup(func() {
		after := dlpack.ReadStats()
		if after.Exports > before.Exports || after.Imports > before.Imports || after.Allocations > before.Allocations {
			t.Errorf("tensors leaked: %+v before the test, %+v after it", before, after)
		}
	})
}
