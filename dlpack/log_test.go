//go:build cgo

package dlpack_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// logged returns the texts that the two handlers of package slog write for a value.
func logged(value any) (text, json string) {
	write := func(handler func(*bytes.Buffer, *slog.HandlerOptions) slog.Handler) string {
		var out bytes.Buffer
		onlyValue := func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && slices.Contains([]string{slog.TimeKey, slog.LevelKey, slog.MessageKey}, a.Key) {
				return slog.Attr{}
			}
			return a
		}
		slog.New(handler(&out, &slog.HandlerOptions{ReplaceAttr: onlyValue})).Info("", "x", value)
		return string(bytes.TrimSpace(out.Bytes()))
	}
	text = write(func(b *bytes.Buffer, o *slog.HandlerOptions) slog.Handler { return slog.NewTextHandler(b, o) })
	json = write(func(b *bytes.Buffer, o *slog.HandlerOptions) slog.Handler { return slog.NewJSONHandler(b, o) })
	return text, json
}

func TestLogLines(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	x := must.Own(fromSlice(t, []int8{1, 2, 3, 4, 5, 6}, 2, 3).Transpose())(t)
	for _, test := range []struct {
		value      any
		text, json string
	}{
		{x, `x="int8[3 2] strides [1 3] on cpu"`, `{"x":"int8[3 2] strides [1 3] on cpu"}`},
		{(*dlpack.Tensor)(nil), `x=<nil>`, `{"x":"<nil>"}`},
		{map[string][]*dlpack.Tensor{"in": {x, nil}}, `x="map[in:[int8[3 2] strides [1 3] on cpu <nil>]]"`, `{"x":{"in":["int8[3 2] strides [1 3] on cpu",null]}}`},
		{struct{ In *dlpack.Tensor }{x}, `x="{In:int8[3 2] strides [1 3] on cpu}"`, `{"x":{"In":"int8[3 2] strides [1 3] on cpu"}}`},
		{dlpack.BFloat16, `x=bfloat16`, `{"x":"bfloat16"}`},
		{dlpack.DataType(0), `x="(code 0, bits 0, lanes 0)"`, `{"x":"(code 0, bits 0, lanes 0)"}`},
		{dlpack.Device{Type: dlpack.CUDA, ID: 1}, `x=cuda:1`, `{"x":"cuda:1"}`},
		{dlpack.Stats{Exports: 1, Imports: 2, Allocations: 3, ForeignBytes: 4, PinnedBytes: 5, DoubleDeletes: 6, Forgotten: 7},
			`x.exports=1 x.imports=2 x.allocations=3 x.foreign_bytes=4 x.pinned_bytes=5 x.double_deletes=6 x.forgotten=7`,
			`{"x":{"exports":1,"imports":2,"allocations":3,"foreign_bytes":4,"pinned_bytes":5,"double_deletes":6,"forgotten":7}}`},
	} {
		text, json := logged(test.value)
		assert.Equal(t, test.text, text)
		assert.Equal(t, test.json, json)
	}
}

func TestATensorTakesAtMost200BytesInALogLine(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	large := []int64{math.MaxInt64, math.MaxInt64, 0, math.MaxInt64, math.MaxInt64}
	for name, c := range map[string]dlpacktest.Config{
		"many elements": {Shape: []int64{1 << 20}, Strides: []int64{0}},
		"many sizes":    {Shape: slices.Repeat([]int64{1}, dlpack.MaxRank)},
		"large numbers": {Shape: large, Strides: []int64{math.MinInt64, 1, 2, 3, math.MinInt64}, Flags: uint64(dlpack.ReadOnly),
			Code: uint8(dlpack.CodeFloat8E4M3B11FNUZ), Bits: 8, Lanes: math.MaxUint16, DeviceType: math.MinInt32, DeviceID: math.MinInt32},
	} {
		_, x, err := importConfig(t, c)
		require.NoError(t, err, name)
		require.NoError(t, x.Close())
		text, json := logged(x)
		assert.LessOrEqual(t, len(text)-len("x="), 200, text)
		assert.LessOrEqual(t, len(json)-len(`{"x":}`), 200, json)
		assert.Equal(t, x.LogValue().String(), string(must.Do(x.MarshalText())(t)))
		assert.Contains(t, text, x.Device().String()+", ", name)
		assert.Contains(t, text, `closed"`, name)
		assert.Contains(t, text, x.DType().String()+"[", name)
	}
	x := must.Own(dlpack.New(dlpack.Int8, slices.Repeat([]int64{1}, dlpack.MaxRank)...))(t)
	assert.Equal(t, "int8[1 ... 1] on cpu", x.LogValue().String())
	text, _ := logged([]*dlpack.Tensor{x, must.Own(dlpack.New(dlpack.Float32, 1000, 1000))(t)})
	assert.Equal(t, `x="[int8[1 ... 1] on cpu float32[1000 1000] on cpu]"`, text)
	whole := must.Own(dlpack.New(dlpack.Int8, slices.Repeat([]int64{1}, 90)...))(t)
	assert.Equal(t, whole.String(), whole.LogValue().String())
}

func ExampleTensor_LogValue() {
	t, err := dlpack.New(dlpack.Float32, 1000, 1000)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer t.Close()
	withoutTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: withoutTime}))
	log.Info("received", "input", t)
	// Output: level=INFO msg=received input="float32[1000 1000] on cpu"
}
