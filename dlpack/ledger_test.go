//go:build cgo

package dlpack_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"runtime/pprof"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/repotest"
)

func withLedger(t *testing.T) {
	t.Helper()
	was := dlpack.SetLedger(true)
	t.Cleanup(func() { dlpack.SetLedger(was) })
	require.True(t, dlpack.SetLedger(true), "it is on")
}

// The tests look for these functions in the innermost frames of records.
//
//go:noinline
func makesAnAllocation(t *testing.T) *dlpack.Tensor {
	return must.Do(dlpack.New(dlpack.Float32, 3, 4))(t)
}

//go:noinline
func forgetsAnImport(t *testing.T, p *dlpacktest.Producer) {
	must.Do(dlpack.Import(p.Managed()))(t)
}

func TestLedgerNamesWhatIsAliveAndWhoMadeIt(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	withLedger(t)
	tensor := makesAnAllocation(t)
	m := export(t, tensor)
	p := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{5}})
	imported := must.Do(dlpack.Import(p.Managed()))(t)
	own := must.Do(dlpack.Import(export(t, imported)))(t)

	live := dlpack.Live()
	require.Len(t, live, 5)
	assert.Equal(t, dlpack.KindAllocation, live[0].Kind)
	assert.Equal(t, dlpack.Float32, live[0].DType)
	assert.Equal(t, []int64{3, 4}, live[0].Shape)
	assert.EqualValues(t, 48, live[0].Bytes)
	assert.Equal(t, 1, live[0].Count)
	assert.WithinDuration(t, time.Now(), live[0].Since, time.Minute)
	assert.Contains(t, live[0].Caller().Function, "makesAnAllocation")
	assert.Regexp(t, `^allocation of float32\[3 4\], 48 bytes, .* old, .*makesAnAllocation \(.*ledger_test.go:\d+\)$`, live[0].String())
	kinds := map[dlpack.Kind]int{}
	for _, r := range live {
		kinds[r.Kind]++
	}
	assert.Equal(t, map[dlpack.Kind]int{dlpack.KindAllocation: 1, dlpack.KindExport: 2, dlpack.KindImport: 2}, kinds)
	profile := pprof.Lookup(dlpack.ProfileName)
	require.NotNil(t, profile)
	assert.Equal(t, 5, profile.Count())
	var text bytes.Buffer
	require.NoError(t, profile.WriteTo(&text, 1))
	assert.Contains(t, text.String(), "makesAnAllocation")
	assert.NotContains(t, text.String(), "/dlpack.", "stacks begin with the program's calls")
	inJSON, err := json.Marshal(live[0])
	require.NoError(t, err)
	assert.Contains(t, string(inJSON), `"Kind":"allocation","DType":"float32","Shape":[3,4],"Bytes":48,`)
	assert.Regexp(t, `"Count":1,"View":false,"Stack":\[\{"Function":"[^"]+","File":"[^"]+\.go","Line":\d+\},`, string(inJSON))
	assert.Regexp(t, `\{"Function":"[^"]+\.makesAnAllocation","File":"[^"]+/ledger_test\.go","Line":\d+\}`, string(inJSON))
	inText, logLine := logged(live[0])
	assert.Regexp(t, `^x\.kind=allocation x\.dtype=float32 x\.shape="\[3 4\]" x\.bytes=48 x\.since=\S+ x\.count=1 x\.view=false `+
		`x\.function=\S+\.makesAnAllocation x\.file=\S+/ledger_test\.go x\.line=\d+$`, inText)
	assert.Regexp(t, `^\{"x":\{"kind":"allocation","dtype":"float32","shape":\[3,4\],"bytes":48,"since":"[^"]+","count":1,"view":false,`+
		`"function":"[^"]+\.makesAnAllocation","file":"[^"]+/ledger_test\.go","line":\d+\}\}$`, logLine)
	_, ofSlice := logged(live[:1])
	assert.Equal(t, `{"x":[`+string(inJSON)+`]}`, ofSlice)

	dlpacktest.DeleteOnThreads([]unsafe.Pointer{m}, 1)
	tensor.Close()
	imported.Close()
	own.Close()
	assert.Empty(t, dlpack.Live())
	assert.Zero(t, profile.Count())
	assert.Equal(t, 1, p.Deletes())
}

//go:noinline
func makesAView(t *testing.T, x *dlpack.Tensor) *dlpack.Tensor { return must.Do(x.Transpose())(t) }

//go:noinline
func makesAShare(t *testing.T, x *dlpack.Tensor) *dlpack.Tensor { return must.Do(x.Share())(t) }

// A record names a line where a Close is missing: the line of the first tensor or, if that is closed, of the oldest other tensor that
// is open.
func TestLedgerNamesTheTensorThatIsOpen(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	withLedger(t)
	for name, x := range map[string]*dlpack.Tensor{
		"allocation": makesAnAllocation(t),
		"import":     must.Do(dlpack.Import(dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{3, 4}}).Managed()))(t),
	} {
		defer x.Close()
		record := func() string {
			for _, r := range dlpack.Live() {
				if r.Kind.String() == name {
					return r.String()
				}
			}
			return "none"
		}
		view := makesAView(t, x)
		share := makesAShare(t, view)
		assert.Regexp(t, "^"+name+` of float32\[3 4\], 48 bytes, `, record(), "the first tensor is open")
		x.Close()
		assert.Regexp(t, "^view or share of an "+name+`: float32\[4 3\], 48 bytes, .*makesAView \(.*ledger_test.go:\d+\)$`, record())
		view.Close()
		assert.Regexp(t, "^view or share of an "+name+`: .*makesAShare \(`, record())
		share.Close()
		assert.Equal(t, "none", record())
	}
}

func TestLedgerNamesTheViewThatWasForgotten(t *testing.T) {
	repotest.Forgets(t)
	withLedger(t)
	p := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{3, 4}})
	func() {
		x := must.Do(dlpack.Import(p.Managed()))(t)
		makesAView(t, x)
		x.Close()
	}()
	collectUntil(t, func() bool { return p.Deletes() == 1 })
	forgotten := dlpack.Forgotten()
	require.Len(t, forgotten, 1)
	assert.True(t, forgotten[0].View)
	assert.Contains(t, forgotten[0].Caller().Function, "makesAView")
}

func TestLedgerThatIsOffRecordsNothingAndReadyBlocksAreRecordedOnceItIsOn(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	tensor := fromSlice(t, []float32{1})
	defer tensor.Close()
	warm(t, tensor)
	before := export(t, tensor)
	assert.Empty(t, dlpack.Live())
	withLedger(t)
	after := []unsafe.Pointer{export(t, tensor), export(t, tensor)}
	assert.Len(t, dlpack.Live(), 2)
	dlpacktest.DeleteOnThreads(append(after, before), 1)
	assert.Empty(t, dlpack.Live())
	m := export(t, tensor)
	dlpack.SetLedger(false)
	assert.Empty(t, dlpack.Live(), "to switch it off drops the records")
	dlpack.SetLedger(true)
	dlpack.Release(m)
	assert.Empty(t, dlpack.Live())
}

// The cleanup guard reports the line.
func TestLedgerNamesTheLineThatForgot(t *testing.T) {
	repotest.Forgets(t)
	withLedger(t)
	var producers []*dlpacktest.Producer
	for range 3 {
		p := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{5}})
		producers = append(producers, p)
		forgetsAnImport(t, p)
	}
	for _, p := range producers { // objects of other tests may be found meanwhile
		collectUntil(t, func() bool { return p.Deletes() == 1 })
	}
	forgotten := dlpack.Forgotten()
	require.Len(t, forgotten, 1)
	assert.Equal(t, 3, forgotten[0].Count)
	assert.Contains(t, forgotten[0].Caller().Function, "forgetsAnImport")
	assert.Regexp(t, `^3 times import of float32\[5\], 20 bytes, .*forgetsAnImport \(`, forgotten[0].String())
	assert.Empty(t, dlpack.Live())
}

func TestLedgerIsSwitchedOnByTheEnvironment(t *testing.T) {
	const child = "DLPACK_TEST_LEDGER"
	if os.Getenv(child) != "" {
		tensor := makesAnAllocation(t)
		assert.Len(t, dlpack.Live(), 1)
		tensor.Close()
		return
	}
	command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	command.Env = append(os.Environ(), child+"=1", "DLBRIDGE_LEDGER=1")
	output, err := command.CombinedOutput()
	assert.NoError(t, err, "%s", output)
}

func TestWakeAtOneUnpinsWithoutWaiting(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	last := dlpack.WakeAt(1)
	defer dlpack.WakeAt(last)
	assert.EqualValues(t, 1<<20, last)
	tensor := fromSlice(t, []float32{1})
	m := export(t, tensor)
	tensor.Close()
	assert.Equal(t, 1, dlpack.Pinned())
	dlpacktest.DeleteOnThreads([]unsafe.Pointer{m}, 1)
	require.Eventually(t, func() bool { return dlpack.Pinned() == 0 }, 20*time.Second, time.Millisecond)
}
