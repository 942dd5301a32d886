//go:build cgo

package formats

import (
	"errors"
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/tensorflow"
	"github.com/dlbridge/dlbridge/bridge/tensorflow/tensorflowtest"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/amplification"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/vectors"
)

// TensorFlow is the row of package tensorflow.
var TensorFlow = add(Format{
	Folder: "bridge/tensorflow",
	Title:  "TensorFlow's TensorProto",
	Common: true,
	Encode: func(values ...Named) ([]byte, error) {
		if e := values[0].Elements; e != nil {
			return tensorflow.AppendElements(nil, e)
		}
		return tensorflow.AppendTensor(nil, values[0].Tensor)
	},
	Decode: func(data []byte) ([]Named, error) {
		v, err := tensorflow.Decode(data, tensorflow.Writable(), nil)
		return []Named{{Tensor: v.Tensor, Elements: v.Elements}}, err
	},
	DecodeTo: func(sink elements.Sink, data []byte) error {
		_, err := tensorflow.DecodeViewTo(sink, data)
		return err
	},
	ReadTensor:  func(r io.Reader, size int64) (*dlpack.Tensor, error) { return tensorflow.ReadTensor(r, size) },
	WriteTensor: writeTensorFlow,
	Header: func(dtype dlpack.DataType, shape []int64) ([]byte, error) {
		what, err := tensorflow.DTypeOf(dtype)
		if err != nil {
			return nil, err
		}
		return tensorflow.AppendHeader(nil, what, shape)
	},
	NoDType:    elements.ErrDType,
	NoRank:     tensorflow.ErrRank,
	NoElements: elements.ErrDType,
	TooLarge:   dlpack.ErrOverflow,
	Writers: []Writer{
		writeTensorProto("AppendTensor", nil),
		writeTensorProto("AppendTensor, Fields", tensorflow.Fields()),
		writeTensorProto("AppendTensor, Content", tensorflow.Content()),
		writeTensorProto("AppendTensor, Pad", tensorflow.Pad(64)),
	},
	Readers: []Reader{{"DecodeFrom", func(data *dlpack.Tensor, align int) (Value, error) {
		var option tensorflow.DecodeOption
		if align > 0 {
			option = tensorflow.Align(align)
		}
		v, err := tensorflow.DecodeFrom(data, option)
		return Value{v.Tensor, v.Elements, v.Copied}, err
	}}},
	Others: []Other{writeTensor(
		writeTensorFlow,
		func(dst []byte, x *dlpack.Tensor) ([]byte, error) { return tensorflow.AppendTensor(dst, x) },
	), {"Export", func(t testing.TB, x *dlpack.Tensor) error {
		managed, err := tensorflow.Export(x)
		if err == nil {
			y, err := dlpack.ImportLegacy(managed)
			require.NoError(t, err)
			require.Equal(t, x.Data(), y.Data())
			require.NoError(t, y.Close())
		}
		return err
	}}},
	Payloads: []Payload{
		{"AppendElements", func(dst, data []byte) ([]byte, error) {
			return tensorflow.AppendElements(dst, &elements.Elements{Type: "string", Shape: []int64{1}, Values: [][]byte{data}})
		}},
		{"View.Append", func(dst, data []byte) ([]byte, error) {
			v := tensorflow.View{DType: tensorflow.UInt8, Shape: []int64{int64(len(data))}, Data: data}
			return v.Append(dst)
		}},
	},
	Nils: []Nil{
		{"AppendElements", func() error { _, err := tensorflow.AppendElements(nil, nil); return err }, elements.ErrElements},
		{"SizeElements", func() error { _, err := tensorflow.SizeElements(nil); return err }, elements.ErrElements},
		{"Value.Shape", func() error { (*tensorflow.Value)(nil).Shape(); return nil }, nil},
		{"Value.Close", (*tensorflow.Value)(nil).Close, nil},
	},
	Samples: map[string][]byte{
		"put together": {0x08, 0x09, 0x12, 0x04, 0x12, 0x02, 0x08, 0x02, 0x52, 0x02, 0x05, 0x06}, // dtype 9, shape [2], int64_val 5, 6
	},
	Hostile: tensorflowtest.TensorProtos,
	Measure: func(t testing.TB, data []byte, long bool) {
		measureTensorProto(t, data, 1<<16)
		if long {
			measureBoth(t, data, 64<<20, nil)
		}
	},
	InC: &InC{
		Commands: []Command{
			{"tensorflow", 0, 64 << 20}, {"tensorflow", 1, 64 << 20}, {"tensorflow", 2, 64 << 20}, {"tensorflow", 3, 64 << 20},
			{"tensorflow", 1 << 32, 1 << 16}, {"tensorflow", 1<<32 | 1, 1 << 16}, {"tensorflow", 1<<32 | 2, 1 << 16}, {"tensorflow", 1<<32 | 3, 1 << 16},
		},
		Seeds: func(f func(data []byte, at, size, times uint16)) {
			for dtype := range byte(33) {
				f(tensorflowtest.TensorProto(dtype, 60_000, tensorflowtest.Field(8, nil)), 11, 2, 60_000)
				f(tensorflowtest.TensorProto(dtype, 60_000, tensorflowtest.Field(7, []byte("\x01"))), 11, 3, 20_000)
			}
		},
		Fixed: map[string][]byte{
			"floats that are not aligned": tensorflowtest.TensorProto(1, 100_000, tensorflowtest.Field(5, make([]byte, 400_000))),
			"floats that repeat":          tensorflowtest.TensorProto(1, 16<<20, tensorflowtest.Field(5, make([]byte, 400_000))),
			"int32 varints":               tensorflowtest.TensorProto(3, 100_000, tensorflowtest.Field(7, make([]byte, 100_000))),
		},
		Vectors: tensorflowVectors,
		DecodeView: func(data []byte, _ uint64) (View, error) {
			v, err := tensorflow.DecodeView(data)
			if err == nil && v.DType.DataType() == 0 {
				return View{Elements: v.AsElements()}, nil
			}
			return View{v.DType.DataType(), v.Shape, v.Data, v.Aliases, nil}, err
		},
	},
})

func tensorflowVectors(t testing.TB) (all []Vector) {
	type manifest struct {
		vectors.Folder
		Tensors []struct {
			ID, File string
			Writers  map[string]string
		}
		Malformed []struct{ ID, File string }
	}
	for _, m := range vectors.Read[manifest](t, "tensorflow") {
		for _, v := range m.Tensors {
			written := []string{v.Writers["AsProtoTensorContent_hex"], v.Writers["AsProtoField_hex"]}
			all = append(all, Vector{Name: v.ID, File: filepath.Join(m.Dir(), v.File), Written: written})
		}
		for _, v := range m.Malformed {
			all = append(all, Vector{Name: v.ID, File: filepath.Join(m.Dir(), v.File), Refused: true})
		}
	}
	return all
}

func writeTensorFlow(w io.Writer, x *dlpack.Tensor) error { return tensorflow.WriteTensor(w, x) }

func writeTensorProto(name string, option tensorflow.EncodeOption) Writer {
	return Writer{
		name,
		func(dst []byte, x *dlpack.Tensor) ([]byte, error) { return tensorflow.AppendTensor(dst, x, option) },
		func(x *dlpack.Tensor) (int, error) { return tensorflow.SizeTensor(x, option) },
	}
}

// measureTensorProto calls every function that decodes a protocol buffer.
func measureTensorProto(t testing.TB, data []byte, limit int64) {
	limited := tensorflow.Limit(limit)
	for _, options := range [][]tensorflow.DecodeOption{{limited}, {limited, tensorflow.Lenient()}} {
		amplification.Require(t, len(data), amplification.Variable, uint64(limit), func() func() {
			if view, err := tensorflow.DecodeView(data, options...); err == nil && view.DType.DataType() == 0 {
				view.AsElements()
			}
			return nil
		})
		measureBoth(t, data, limit, options)
		measureBoth(t, data, limit, append(options, tensorflow.Integers(), tensorflow.Align(64)))
	}
	for _, read := range []func(){
		func() { tensorflow.DecodeShape(data) },
		func() { tensorflow.DecodeSlice(data) },
		func() { tensorflow.DecodeDescription(data) },
		func() { tensorflow.DecodeVariant(data) },
	} {
		amplification.Require(t, len(data), amplification.Variable, 0, func() func() { read(); return nil })
	}
}

// varints is the largest ratio between the memory of elements and the memory of their varints: a varint of one byte may
// be an element of eight bytes.
const varints = 8

// measureBoth decodes a message in Go memory and in C memory.
func measureBoth(t testing.TB, data []byte, limit int64, options []tensorflow.DecodeOption) {
	row, err := dlpack.FromSlice(data)
	require.NoError(t, err)
	defer row.Close()
	for _, read := range []func() (tensorflow.Value, error){
		func() (tensorflow.Value, error) { return tensorflow.Decode(data, options...) },
		func() (tensorflow.Value, error) { return tensorflow.DecodeFrom(row, options...) },
	} {
		value, err := read()
		bound := uint64(amplification.Variable)
		if err == nil && value.Elements == nil {
			bound = amplification.Fixed
			if size := value.Tensor.DType().ItemSize(); value.Copied && size > 4 && value.DType != tensorflow.Double {
				bound = varints
			}
		}
		require.NoError(t, value.Close())
		amplification.Require(t, len(data), bound, uint64(limit), func() func() {
			value, err := read()
			if errors.Is(err, tensorflow.ErrLimit) {
				return nil
			}
			return func() { value.Close() }
		})
	}
}
