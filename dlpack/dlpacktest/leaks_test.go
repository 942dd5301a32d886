//go:build cgo

package dlpacktest

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/repotest"
)

func TestMain(m *testing.M) { Main(m) }

// tests is a set of tests that ends with a status.
type tests func() (status int)

func (f tests) Run() int { return f() }

func TestMainReportsWhatTestsLeaveBehind(t *testing.T) {
	for _, ledger := range []bool{false, true} {
		was := dlpack.SetLedger(ledger)
		var left *dlpack.Tensor
		leave := func(status int) tests {
			return func() int {
				var err error
				left, err = dlpack.New(dlpack.Float32, 2, 3)
				require.NoError(t, err)
				return status
			}
		}
		var out bytes.Buffer
		assert.Equal(t, 1, run(leave(0), &out))
		assert.Contains(t, out.String(), "tensors behind: 1 allocation\n")
		if ledger {
			assert.Contains(t, out.String(), "allocation of float32[2 3]")
			assert.Contains(t, out.String(), "leaks_test.go:")
		} else {
			assert.Contains(t, out.String(), "DLBRIDGE_LEDGER=1")
		}
		require.NoError(t, left.Close())

		out.Reset()
		assert.Equal(t, 2, run(leave(2), &out), "the status of tests that fail is passed on")
		assert.Empty(t, out.String())
		require.NoError(t, left.Close())
		assert.Equal(t, 0, run(tests(func() int { return 0 }), &out))
		assert.Empty(t, out.String())
		dlpack.SetLedger(was)
	}
}

func TestMainForgivesImportsThatAreLeftOnPurpose(t *testing.T) {
	tensor, err := dlpack.Import(Produce(t, Config{Shape: []int64{4}}).Managed())
	require.NoError(t, err)
	var out bytes.Buffer
	nothing := tests(func() int { return 0 })
	assert.Equal(t, 1, run(nothing, &out))
	assert.Contains(t, out.String(), "tensors behind: 1 import\n")
	repotest.Forgive(1, 0)
	assert.Equal(t, 0, run(nothing, &out))
	repotest.Forgive(-1, 0)
	require.NoError(t, tensor.Close())
	runtime.KeepAlive(tensor)
}

// A leakTest is a test whose cleanups run when end is called.
type leakTest struct {
	recorder
	cleanups []func()
}

func (l *leakTest) Cleanup(f func()) { l.cleanups = append(l.cleanups, f) }

// end runs the cleanups and returns the failures.
func (l *leakTest) end() string {
	for _, f := range slices.Backward(l.cleanups) {
		f()
	}
	return strings.Join(l.failures, "\n")
}

func makeTensor() *dlpack.Tensor {
	t, err := dlpack.New(dlpack.Float32, 2, 3)
	if err != nil {
		panic(err)
	}
	return t
}

func TestCheckLeaksLeavesTheLedgerOffIfTheEnvironmentSaysSo(t *testing.T) {
	defer dlpack.SetLedger(dlpack.SetLedger(false))
	t.Setenv("DLBRIDGE_LEDGER", "0")
	var test leakTest
	CheckLeaks(&test)
	assert.False(t, dlpack.SetLedger(false))
	left := makeTensor()
	assert.Contains(t, test.end(), "tensors leaked since the test began: 1 allocation\nthe ledger has no record of these tensors")
	left.Close()
}

func TestCheckLeaksPrintsTheStacksOfWhatIsLeft(t *testing.T) {
	defer dlpack.SetLedger(dlpack.SetLedger(false))
	t.Setenv("DLBRIDGE_LEDGER", "")
	var first, second leakTest
	older := makeTensor()
	CheckLeaks(&first)
	older.Close()
	CheckLeaks(&second) // of a parallel test
	assert.True(t, dlpack.SetLedger(true), "it is on")
	makeTensor().Close()
	left := makeTensor()
	text := second.end()
	assert.Contains(t, text, "tensors leaked since the test began: 1 allocation\nallocation of float32[2 3], 24 bytes")
	assert.Regexp(t, `\n\t[^\n]*dlpacktest\.makeTensor\n\t\t[^\n]*leaks_test\.go:\d+\n\t[^\n]*TestCheckLeaksPrints[^\n]*\n\t\t[^\n]*leaks_test\.go:\d+\n$`, text)
	assert.Equal(t, 1, strings.Count(text, "allocation of"))
	assert.True(t, dlpack.SetLedger(true), "the first test needs it")
	left.Close()
	assert.Empty(t, first.end())
	assert.False(t, dlpack.SetLedger(false), "it is as it was before")

	var third leakTest
	CheckLeaks(&third)
	m, err := dlpack.ExportSlice([]int8{1, 2})
	require.NoError(t, err)
	assert.Contains(t, third.end(), "tensors leaked since the test began: 1 export, 2 bytes pinned\nexport of int8[2], 2 bytes")
	dlpack.Release(m)
}

// heap is an allocator that keeps nothing.
type heap struct{}

func (heap) Allocate(size int) ([]byte, error) { return make([]byte, size), nil }
func (heap) Free([]byte)                       {}

// Pinned memory with OnRelease, or of NewFrom, counts as left behind, although the ledger has no record of it.
func TestMemoryThatIsNotGivenBackIsALeak(t *testing.T) {
	for name, left := range map[string]func() *dlpack.Tensor{
		"NewFrom": func() *dlpack.Tensor { return must.Do(dlpack.NewFrom(heap{}, dlpack.Int8, 5))(t) },
		"OnRelease": func() *dlpack.Tensor {
			x := must.Do(dlpack.FromSlice([]int8{1, 2, 3, 4, 5}))(t)
			must.Do(0, x.OnRelease(func() {}))(t)
			return x
		},
	} {
		t.Run(name, func(t *testing.T) {
			const why = "bytes stay pinned without an export: a tensor of NewFrom, or of memory with OnRelease, was not closed"
			var test leakTest
			CheckLeaks(&test)
			x := left()
			assert.Equal(t, "tensors leaked since the test began: 5 bytes pinned\n"+why, test.end())
			var out bytes.Buffer
			nothing := tests(func() int { return 0 })
			assert.Equal(t, 1, run(nothing, &out))
			assert.Equal(t, "dlpacktest: the tests left tensors behind: 5 bytes pinned\ndlpacktest: "+why+"\n", out.String())
			require.NoError(t, x.Close())
			assert.Equal(t, 0, run(nothing, &out))
		})
	}
}

// collectUntilForgotten collects garbage until the process has forgotten this many objects.
func collectUntilForgotten(t *testing.T, forgotten int64) {
	t.Helper()
	require.Eventually(t, func() bool { runtime.GC(); return dlpack.ReadStats().Forgotten == forgotten }, 20*time.Second, time.Millisecond)
}

// A collection within a test releases forgotten tensors of the test, but does not hide them.
func TestACollectionDoesNotHideWhatIsForgotten(t *testing.T) {
	repotest.Forgets(t)
	defer dlpack.SetLedger(dlpack.SetLedger(true))
	left, before := makeTensor(), dlpack.ReadStats().Forgotten
	var test leakTest
	CheckLeaks(&test)
	runtime.KeepAlive(left)

	var out bytes.Buffer
	status := run(tests(func() int { makeTensor(); collectUntilForgotten(t, before+2); return 0 }), &out)
	text := test.end()
	assert.Contains(t, text, "tensors leaked since the test began: 1 forgotten\nforgotten: allocation of float32[2 3], 24 bytes")
	assert.Equal(t, 1, strings.Count(text, "allocation of"), "an earlier test has made the other one")
	assert.Regexp(t, `\n\t[^\n]*dlpacktest\.makeTensor\n\t\t[^\n]*leaks_test\.go:\d+\n\t[^\n]*TestACollection[^\n]*\n`, text)
	assert.Equal(t, 1, status)
	assert.Regexp(t, `tensors behind: 2 forgotten\n(dlpacktest: forgotten: allocation of float32\[2 3\], .*makeTensor \(.*leaks_test\.go:\d+\)\n){2}$`, out.String())
}

// A test does not fail for tensors that an earlier test has forgotten. They may be released, or kept for a slice; the ledger may be on
// or off.
func TestCheckLeaksForgivesWhatWasMadeBefore(t *testing.T) {
	t.Setenv("DLBRIDGE_LEDGER", "")
	for name, use := range map[string]func(*dlpack.Tensor){
		"released":         func(*dlpack.Tensor) {},
		"kept for a slice": func(x *dlpack.Tensor) { must.Do(dlpack.Values[float32](x))(t); repotest.Forgive(1, 0) },
	} {
		for _, ledger := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", ledger ", ledger), func(t *testing.T) {
				repotest.Forgets(t)
				defer dlpack.SetLedger(dlpack.SetLedger(ledger))
				for range 2 {
					x := must.Do(dlpack.Import(Produce(t, Config{Shape: []int64{4}}).Managed()))(t)
					use(x)
					var test leakTest
					CheckLeaks(&test)
					before := dlpack.ReadStats().Forgotten // a collection may come at any time after x is dropped
					runtime.KeepAlive(x)
					x = nil
					collectUntilForgotten(t, before+1)
					assert.Empty(t, test.end())
				}
			})
		}
	}
}

// The stack of a leak has only the calls of the program, even if the library called the program.
func TestStacksLeaveTheLibraryOut(t *testing.T) {
	t.Setenv("DLBRIDGE_LEDGER", "")
	var test leakTest
	CheckLeaks(&test)
	x := makeTensor()
	defer x.Close()
	var left *dlpack.Tensor
	must.Do(0, dlpack.Read(x, func([]float32) error { left = makeTensor(); return nil }))(t)
	x.Close()
	text := test.end()
	assert.Equal(t, 1, strings.Count(text, "dlpacktest.makeTensor\n"))
	assert.Equal(t, 2, strings.Count(text, "TestStacksLeaveTheLibraryOut"))
	assert.NotContains(t, text, "dlbridge/dlpack.")
	left.Close()
}

// The release of a tensor that an earlier test has forgotten does not hide a leak.
func TestAReleaseDoesNotHideALeak(t *testing.T) {
	t.Setenv("DLBRIDGE_LEDGER", "")
	older := makeTensor()
	var test leakTest
	CheckLeaks(&test)
	left := makeTensor()
	older.Close()
	text := test.end()
	assert.Contains(t, text, "tensors leaked since the test began: 1 allocation\nallocation of float32[2 3], 24 bytes")
	left.Close()
}

// Leaks with the same stack are printed once, with their number.
func TestEqualLeaksAreGrouped(t *testing.T) {
	t.Setenv("DLBRIDGE_LEDGER", "")
	repotest.Forgets(t)
	defer dlpack.SetLedger(dlpack.SetLedger(true))
	before := dlpack.ReadStats().Forgotten
	var test leakTest
	CheckLeaks(&test)
	var left [1000]*dlpack.Tensor
	for i := range 2 * len(left) {
		if x := makeTensor(); i < len(left) {
			left[i] = x
		}
	}
	other := makeTensor()
	collectUntilForgotten(t, before+1000)
	var out bytes.Buffer
	assert.Equal(t, 1, run(tests(func() int { return 0 }), &out))
	text := test.end()
	assert.Contains(t, text, "tensors leaked since the test began: 1001 allocations, 1000 forgotten\n1000 times allocation of float32[2 3], 24 bytes")
	assert.Contains(t, text, "\nforgotten: 1000 times allocation of")
	assert.Equal(t, 3, strings.Count(text, "allocation of"))
	assert.Regexp(t, `tensors behind: 1001 allocations, 1000 forgotten\n`+
		`dlpacktest: 1000 times allocation .*\ndlpacktest: allocation .*\ndlpacktest: forgotten: 1000 times allocation .*\n$`, out.String())
	for _, x := range left {
		x.Close()
	}
	other.Close()
}
