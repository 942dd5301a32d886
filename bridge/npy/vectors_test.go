//go:build cgo

package npy_test

import (
	"bytes"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/npy"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/vectors"
)

// manifest is the manifest of the files that NumPy wrote.
type manifest struct {
	vectors.Folder
	Arrays   []array
	Refused  []struct{ File, Type string }
	Archives []struct {
		File  string
		Names []string
	}
}

type array struct {
	File, Type, DType, Hex string
	Shape                  []int64
	Fortran                bool
}

// array returns the array of a file.
func (m manifest) array(file string) (a array, ok bool) {
	i := slices.IndexFunc(m.Arrays, func(a array) bool { return a.File == file })
	if i < 0 {
		return a, false
	}
	return m.Arrays[i], true
}

func manifests(t testing.TB) []manifest { return vectors.Read[manifest](t, "npy") }

// address returns the address of the first byte of a slice.
func address(data []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(data))) }

// inC returns a file in memory that is not Go's. The first byte is aligned.
func inC(t testing.TB, data []byte) *dlpack.Tensor {
	source := must.Own(dlpack.New(dlpack.Uint8, int64(len(data))))(t)
	require.NoError(t, dlpack.Use(source, func(to []byte) error { copy(to, data); return nil }))
	return source
}

func TestFilesOfNumPyAreReadInPlace(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, m := range manifests(t) {
		for _, v := range m.Arrays {
			t.Run(v.File, func(t *testing.T) {
				data := m.File(t, v.File)
				f := must.Do(npy.DecodeFile(data))(t)
				require.Len(t, f.Tensors, 1)
				d := f.Tensors[0]
				want := must.Do(hex.DecodeString(v.Hex))(t)
				assert.Equal(t, v.Type, d.Type)
				assert.Equal(t, v.Fortran, d.Fortran)
				assert.Equal(t, strings.HasPrefix(v.Type, ">"), d.BigEndian)
				assert.Equal(t, data[d.Offset:], d.Data)
				assert.Equal(t, int64(len(want)), d.Size)
				assert.GreaterOrEqual(t, d.Alignment(), 64)

				var options []npy.DecodeOption
				shape := v.Shape
				dtype, err := dlpack.ParseDataType(v.DType)
				switch {
				case v.DType == "void":
					dtype, shape = dlpack.Uint8, append(shape, 5)
				case strings.HasPrefix(v.Type, "<V"):
					options = append(options, npy.As(dtype))
					fallthrough
				default:
					require.NoError(t, err)
				}
				source := inC(t, data)
				for where, x := range map[string]*dlpack.Tensor{
					"in Go":     must.Own(npy.Decode(data, options...))(t),
					"elsewhere": must.Own(npy.DecodeFrom(source, options...))(t),
				} {
					assert.Equal(t, dtype, x.DType(), where)
					assert.Equal(t, shape, x.Shape(), where)
					assert.Equal(t, want, must.Do(x.AppendBytes([]byte{}))(t), where)
					assert.Equal(t, d.BigEndian, x.Flags()&dlpack.IsCopied != 0, where)
					assert.Equal(t, where == "in Go" && !d.BigEndian, x.ReadOnly(), where)
					if !d.BigEndian && d.Size > 0 {
						start := source.Data()
						if where == "in Go" {
							start = address(data)
						}
						assert.Equal(t, start+uintptr(d.Offset), x.Data(), where)
					}
					if v.DType != "void" && !d.BigEndian && !strings.HasPrefix(v.File, "version") {
						readable := bytes.Replace(data, []byte("<f1"), []byte("<V1"), 1) // NumPy cannot read its own "<f1"
						assert.Equal(t, readable, must.Do(npy.AppendTensor(nil, x))(t), "written again, %s", where)
					}
				}
			})
		}
	}
}

func TestTypesThatNumPyNamesNotAreBytesUntilTheyAreNamed(t *testing.T) {
	for _, m := range manifests(t) {
		for _, v := range m.Arrays {
			f := must.Do(npy.DecodeFile(m.File(t, v.File)))(t)
			d := f.Tensors[0]
			if !strings.HasPrefix(v.Type, "<V") {
				must.Fail(d.As(dlpack.BFloat16))(t, elements.ErrDType)
				continue
			}
			size := must.Do(strconv.ParseInt(v.Type[2:], 10, 64))(t)
			assert.Equal(t, dlpack.Uint8, d.DType)
			assert.Equal(t, append(v.Shape, size), d.Shape)
			must.Fail(d.As(dlpack.Float32))(t, elements.ErrDType)
			must.Fail(d.As(0))(t, dlpack.ErrDType)
			x := must.Own(npy.Decode(m.File(t, v.File)))(t)
			assert.Equal(t, v.Hex, hex.EncodeToString(must.Do(x.AppendBytes(nil))(t)))
		}
	}
}

func TestArraysThatDLPackLacksAreRefusedByName(t *testing.T) {
	says := map[string]string{
		"objects.npy": "pickles are never read", "unicode.npy": "unicode texts", "bytes.npy": "byte strings", "dates.npy": "datetime64",
		"durations.npy": "timedelta64", "records.npy": "the array is structured", "longdouble.npy": "DLPack has no such type",
		"clongdouble.npy": "DLPack has no such type",
	}
	for _, m := range manifests(t) {
		for _, v := range m.Refused {
			_, err := npy.DecodeFile(m.File(t, v.File))
			require.ErrorIs(t, err, elements.ErrDType, v.File)
			assert.ErrorContains(t, err, "npy: byte 20: ", v.File)
			assert.ErrorContains(t, err, says[v.File], v.File)
		}
	}
}

// NumPy wrote the files from arrays in these layouts.
func TestTensorsInAnyLayoutAreWrittenAsNumPyWritesThem(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	numbers := make([]int32, 24)
	for i := range numbers {
		numbers[i] = int32(i)
	}
	base := must.Own(dlpack.FromSlice(numbers))(t)
	three := must.Own(dlpack.FromSlice([]int64{0, 1, 2}))(t)
	zeros := must.Own(dlpack.New(dlpack.Uint8, 100, 1000))(t)
	tests := []struct {
		file string
		base *dlpack.Tensor
		spec dlpack.Spec
	}{
		{"transposed.npy", base, dlpack.Spec{DType: dlpack.Int32, Shape: []int64{3, 2, 4}, Strides: []int64{4, 12, 1}}},
		{"reversed.npy", base, dlpack.Spec{DType: dlpack.Int32, Shape: []int64{2, 3, 4}, Strides: []int64{12, -4, 1}, ByteOffset: 32}},
		{"every-second.npy", base, dlpack.Spec{DType: dlpack.Int32, Shape: []int64{2, 3, 2}, Strides: []int64{12, 4, 2}}},
		{"broadcast.npy", three, dlpack.Spec{DType: dlpack.Int64, Shape: []int64{2, 3}, Strides: []int64{0, 1}}},
		{"large.npy", zeros, dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{3, 250}, Strides: []int64{1000, 4}}},
	}
	for _, m := range manifests(t) {
		for _, test := range tests {
			t.Run(test.file, func(t *testing.T) {
				x := must.Own(test.base.View(test.spec))(t)
				want := m.File(t, test.file)
				assert.Equal(t, want, must.Do(npy.AppendTensor(nil, x))(t))
				assert.Equal(t, int64(len(want)), must.Do(npy.SizeTensor(x))(t))
				var out bytes.Buffer
				require.NoError(t, npy.WriteTensor(&out, x))
				assert.Equal(t, want, out.Bytes())
			})
		}
	}
}
