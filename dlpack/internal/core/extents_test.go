//go:build cgo

package core_test

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/internal/core"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// extents is testdata/extents.json: descriptions, each with its extent or the reason for which it is refused. The rules of Go
// and of the C code are tested with the same cases.
type extents struct {
	Descriptions []struct {
		Name            string
		DType           [3]int // code, bits, lanes
		Padded          bool
		Shape, Strides  []int64
		Error, Message  string
		Count           int64
		NumBytes        int64 `json:"num_bytes"`
		Low, High       int64
		RowMajor        bool    `json:"row_major"`
		RowMajorStrides []int64 `json:"row_major_strides"`
	}
	Widths       [][]int `json:"widths_by_type_code"`
	HostReadable []int32 `json:"host_readable_device_types"`
}

func readExtents(t *testing.T) (table extents) {
	text := must.Do(os.ReadFile("testdata/extents.json"))(t)
	require.NoError(t, json.Unmarshal(text, &table))
	require.NotEmpty(t, table.Descriptions)
	return table
}

func TestExtentsInGoAndCAreThoseOfTheTable(t *testing.T) {
	statuses := map[string]core.Status{"": core.OK, "layout": core.BadLayout, "overflow": core.Overflow}
	for _, test := range readExtents(t).Descriptions {
		t.Run(test.Name, func(t *testing.T) {
			want := core.Extent{Count: test.Count, NumBytes: test.NumBytes, Low: test.Low, High: test.High, RowMajor: test.RowMajor}
			flags := uint64(0)
			if test.Padded {
				flags = uint64(dlpack.SubbytePadded)
			}
			p := dlpacktest.Produce(t, dlpacktest.Config{ // on a device, where every address is good
				DeviceType: int32(dlpack.CUDA), Code: uint8(test.DType[0]), Bits: uint8(test.DType[1]), Lanes: uint16(test.DType[2]),
				Shape: test.Shape, Strides: test.Strides, Flags: flags,
			})
			tensor := p.DLTensor(false)

			status, message, inC := core.CheckTensorInC(tensor, flags)
			assert.Equal(t, statuses[test.Error], status, "C")
			assert.Equal(t, test.Message, message, "C")

			var inGo core.Extent
			_, _, fault := core.CheckTensor((*core.DLTensor)(tensor), test.DType[1]*test.DType[2], test.Padded, false, &inGo)
			if test.Error != "" {
				require.NotNil(t, fault)
				assert.Equal(t, core.Fault{Status: statuses[test.Error], Text: test.Message}, *fault, "Go")
				return
			}
			require.Nil(t, fault)
			assert.Equal(t, want, inC, "C")
			assert.Equal(t, want, inGo, "Go")

			strides := make([]int64, len(test.Shape))
			core.SetRowMajorInC(strides, test.Shape)
			assert.Equal(t, test.RowMajorStrides, strides, "C")
			got := must.Do(layout.AppendRowMajor([]int64{}, test.Shape))(t)
			assert.Equal(t, test.RowMajorStrides, got, "Go")

			count := must.Do(layout.Count(test.Shape))(t)
			assert.Equal(t, test.Count, count)
			if test.DType[1]*test.DType[2]%8 != 0 && !test.Padded {
				return // the span of packed elements is in bytes only
			}
			if test.Strides != nil {
				got = test.Strides
			}
			item := int64(test.DType[1]*test.DType[2]+7) / 8
			low, high, err := layout.Span(test.Shape, got)
			require.NoError(t, err)
			assert.Equal(t, [2]int64{test.Low, test.High}, [2]int64{low * item, high * item})
			assert.Equal(t, test.RowMajor, layout.IsRowMajor(test.Shape, got))
		})
	}
}

func TestDataTypesInGoAndCAreThoseOfTheTable(t *testing.T) {
	widths := readExtents(t).Widths
	p := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{2}})
	tensor := p.DLTensor(false)
	d := (*core.DLTensor)(tensor)
	float32 := d.DType
	defer func() { d.DType = float32 }()
	for code := range 256 {
		for bits := range 256 {
			for _, lanes := range []uint16{0, 1, 65535} {
				want := lanes > 0 && code < len(widths) && slices.Contains(widths[code], bits)
				dt := dlpack.MakeDataType(dlpack.TypeCode(code), uint8(bits), lanes)
				if inGo := dt.Validate() == nil; inGo != want {
					t.Fatalf("Go: code %d, bits %d, lanes %d: %t", code, bits, lanes, inGo)
				}
				d.DType = core.DataType(dt)
				if status, _, _ := core.CheckTensorInC(unsafe.Pointer(d), 0); (status != core.BadDType) != want {
					t.Fatalf("C: code %d, bits %d, lanes %d: status %d", code, bits, lanes, status)
				}
			}
		}
	}
}

func TestHostReadableDevicesInGoAndCAreThoseOfTheTable(t *testing.T) {
	readable := readExtents(t).HostReadable
	for device := int32(-2); device < 100; device++ {
		want := slices.Contains(readable, device)
		assert.Equal(t, want, dlpack.Device{Type: dlpack.DeviceType(device)}.HostReadable(), "Go: type %d", device)
		assert.Equal(t, want, core.HostReadableInC(device), "C: type %d", device)
	}
}
