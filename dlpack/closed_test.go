//go:build cgo

package dlpack_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
)

// notOpen are the tensors that have no memory to work on.
func notOpen(t *testing.T) map[string]*dlpack.Tensor {
	closed := fromSlice(t, []float32{1, 2, 3, 4}, 2, 2)
	require.NoError(t, closed.Close())
	return map[string]*dlpack.Tensor{"nil": nil, "zero": new(dlpack.Tensor), "closed": closed}
}

// Every method that returns an error refuses nil, the zero Tensor and a closed tensor. No method panics. Nil and the
// zero Tensor describe nothing; a closed tensor keeps its description.
func TestEveryMethodAnswersForTensorsThatAreNotOpen(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	open := fromSlice(t, []float32{1, 2, 3, 4}, 2, 2)
	defer open.Close()
	of := reflect.TypeFor[*dlpack.Tensor]()
	failure := reflect.TypeFor[error]()
	for name, tensor := range notOpen(t) {
		for i := range of.NumMethod() {
			method := of.Method(i)
			if method.Name == "Format" { // its argument is an interface of fmt; see TestFormatOfTensorsThatAreNotOpen
				continue
			}
			for _, argument := range []*dlpack.Tensor{nil, open} {
				t.Run(name+" "+method.Name, func(t *testing.T) {
					args := []reflect.Value{reflect.ValueOf(tensor)}
					for k := 1; k < method.Type.NumIn(); k++ {
						in := method.Type.In(k)
						switch {
						case method.Type.IsVariadic() && k == method.Type.NumIn()-1:
						case in == of:
							args = append(args, reflect.ValueOf(argument))
						default:
							args = append(args, reflect.Zero(in))
						}
					}
					var results []reflect.Value
					require.NotPanics(t, func() { results = method.Func.Call(args) })
					last := results[len(results)-1]
					switch {
					case method.Name == "Close" || method.Name == "MarshalText":
						assert.True(t, last.IsNil())
					case last.Type() == failure && !(name == "closed" && (method.Name == "RequireAlign" || method.Name == "Require")):
						require.False(t, last.IsNil())
						err := last.Interface().(error)
						assert.ErrorIs(t, err, dlpack.ErrClosed)
						for _, result := range results[:len(results)-1] {
							assert.True(t, result.IsZero(), "%v", result)
						}
						if name != "closed" {
							assert.ErrorContains(t, err, name)
						}
					case name != "closed" && method.Name != "String" && method.Name != "LogValue":
						assert.True(t, last.IsZero(), "%v", last)
					}
				})
			}
		}
	}
	assert.Equal(t, []int64{2, 2}, notOpen(t)["closed"].Shape())
	assert.Equal(t, "<nil>", (*dlpack.Tensor)(nil).String())
	assert.Equal(t, "zero Tensor", new(dlpack.Tensor).String())
	assert.Equal(t, "<nil>", (*dlpack.Tensor)(nil).LogValue().String())
	assert.Equal(t, "zero Tensor", new(dlpack.Tensor).LogValue().String())
}

func TestTensorsThatAreNotOpenAreRefusedAsArguments(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	open := fromSlice(t, []float32{1, 2, 3, 4}, 2, 2)
	defer open.Close()
	for name, tensor := range notOpen(t) {
		for _, test := range []struct {
			name  string
			use   func() error
			blame string
		}{
			{"CopyTo", func() error { return open.CopyTo(tensor) }, "dlpack: copy to: the destination is"},
			{"ConvertTo", func() error { return open.ConvertTo(tensor) }, "dlpack: convert to: the destination is"},
			{"ConvertScaled", func() error { return open.ConvertScaled(tensor, dlpack.Scaling{}) }, "the destination is"},
			{"CopyTo of it", func() error { return tensor.CopyTo(open) }, "dlpack: copy to: the source is"},
			{"ConvertTo of it", func() error { return tensor.ConvertTo(open) }, "dlpack: convert to: the source is"},
			{"ConvertScaled of it", func() error { return tensor.ConvertScaled(open, dlpack.Scaling{}) }, "dlpack: convert scaled: the source is"},
			{"Equal", func() error { _, err := dlpack.Equal(tensor, open); return err }, "the first tensor is"},
			{"EqualNaN", func() error { _, err := dlpack.EqualNaN(open, tensor); return err }, "the second tensor is"},
			{"Concat", func() error { _, err := dlpack.Concat(0, open, tensor); return err }, "tensor 1 is"},
			{"Stack", func() error { _, err := dlpack.Stack(0, open, tensor); return err }, "tensor 1 is"},
			{"At", func() error { _, err := dlpack.At[float32](tensor, 0, 0); return err }, "the tensor is"},
			{"SetAt", func() error { return dlpack.SetAt[float32](tensor, 1, 0, 0) }, "the tensor is"},
			{"Values", func() error { _, err := dlpack.Values[float32](tensor); return err }, "the tensor is"},
			{"UnsafeValues", func() error { _, err := dlpack.UnsafeValues[float32](tensor); return err }, "the tensor is"},
		} {
			t.Run(name+" "+test.name, func(t *testing.T) {
				var err error
				require.NotPanics(t, func() { err = test.use() })
				require.ErrorIs(t, err, dlpack.ErrClosed)
				assert.ErrorContains(t, err, test.blame)
			})
		}
	}
}
