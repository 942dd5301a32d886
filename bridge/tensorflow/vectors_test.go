package tensorflow_test

import (
	"encoding/hex"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/tensorflow"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/vectors"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// manifest is a manifest of TensorFlow vectors, without the parts that package layout reads.
type manifest struct {
	vectors.Folder
	DTypes []struct {
		Enum            int32
		String          string
		BytesPerElement int `json:"bytes_per_element"`
		DLPack          *struct{ Code, Bits uint8 }
	}
	Tensors []struct {
		ID, File   string
		DType      int32
		Shape      []int64
		DataHex    *string  `json:"data_hex"`
		StringsHex []string `json:"strings_hex"`
		Writers    map[string]string
	}
	Malformed []struct {
		ID, File, Class, Expect string
		Value                   *struct {
			DType int32
			Shape []int64
			Data  string
		}
	}
	Compress []struct {
		ID          string
		File        string
		ResultFile  string  `json:"result_file"`
		MinElements int64   `json:"min_elements"`
		MinRatio    float64 `json:"min_ratio"`
		Compressed  bool
	}
	ShapeProtos []struct {
		ID, File           string
		PartialTensorShape struct {
			IsValid bool `json:"is_valid"`
			Shape   []int64
			Text    string
			Proto   string
		}
	} `json:"shape_protos"`
	Slices struct {
		Parse []struct {
			Input, Text, Error, Proto string
			Starts, Lengths, Ends     []int64
			Full                      bool
		}
		Proto []struct {
			ID, Hex          string
			BuildTensorSlice struct {
				Error, Text, Proto    string
				Starts, Lengths, Ends []int64
				Full                  bool
			}
		}
		Intersect []struct {
			A, B     string
			Overlaps bool
			Result   *string
		}
		Shape []struct {
			Slice string
			Shape []int64
			Error string
		}
		Relative []struct{ Base, Sub, Relative string }
		Cover    []struct{ A, B, Result string }
		Equal    []struct {
			A, B  string
			Equal bool
		}
		Extend []struct {
			Slice, Result string
			Rank          int
		}
		Fill []struct {
			Slice          string
			Shape          []int64
			NDims          int
			Indices, Sizes []int64
		}
	}
}

func manifests(t testing.TB) []manifest {
	all := vectors.Read[manifest](t, "tensorflow")
	require.Equal(t, 31, len(all[0].DTypes))
	require.Equal(t, 119, len(all[0].Tensors))
	require.Equal(t, 21, len(all[0].Malformed))
	require.NotEmpty(t, all[0].Compress)
	require.NotEmpty(t, all[0].ShapeProtos)
	require.NotEmpty(t, all[0].Slices.Proto)
	return all
}

func unhex(t testing.TB, text string) []byte {
	return must.Do(hex.DecodeString(text))(t)
}

// masked returns the elements with only the bits that count for types of less than a byte.
func masked(dtype tensorflow.DType, data []byte) []byte {
	bits := dtype.Storage().Bits()
	if bits >= 8 {
		return data
	}
	out := make([]byte, len(data))
	for i, b := range data {
		out[i] = b & (1<<bits - 1)
	}
	return out
}

func aliases(outer, inner []byte) bool {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(inner)))
	from := uintptr(unsafe.Pointer(unsafe.SliceData(outer)))
	return at >= from && at+uintptr(len(inner)) <= from+uintptr(len(outer))
}

func TestDTypesAreThoseOfTheTable(t *testing.T) {
	for _, m := range manifests(t) {
		for _, want := range m.DTypes {
			d := tensorflow.DType(want.Enum)
			assert.Equal(t, want.String, d.String())
			parsed := must.Do(tensorflow.ParseDType(want.String))(t)
			assert.Equal(t, d, parsed)
			assert.Equal(t, want.BytesPerElement, d.Storage().ItemSize(), d)
			if want.DLPack != nil {
				assert.Equal(t, want.DLPack.Code, uint8(d.DataType().Code()), d)
				assert.Equal(t, want.DLPack.Bits, d.DataType().Bits(), d)
			}
			if dt := d.DataType(); dt != 0 {
				back := must.Do(tensorflow.DTypeOf(dt))(t)
				assert.Equal(t, d, back)
			}
		}
		for _, none := range []int32{-1, 0, 34, 101} {
			assert.Zero(t, tensorflow.DType(none).DataType())
			assert.Zero(t, tensorflow.DType(none).Storage())
			assert.Contains(t, tensorflow.DType(none).String(), "dtype ")
		}
		must.Fail(tensorflow.ParseDType("float32"))(t, elements.ErrDType)
	}
}

func TestVectorsAreReadAsTheirValues(t *testing.T) {
	for _, m := range manifests(t) {
		for _, v := range m.Tensors {
			t.Run(v.ID, func(t *testing.T) {
				data := m.File(t, v.File)
				view := must.Do(tensorflow.DecodeView(data))(t)
				assert.Equal(t, tensorflow.DType(v.DType), view.DType)
				assert.Equal(t, append([]int64{}, v.Shape...), append([]int64{}, view.Shape...))
				if v.DataHex == nil {
					require.NotNil(t, view.Elements)
					require.NoError(t, view.Elements.Validate())
					assert.Equal(t, "string", view.Elements.Type)
					var got []string
					for _, value := range view.Elements.Values {
						got = append(got, hex.EncodeToString(value))
						assert.True(t, len(value) == 0 || aliases(data, value), "the same memory")
					}
					assert.Equal(t, append([]string{}, v.StringsHex...), append([]string{}, got...))
					return
				}
				require.Nil(t, view.Elements)
				assert.Equal(t, *v.DataHex, hex.EncodeToString(masked(view.DType, view.Data)))
				assert.Equal(t, view.Aliases, len(view.Data) > 0 && aliases(data, view.Data), "the same memory exactly where it says so")
			})
		}
	}
}

// This package can encode a tensor in every form of TensorFlow, byte for byte.
func TestVectorsAreWrittenByteForByte(t *testing.T) {
	for _, m := range manifests(t) {
		for _, v := range m.Tensors {
			t.Run(v.ID, func(t *testing.T) {
				view := must.Do(tensorflow.DecodeView(m.File(t, v.File)))(t)
				content := must.Do(view.Append(nil, tensorflow.Content()))(t)
				assert.Equal(t, v.Writers["AsProtoTensorContent_hex"], hex.EncodeToString(content))
				fields := must.Do(view.Append(nil, tensorflow.Fields()))(t)
				assert.Equal(t, v.Writers["AsProtoField_hex"], hex.EncodeToString(fields))
				if python, ok := v.Writers["make_tensor_proto_hex"]; ok {
					assert.Contains(t, []string{hex.EncodeToString(content), hex.EncodeToString(fields)}, python)
				}
				plain := must.Do(view.Append(nil))(t)
				if v.DataHex != nil {
					assert.Equal(t, content, plain)
				} else {
					assert.Equal(t, fields, plain)
				}
			})
		}
	}
}

// Compress(1, 1) encodes the files without repeated values again. Integers and floats of less than four bytes are
// excluded, because TensorFlow prefers tensor_content for them.
func TestRepeatedValuesAreLeftOutAgain(t *testing.T) {
	seen := 0
	for _, m := range manifests(t) {
		for _, v := range m.Tensors {
			data := m.File(t, v.File)
			view := must.Do(tensorflow.DecodeView(data))(t)
			small := view.DType.Storage().ItemSize() < 4 && view.DType.Storage().Code() <= dlpack.CodeBFloat
			if v.ID[:4] == "wire" || view.Elements != nil || view.Aliases || len(view.Data) == 0 || small {
				continue
			}
			out := must.Do(view.Append(nil, tensorflow.Fields(), tensorflow.Compress(1, 1)))(t)
			assert.Equal(t, hex.EncodeToString(data), hex.EncodeToString(out), v.ID)
			seen++
		}
	}
	assert.Greater(t, seen, 10)
}

func TestCompressIsTensorFlowsCompression(t *testing.T) {
	for _, m := range manifests(t) {
		for _, v := range m.Compress {
			t.Run(v.ID, func(t *testing.T) {
				data := m.File(t, v.File)
				view := must.Do(tensorflow.DecodeView(data))(t)
				form := tensorflow.Content()
				if fields, err := view.Append(nil, tensorflow.Fields()); err == nil && string(fields) == string(data) {
					form = tensorflow.Fields()
				}
				out := must.Do(view.Append(nil, form, tensorflow.Compress(v.MinElements, v.MinRatio)))(t)
				assert.Equal(t, hex.EncodeToString(m.File(t, v.ResultFile)), hex.EncodeToString(out))
				assert.Equal(t, v.Compressed, len(out) < len(data))
				again := must.Do(tensorflow.DecodeView(out))(t)
				assert.Equal(t, view.Data, again.Data)
			})
		}
	}
}

func TestMalformedVectorsAreRefusedAndSayWhere(t *testing.T) {
	for _, m := range manifests(t) {
		causes := map[string]error{
			"truncated":       tensorflow.ErrWire,
			"wire":            tensorflow.ErrWire,
			"content_size":    elements.ErrSize,
			"negative_dim":    layout.ErrNegative,
			"overflow":        layout.ErrOverflow,
			"bad_dtype":       elements.ErrDType,
			"too_many_values": tensorflow.ErrCount,
			"value_range":     dlpack.ErrValue,
			"unknown_rank":    tensorflow.ErrRank,
			"huge":            tensorflow.ErrLimit,
			"utf8":            tensorflow.ErrText,
		}
		for _, v := range m.Malformed {
			t.Run(v.ID, func(t *testing.T) {
				data := m.File(t, v.File)
				_, err := tensorflow.DecodeView(data)
				var where *elements.Error
				require.ErrorAs(t, err, &where)
				assert.LessOrEqual(t, where.Offset, int64(len(data)))
				assert.GreaterOrEqual(t, where.Offset, int64(0))
				assert.NotEmpty(t, where.Where)
				require.Contains(t, causes, v.Class)
				assert.ErrorIs(t, err, causes[v.Class])

				view, err := tensorflow.DecodeView(data, tensorflow.Lenient())
				if v.Expect != "either" || v.Class == "utf8" {
					assert.Error(t, err)
					return
				}
				require.NoError(t, err)
				assert.Equal(t, tensorflow.DType(v.Value.DType), view.DType)
				assert.Equal(t, append([]int64{}, v.Value.Shape...), append([]int64{}, view.Shape...))
				assert.Equal(t, v.Value.Data, hex.EncodeToString(view.Data))
			})
		}
	}
}
