//go:build cgo

package formats_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"runtime"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/internal/formats"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/repotest"
)

// eachStream runs a test with each format that reads and writes streams.
func eachStream(t *testing.T, run func(t *testing.T, f *formats.Format)) {
	for _, f := range formats.All {
		if f.ReadTensor != nil {
			t.Run(f.Name(), func(t *testing.T) { run(t, f) })
		}
	}
}

// sent returns tensors of several sizes with their messages.
func sent(t *testing.T, f *formats.Format) map[*dlpack.Tensor][]byte {
	found := map[*dlpack.Tensor][]byte{}
	for _, n := range []int{0, 1, 5, 4096, 100_003} {
		values := make([]float64, n)
		for i := range values {
			values[i] = float64(i)
		}
		x := must.Own(dlpack.FromSlice(values, int64(n), 1))(t)
		found[x] = must.Do(f.Encode(formats.Named{Tensor: x}))(t)
	}
	return found
}

func TestReadTensorReadsAMessageOfAnyReader(t *testing.T) {
	eachStream(t, func(t *testing.T, f *formats.Format) {
		dlpacktest.CheckLeaks(t)
		for want, message := range sent(t, f) {
			for way, through := range map[string]func(io.Reader) io.Reader{
				"whole": func(r io.Reader) io.Reader { return r }, "by bytes": iotest.OneByteReader, "by halves": iotest.HalfReader, "with its error": iotest.DataErrReader,
			} {
				in := through(bytes.NewReader(slices.Concat(message, message)))
				known := must.Own(f.ReadTensor(in, int64(len(message))))(t)
				toTheEnd := must.Own(f.ReadTensor(in, -1))(t)
				for _, got := range []*dlpack.Tensor{known, toTheEnd} {
					require.True(t, must.Do(dlpack.Equal(want, got))(t), "%v, %s", want, way)
					require.False(t, got.ReadOnly())
				}
				require.Zero(t, known.Flags()&dlpack.IsCopied, "%v, %s", want, way)
			}
		}
	})
}

func TestReadTensorPassesOnErrors(t *testing.T) {
	eachStream(t, func(t *testing.T, f *formats.Format) {
		dlpacktest.CheckLeaks(t)
		x := must.Own(dlpack.FromSlice([]float32{1, 2, 3}))(t)
		message := must.Do(f.Encode(formats.Named{Tensor: x}))(t)
		size, broken := int64(len(message)), errors.New("broken")
		for at := range message {
			_, err := f.ReadTensor(bytes.NewReader(message[:at]), size)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			require.ErrorContains(t, err, fmt.Sprintf("%s: after %d of %d bytes", f.Name(), at, size))
			for _, size := range []int64{size, -1} {
				_, err = f.ReadTensor(io.MultiReader(bytes.NewReader(message[:at]), iotest.ErrReader(broken)), size)
				require.ErrorIs(t, err, broken)
				_, err = f.ReadTensor(http.MaxBytesReader(nil, io.NopCloser(bytes.NewReader(message)), int64(at)), size)
				var limit *http.MaxBytesError
				require.ErrorAs(t, err, &limit)
			}
		}
		must.Fail(f.ReadTensor(nil, 1))(t, elements.ErrNil)
		_, err := f.ReadTensor(bytes.NewReader(append(message, 1)), -1)
		require.Error(t, err)
		text := must.Do(f.Encode(formats.Named{Elements: &elements.Elements{Type: "string", Values: [][]byte{[]byte("text")}}}))(t)
		must.Fail(f.ReadTensor(bytes.NewReader(text), -1))(t, elements.ErrDType)
	})
}

// A client may announce any size and send only a few bytes.
func TestReadTensorTakesNoMoreMemoryThanHasCome(t *testing.T) {
	eachStream(t, func(t *testing.T, f *formats.Format) {
		const come = 1 << 20
		for _, size := range []int64{1 << 40, math.MaxInt64, -1} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := f.ReadTensor(bytes.NewReader(make([]byte, come)), size)
			runtime.ReadMemStats(&after)
			require.Error(t, err)
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(5*come+64<<10))
		}
	})
}

func TestWriteTensorWritesWhatAppendTensorAppends(t *testing.T) {
	eachStream(t, func(t *testing.T, f *formats.Format) {
		dlpacktest.CheckLeaks(t)
		for x, message := range sent(t, f) {
			var out bytes.Buffer
			require.NoError(t, f.WriteTensor(&out, x))
			require.True(t, bytes.Equal(message, out.Bytes()), "%v", x)
		}
		matrix := must.Own(dlpack.FromSlice([]int16{1, 2, 3, 4, 5, 6}, 2, 3))(t)
		turned := must.Own(matrix.Transpose())(t)
		row := must.Own(matrix.Index(1))(t)
		yes := must.Own(dlpack.FromSlice([]bool{true, false}))(t)
		for _, x := range []*dlpack.Tensor{matrix, turned, row, yes} {
			var out bytes.Buffer
			require.NoError(t, f.WriteTensor(&out, x))
			require.Equal(t, must.Do(f.Encode(formats.Named{Tensor: x}))(t), out.Bytes(), "%v", x)
		}
	})
}

func TestWriteTensorTakesNoMemoryForTheElements(t *testing.T) {
	eachStream(t, func(t *testing.T, f *formats.Format) {
		x := must.Own(dlpack.New(dlpack.Uint8, 1<<24))(t)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		require.NoError(t, f.WriteTensor(io.Discard, x))
		runtime.ReadMemStats(&after)
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
	})
}

func TestWriteTensorPassesOnErrors(t *testing.T) {
	eachStream(t, func(t *testing.T, f *formats.Format) {
		dlpacktest.CheckLeaks(t)
		x := must.Own(dlpack.FromSlice([]float32{1, 2, 3}))(t)
		size, broken := must.Do(f.Writers[0].Size(x))(t), errors.New("broken")
		for n := range size {
			require.ErrorIs(t, f.WriteTensor(&repotest.FailingWriter{N: n, Err: broken}, x), broken)
			require.ErrorIs(t, f.WriteTensor(&repotest.FailingWriter{N: n, Err: nil}, x), io.ErrShortWrite)
		}
		require.NoError(t, f.WriteTensor(&repotest.FailingWriter{N: size, Err: broken}, x))
		require.ErrorIs(t, f.WriteTensor(nil, x), elements.ErrNil)
		require.ErrorIs(t, f.WriteTensor(io.Discard, nil), dlpack.ErrClosed)
		neither := must.Own(dlpack.FromBytes([]byte{0, 2}, dlpack.Spec{DType: dlpack.Bool, Shape: []int64{2}}))(t)
		none := &repotest.FailingWriter{N: 0, Err: broken}
		require.ErrorIs(t, f.WriteTensor(none, neither), dlpack.ErrValue, "before anything is written")
	})
}
