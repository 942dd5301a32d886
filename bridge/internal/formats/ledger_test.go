//go:build cgo

package formats_test

import (
	"path"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/internal/formats"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// If a package copies elements out of an unaligned message, the ledger names the line of the program, not a line of the
// package.
func TestTheLedgerNamesWhoHasCalledADecoder(t *testing.T) {
	defer dlpack.SetLedger(dlpack.SetLedger(true))
	x := must.Own(dlpack.FromSlice([]int64{1, 2, 3}))(t)
	for _, f := range formats.All {
		message := must.Do(f.Encode(formats.Named{Tensor: x}))(t)
		for _, r := range f.Readers {
			t.Run(f.Name()+"."+r.Name, func(t *testing.T) {
				source := must.Own(dlpack.New(dlpack.Uint8, int64(len(message))))(t)
				require.NoError(t, dlpack.Use(source, func(to []byte) error { copy(to, message); return nil }))
				v := must.Do(r.Read(source, 64))(t)
				for _, record := range dlpack.Live() {
					assert.Equal(t, "ledger_test.go", path.Base(record.Caller().File), "%v", record)
				}
				if v.Tensor != nil {
					v.Tensor.Close()
				}
			})
		}
	}
}
