//go:build linux && cgo

package shm_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/shm"
	"github.com/dlbridge/dlbridge/dlpack"
)

// BenchmarkSend measures the time from Send until the answer of one byte from another process that holds the tensor.
// The elements were written before. "bare" sends 200 bytes instead.
func BenchmarkSend(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		_, conn := child(b, "answer bytes")
		message, answer := make([]byte, 200), make([]byte, 1)
		for b.Loop() {
			_, err := conn.Write(message)
			require.NoError(b, err)
			_, err = conn.Read(answer)
			require.NoError(b, err)
		}
	})
	for _, size := range []int64{1 << 10, 1 << 20, 1 << 30} {
		b.Run(fmt.Sprint(size>>10, "KiB"), func(b *testing.B) {
			_, conn := child(b, "answer tensors")
			x, err := shm.New(dlpack.Uint8, size)
			require.NoError(b, err)
			defer x.Close()
			require.NoError(b, x.Fill(uint8(7)))
			answer := make([]byte, 1)
			for b.Loop() {
				require.NoError(b, shm.Send(context.Background(), conn, []*dlpack.Tensor{x}))
				_, err := conn.Read(answer)
				require.NoError(b, err)
			}
		})
	}
}
