package bridge_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dlbridge/dlbridge/bridge"
	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/tens"
)

func ExampleDecodeTensor() {
	label, _ := tens.DecodeLabel([]byte(
		`{"TENS":{"tensors":[{"shape":[2,3],"word":2,"dtype":"f","order":[0,1],"ascend":[true,false]}],"metadata":{}}}`))
	d, err := bridge.DecodeTensor(&label.Tensors[0])
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(d.DType, d.Layout.Shape, d.Layout.Strides, d.Layout.Offset, d.NBytes)
	// Output: float16 [2 3] [1 -2] 4 12
}

func ExampleEncodeTensor() {
	t, err := bridge.EncodeTensor(dlpack.BFloat16, false, []int64{2, 3}, []int64{1, -2})
	if err != nil {
		fmt.Println(err)
		return
	}
	text, _ := (&tens.Label{Tensors: []tens.Tensor{t}}).Append(nil)
	fmt.Println(string(text))
	// Output: {"TENS":{"metadata":{},"tensors":[{"ascend":[true,false],"dlpack":[4,16,1],"dtype":"V","order":[0,1],"part":0,"shape":[2,3],"word":2}]}}
}

// Decoding returns every type and every packed layout of rank 3 as it was encoded.
func TestEncodeTensorAndDecodeTensorAreInverse(t *testing.T) {
	orders := [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}
	shape := []int64{2, 3, 4}
	for code := range 18 {
		for _, bits := range []uint8{2, 4, 6, 8, 16, 32, 64, 128} {
			for _, lanes := range []uint16{1, 2, 3} {
				dt := dlpack.MakeDataType(dlpack.TypeCode(code), bits, lanes)
				if dt.Validate() != nil {
					continue
				}
				for _, order := range orders {
					for signs := range 8 {
						strides, offset, step := make([]int64, 3), int64(0), int64(1)
						for _, d := range order {
							strides[d] = step
							if signs>>d&1 == 1 {
								strides[d] = -step
								offset += (shape[d] - 1) * step
							}
							step *= shape[d]
						}
						packed := dt.IsSubByte()
						out := must.Do(bridge.EncodeTensor(dt, packed, shape, strides))(t)
						d := must.Do(bridge.DecodeTensor(&out))(t)
						assert.Equal(t, dt, d.DType)
						assert.Equal(t, packed, d.Padded)
						assert.Equal(t, strides, d.Layout.Strides)
						assert.Equal(t, offset, d.Layout.Offset)
						assert.Equal(t, int64(24*dt.ItemSize()), d.NBytes)
					}
				}
			}
		}
	}
}

func TestEncodeTensorRefusesGapsAndUnknownTypes(t *testing.T) {
	must.Fail(bridge.EncodeTensor(dlpack.Float32, false, []int64{2, 3}, []int64{4, 1}))(t, dlpack.ErrLayout)
	must.Fail(bridge.EncodeTensor(dlpack.Float32, false, []int64{2, 3}, []int64{0, 1}))(t, dlpack.ErrLayout)
	_, err := bridge.EncodeTensor(dlpack.Int4, false, []int64{2, 3}, []int64{1, 2})
	assert.ErrorIs(t, err, dlpack.ErrLayout, "packed elements have no other order: DecodeTensor refuses it, too")
	_, err = bridge.EncodeTensor(dlpack.Int4, true, []int64{2, 3}, []int64{1, 2})
	assert.NoError(t, err)
	must.Fail(bridge.EncodeTensor(dlpack.MakeDataType(2, 128, 1), false, []int64{2}, []int64{1}))(t, elements.ErrDType)
}
