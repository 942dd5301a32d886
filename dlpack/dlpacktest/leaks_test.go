//go:build cgo

package dlpacktest

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
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
		assert.Contains(t, out.String(), "0 exports, 0 imports, 1 allocations")
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
	assert.Contains(t, out.String(), "0 exports, 1 imports, 0 allocations")
	repotest.Forgive(1)
	assert.Equal(t, 0, run(nothing, &out))
	repotest.Forgive(-1)
	require.NoError(t, tensor.Close())
	runtime.KeepAlive(tensor)
}
