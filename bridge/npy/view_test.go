package npy_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/npy"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// file returns an npy file of version 1.0 with a header and size bytes of elements.
func file(header string, size int) []byte {
	data := append([]byte("\x93NUMPY\x01\x00"), byte(len(header)), byte(len(header)>>8))
	return append(append(data, header...), make([]byte, size)...)
}

// file2 is file for a version with a size of 4 bytes, which may be wrong.
func file2(version byte, n uint32, header string, size int) []byte {
	data := binary.LittleEndian.AppendUint32([]byte{0x93, 'N', 'U', 'M', 'P', 'Y', version, 0}, n)
	return append(append(data, header...), make([]byte, size)...)
}

// dict returns a header with a type, a shape and the order of NumPy.
func dict(descr, shape string) string {
	return "{'descr': " + descr + ", 'fortran_order': False, 'shape': " + shape + ", }\n"
}

func TestHeadersThatOthersWriteAreRead(t *testing.T) {
	tests := []struct {
		name, header string
		dtype        dlpack.DataType
		shape        []int64
		fortran      bool
	}{
		{"keys in another order", "{'shape': (2, 3), 'fortran_order': True, 'descr': '<i2'}", dlpack.Int16, []int64{2, 3}, true},
		{"no spaces", "{'descr':'<f4','fortran_order':False,'shape':(1,3)}", dlpack.Float32, []int64{1, 3}, false},
		{"many spaces", "{ 'descr' : \"<f4\" , 'fortran_order' : False , 'shape' : ( 1 , 3 , ) , }   \n\n", dlpack.Float32, []int64{1, 3}, false},
		{"a byte order for a byte", dict("'<i1'", "(12,)"), dlpack.Int8, []int64{12}, false},
		{"a big-endian byte", dict("'>b1'", "(12,)"), dlpack.Bool, []int64{12}, false},
		{"no elements", dict("'<f8'", "(0, 3)"), dlpack.Float64, []int64{0, 3}, false},
		{"64 dimensions", dict("'<i4'", "("+strings.Repeat("1, ", 63)+"3)"), dlpack.Int32, append(ones(63), 3), false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			size := int64(test.dtype.ItemSize())
			for _, n := range test.shape {
				size *= n
			}
			for _, data := range [][]byte{
				file(test.header, int(size)), file2(2, uint32(len(test.header)), test.header, int(size)), file2(3, uint32(len(test.header)), test.header, int(size)),
			} {
				d := must.Do(npy.DecodeFile(data))(t).Tensors[0]
				assert.Equal(t, test.dtype, d.DType)
				assert.Equal(t, test.shape, d.Shape)
				assert.Equal(t, test.fortran, d.Fortran)
				assert.False(t, d.BigEndian)
				assert.Equal(t, size, d.Size)
				assert.Equal(t, int64(len(data))-size, d.Offset)
			}
		})
	}
}

func ones(n int) []int64 {
	dims := make([]int64, n)
	for i := range dims {
		dims[i] = 1
	}
	return dims
}

func TestDataThatIsNotAlignedSaysSo(t *testing.T) {
	for pad := range 16 {
		data := file(dict("'<c16'", "(1,)")+strings.Repeat(" ", pad), 16)
		d := must.Do(npy.DecodeFile(data))(t).Tensors[0]
		assert.Equal(t, (len(data)-16)%8 == 0, d.Alignment() >= 8)
	}
}

func TestMalformedFilesAreRefusedAtTheirByte(t *testing.T) {
	f4 := dict("'<f4'", "(3,)")
	tests := []struct {
		name string
		data []byte
		at   int64
		want error
	}{
		{"nothing", nil, 0, elements.ErrTruncated},
		{"another file", []byte("PK\x03\x04 and so on"), 0, npy.ErrMagic},
		{"version 4", file2(4, 10, f4, 12), 6, npy.ErrMagic},
		{"version 1.1", append([]byte("\x93NUMPY\x01\x01"), file(f4, 12)[8:]...), 6, npy.ErrMagic},
		{"a header of 4 GiB", file2(2, math.MaxUint32, f4, 12), 8, elements.ErrHeader},
		{"a header of more than 64 KiB", file2(3, 65537, strings.Repeat(" ", 65537), 0), 8, elements.ErrHeader},
		{"a header beyond the file", file2(2, 65536, f4, 12), 8, elements.ErrTruncated},
		{"no header", file("", 12), 10, elements.ErrHeader},
		{"no dictionary", file("['descr']", 12), 10, elements.ErrHeader},
		{"a space before the dictionary", file(" "+f4, 12), 10, elements.ErrHeader},
		{"no end", file(f4[:50], 12), 60, elements.ErrHeader},
		{"a string without an end", file("{'descr: <f4}", 12), 11, elements.ErrHeader},
		{"an escape in a key", file(`{'d\x65scr': '<f4'}`, 12), 13, elements.ErrHeader},
		{"an escape in a type", file(dict(`'\x3cf4'`, "(3,)"), 12), 21, elements.ErrHeader},
		{"a key of no string", file("{descr: '<f4'}", 12), 11, elements.ErrHeader},
		{"a raw string", file("{r'descr': '<f4'}", 12), 11, elements.ErrHeader},
		{"no colon", file("{'descr' '<f4'}", 12), 19, elements.ErrHeader},
		{"no comma", file("{'descr': '<f4' 'shape': (3,)}", 12), 26, elements.ErrHeader},
		{"two commas", file("{'descr': '<f4',, 'shape': (3,)}", 12), 26, elements.ErrHeader},
		{"adjacent strings", file(dict("'<' 'f4'", "(3,)"), 12), 20, elements.ErrDType},
		{"a comment", file("{'descr': '<f4', # four\n'shape': (3,)}", 12), 27, elements.ErrHeader},
		{"a tab", file("{\t'descr': '<f4', 'shape': (3,)}", 12), 11, elements.ErrHeader},
		{"a key twice", file("{'shape': (3,), 'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", 12), 66, elements.ErrHeader},
		{"a key that NumPy does not know", file("{'descr': '<f4', 'order': 'C'}", 12), 27, elements.ErrHeader},
		{"no shape", file("{'descr': '<f4', 'fortran_order': False}", 12), 50, elements.ErrHeader},
		{"no type", file("{'fortran_order': False, 'shape': (3,)}", 12), 49, elements.ErrHeader},
		{"no keys", file("{}", 12), 12, elements.ErrHeader},
		{"bytes after the dictionary", file(strings.TrimSpace(f4)+"  x", 12), 10 + int64(len(f4)) + 1, elements.ErrHeader},
		{"an order that is no bool", file("{'fortran_order': 0, 'descr': '<f4', 'shape': (3,)}", 12), 28, elements.ErrHeader},
		{"an order with a longer name", file("{'fortran_order': Falsey, 'descr': '<f4', 'shape': (3,)}", 12), 33, elements.ErrHeader},
		{"a number as a type", file(dict("4", "(3,)"), 12), 20, elements.ErrHeader},
		{"None as a type", file(dict("None", "(3,)"), 12), 20, elements.ErrHeader},
		{"records", file(dict("[('a', '<f4')]", "(3,)"), 12), 20, elements.ErrDType},
		{"arrays in arrays", file(dict("('<f4', (3,))", "(1,)"), 12), 20, elements.ErrDType},
		{"objects", file(dict("'|O'", "(3,)"), 12), 20, elements.ErrDType},
		{"a name of a type", file(dict("'float32'", "(3,)"), 12), 20, elements.ErrDType},
		{"a letter as a type", file(dict("'f'", "(3,)"), 12), 20, elements.ErrDType},
		{"native order", file(dict("'=f4'", "(3,)"), 12), 20, elements.ErrDType},
		{"a type without its order", file(dict("'|f4'", "(3,)"), 12), 20, elements.ErrDType},
		{"a size that there is not", file(dict("'<f3'", "(4,)"), 12), 20, elements.ErrDType},
		{"a size with a zero before it", file(dict("'<f04'", "(3,)"), 12), 20, elements.ErrDType},
		{"no size", file(dict("'<f'", "(3,)"), 12), 20, elements.ErrDType},
		{"an empty type", file(dict("''", "(3,)"), 12), 20, elements.ErrDType},
		{"bytes of no size", file(dict("'|V0'", "(3,)"), 0), 20, elements.ErrDType},
		{"bytes of a huge size", file(dict("'|V99999999999999999999'", "(3,)"), 12), 20, elements.ErrDType},
		{"big-endian bytes", file(dict("'>V4'", "(3,)"), 12), 20, elements.ErrDType},
		{"a type with an escape of another file", file(dict("'<f4\n'", "(3,)"), 12), 24, elements.ErrHeader},
		{"no tuple", file(dict("'<f4'", "3"), 12), 60, elements.ErrHeader},
		{"a list", file(dict("'<f4'", "[3]"), 12), 60, elements.ErrHeader},
		{"a number in parentheses", file(dict("'<f4'", "(3)"), 12), 60, elements.ErrHeader},
		{"only a comma", file(dict("'<f4'", "(,)"), 12), 61, elements.ErrHeader},
		{"a comma too many", file(dict("'<f4'", "(3,,)"), 12), 63, elements.ErrHeader},
		{"a missing comma", file(dict("'<f4'", "(1 3)"), 12), 63, elements.ErrHeader},
		{"a negative size", file(dict("'<f4'", "(-3,)"), 12), 61, layout.ErrNegative},
		{"two negative sizes", file(dict("'<f4'", "(1, -1, -3)"), 12), 64, layout.ErrNegative},
		{"a minus", file(dict("'<f4'", "(-,)"), 12), 62, elements.ErrHeader},
		{"a plus", file(dict("'<f4'", "(+3,)"), 12), 61, elements.ErrHeader},
		{"an octal number", file(dict("'<f4'", "(03,)"), 12), 61, elements.ErrHeader},
		{"a hexadecimal number", file(dict("'<f4'", "(0x3,)"), 12), 62, elements.ErrHeader},
		{"a number with an underscore", file(dict("'<f4'", "(1_0,)"), 40), 62, elements.ErrHeader},
		{"a long of Python 2", file(dict("'<f4'", "(3L,)"), 12), 62, elements.ErrHeader},
		{"a float", file(dict("'<f4'", "(3.0,)"), 12), 62, elements.ErrHeader},
		{"a bool as a size", file(dict("'<f4'", "(True,)"), 12), 61, elements.ErrHeader},
		{"a size of 2^63", file(dict("'|i1'", "(9223372036854775808,)"), 12), 61, layout.ErrOverflow},
		{"a number of a hundred digits", file(dict("'|i1'", "(1"+strings.Repeat("0", 100)+",)"), 12), 61, layout.ErrOverflow},
		{"2^64 elements", file(dict("'|i1'", "(4294967296, 4294967296)"), 12), 60, layout.ErrOverflow},
		{"2^60 elements of 16 bytes", file(dict("'<c16'", "(1152921504606846976,)"), 12), 61, layout.ErrOverflow},
		{"strides that overflow beside a 0", file(dict("'|i1'", "(0, 4294967296, 4294967296)"), 0), 60, layout.ErrOverflow},
		{"bytes of each element that overflow", file(dict("'|V2147483647'", "(4294967296, 2)"), 0), 69, layout.ErrOverflow},
		{"65 dimensions", file(dict("'<f4'", "("+strings.Repeat("1, ", 64)+"3)"), 12), 61 + 64*3, npy.ErrRank},
		{"dimensions that fill the header", file(dict("'<f4'", "("+strings.Repeat("1,", 30000)+")"), 12), 61 + 64*2, npy.ErrRank},
		{"elements that are missing", file(f4, 11), 10 + int64(len(f4)) + 11, elements.ErrTruncated},
		{"elements beyond the file", file(dict("'<f4'", "(1000000000000,)"), 12), 92, elements.ErrTruncated},
		{"a byte after the elements", file(f4, 13), 10 + int64(len(f4)) + 12, npy.ErrTrailing},
		{"a scalar of two numbers", file(dict("'<f4'", "()"), 8), 10 + int64(len(dict("'<f4'", "()"))) + 4, npy.ErrTrailing},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := npy.DecodeFile(test.data)
			var fail *elements.Error
			require.ErrorAs(t, err, &fail)
			require.ErrorIs(t, err, test.want)
			assert.Equal(t, test.at, fail.Offset, err)
			assert.Less(t, len(err.Error()), 400)
		})
	}
}

func TestEachTruncationIsRefused(t *testing.T) {
	header := dict("'<f4'", "(3,)")
	for _, data := range [][]byte{file(header, 12), file2(2, uint32(len(header)), header, 12)} {
		must.Do(npy.DecodeFile(data))(t)
		for n := range data {
			_, err := npy.DecodeFile(data[:n:n])
			var fail *elements.Error
			require.ErrorAs(t, err, &fail)
			require.ErrorIs(t, err, elements.ErrTruncated, "%d", n)
			require.LessOrEqual(t, fail.Offset, int64(n))
		}
	}
}

func TestHeadersThatCannotBeWritten(t *testing.T) {
	before := []byte("before")
	tests := []struct {
		name  string
		dtype dlpack.DataType
		shape []int64
		want  error
	}{
		{"complex32", dlpack.Complex32, nil, elements.ErrDType},
		{"handles", dlpack.OpaqueHandle64, nil, elements.ErrDType},
		{"lanes", dlpack.MakeDataType(dlpack.CodeFloat, 32, 4), nil, elements.ErrDType},
		{"no type", 0, nil, dlpack.ErrDType},
		{"65 dimensions", dlpack.Int8, ones(65), npy.ErrRank},
		{"a negative size", dlpack.Int8, []int64{-1}, layout.ErrNegative},
		{"2^64 elements", dlpack.Int8, []int64{1 << 32, 1 << 32}, layout.ErrOverflow},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			out, err := npy.AppendHeader(before, test.dtype, test.shape, false)
			require.ErrorIs(t, err, test.want)
			assert.Equal(t, before, out)
		})
	}
}

// NumPy adds 64 spaces where none are needed.
func TestHeadersThatNeedNoSpacesHaveThem(t *testing.T) {
	for rank := range 65 {
		shape := ones(rank)
		data := must.Do(npy.AppendHeader(nil, dlpack.Int8, shape, false))(t)
		require.Zero(t, len(data)%64)
		d := must.Do(npy.DecodeFile(append(data, 7)))(t).Tensors[0]
		require.Equal(t, shape, d.Shape)
		spaces := len(data) - 1 - len(bytes.TrimRight(data[:len(data)-1], " "))
		if rank > 0 {
			spaces -= 20
		}
		require.GreaterOrEqual(t, spaces, 1)
		require.LessOrEqual(t, spaces, 64)
	}
}
