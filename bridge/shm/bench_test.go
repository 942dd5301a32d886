//go:build linux && cgo

package shm_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/shm"
	"github.com/dlbridge/dlbridge/dlpack"
)

// The time from Send until the receiver holds the tensor, and its answer of one byte; the elements were written before. "bare" sends 200
// bytes instead.
func BenchmarkSend(b *testing.B) {
	for _, size := range []int64{0, 1 << 10, 1 << 20, 1 << 30} {
		name := "bare"
		if size > 0 {
			name = fmt.Sprint(size>>10, "KiB")
		}
		b.Run(name, func(b *testing.B) {
			here, there := ends(b)
			defer here.Close()
			x, err := shm.New(dlpack.Uint8, max(size, 1))
			require.NoError(b, err)
			defer x.Close()
			require.NoError(b, x.Fill(uint8(7)))
			done := make(chan error, 1)
			go func() {
				defer there.Close()
				buffer := make([]byte, 200)
				defer func() { done <- nil }()
				for range b.N {
					var got []*dlpack.Tensor
					var err error
					if size == 0 {
						if _, err = there.Read(buffer); err != nil {
							panic(err)
						}
					} else {
						if got, err = shm.Recv(b.Context(), there); err != nil {
							panic(err)
						}
					}
					there.Write(buffer[:1])
					for _, x := range got {
						x.Close()
					}
				}
			}()
			message, answer := make([]byte, 200), make([]byte, 1)
			b.ResetTimer()
			for range b.N {
				if size == 0 {
					_, err = here.Write(message)
				} else {
					err = shm.Send(b.Context(), here, []*dlpack.Tensor{x})
				}
				require.NoError(b, err)
				_, err = here.Read(answer)
				require.NoError(b, err)
			}
			b.StopTimer()
			require.NoError(b, <-done)
		})
	}
}
