//go:build cgo

package dlpack_test

import (
	"bytes"
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
)

func withLedger(t *testing.T) {
	t.Helper()
	was := dlpack.SetLedger(true)
	t.Cleanup(func() { dlpack.SetLedger(was) })
	require.True(t, dlpack.SetLedger(true), "it is on")
}

// The innermost frames of the records of these functions are what the tests look for.
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

	dlpacktest.DeleteOnThreads([]unsafe.Pointer{m}, 1)
	tensor.Close()
	imported.Close()
	own.Close()
	assert.Empty(t, dlpack.Live())
	assert.Zero(t, profile.Count())
	assert.Equal(t, 1, p.Deletes())
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

// The cleanup guard reports.
func TestLedgerNamesTheLineThatForgot(t *testing.T) {
	withLedger(t)
	var producers []*dlpacktest.Producer
	for range 3 {
		p := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{5}})
		producers = append(producers, p)
		forgetsAnImport(t, p)
	}
	for _, p := range producers { // others' may be found meanwhile
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
