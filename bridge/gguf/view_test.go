package gguf_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/gguf"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// text is a string of a file: its length and its bytes.
type text string

// array is the beginning of an array of a file: the type of its elements and their number.
type array struct {
	of    uint32
	count uint64
}

// raw returns the bytes of the parts of a file. Strings are unchanged; [text] and numbers are encoded.
func raw(parts ...any) (data []byte) {
	for _, part := range parts {
		switch p := part.(type) {
		case string:
			data = append(data, p...)
		case []byte:
			data = append(data, p...)
		case text:
			data = append(binary.LittleEndian.AppendUint64(data, uint64(len(p))), p...)
		default:
			var err error
			if data, err = binary.Append(data, binary.LittleEndian, p); err != nil {
				panic(err)
			}
		}
	}
	return data
}

// head returns the beginning of a file of version 3, and the parts after it.
func head(tensors, entries uint64, parts ...any) []byte {
	return append(raw("GGUF", uint32(3), tensors, entries), raw(parts...)...)
}

// padded returns the header of a file and a data section of size bytes. Each byte of the data section is its index.
func padded(header []byte, align, size int) []byte {
	data := append(header, make([]byte, -len(header)&(align-1))...)
	for i := range size {
		data = append(data, byte(i))
	}
	return data
}

// numbers of the types of values
const (
	ofUint8  = uint32(0)
	ofUint32 = uint32(4)
	ofBool   = uint32(7)
	ofString = uint32(8)
	ofArray  = uint32(9)
)

// kinds has a value of each Go type of [gguf.Entry], by the number of its type in a file.
var kinds = map[uint32]any{
	0: uint8(200), 1: int8(-2), 2: uint16(60000), 3: int16(-300), 4: uint32(1 << 31), 5: int32(math.MinInt32), 6: float32(1.5), 7: true,
	8: "text", 10: uint64(math.MaxUint64), 11: int64(math.MinInt64), 12: math.Pi,
}

// appendValue appends a value with its type, encoded as DecodeFile decodes it.
func appendValue(data []byte, value any) []byte {
	if kind, list := typeOf(value); list {
		return appendArray(append(data, raw(ofArray)...), value)
	} else if s, ok := value.(string); ok {
		return append(data, raw(kind, text(s))...)
	} else {
		return append(data, raw(kind, value)...)
	}
}

func appendArray(data []byte, value any) []byte {
	kind, _ := typeOf(value)
	data = append(data, raw(array{kind, uint64(reflect.ValueOf(value).Len())})...)
	switch list := value.(type) {
	case []string:
		for _, s := range list {
			data = append(data, raw(text(s))...)
		}
	case []any:
		for _, a := range list {
			data = appendArray(data, a)
		}
	default:
		data = append(data, raw(value)...)
	}
	return data
}

// typeOf returns the number of the type of a value, or of the elements of a list.
func typeOf(value any) (kind uint32, list bool) {
	of := reflect.TypeOf(value)
	if list = of.Kind() == reflect.Slice; list {
		of = of.Elem()
	}
	for kind, example := range kinds {
		if reflect.TypeOf(example) == of {
			return kind, list
		}
	}
	return ofArray, list // of []any
}

// headerOf returns the header of a file with the metadata and tensors of f, whose Offset is counted from byte start of the file.
func headerOf(f *gguf.File, start int64) []byte {
	data := raw("GGUF", uint32(f.Version), uint64(len(f.Tensors)), uint64(len(f.Metadata)))
	for _, e := range f.Metadata {
		data = appendValue(append(data, raw(text(e.Key))...), e.Value)
	}
	for _, v := range f.Tensors {
		dims := slices.Clone(v.Shape)
		slices.Reverse(dims)
		data = append(data, raw(text(v.Name), uint32(len(dims)), dims, uint32(v.DType), uint64(v.Offset-start))...)
	}
	return data
}

// example is a small file with metadata of several types and three tensors.
func example() []byte {
	return padded(head(3, 4,
		text("general.architecture"), ofString, text("llama"),
		text("general.alignment"), ofUint32, uint32(64),
		text("tokens"), ofArray, array{ofString, 3}, text("<s>"), text(""), text("\xff"),
		text("nested"), ofArray, array{ofArray, 2}, array{ofUint8, 2}, "\x01\x02", array{ofBool, 1}, "\x01",
		text("w"), uint32(2), uint64(3), uint64(2), uint32(gguf.F32), uint64(64),
		text("q"), uint32(2), uint64(64), uint64(2), uint32(gguf.Q4_0), uint64(128),
		text("empty"), uint32(1), uint64(0), uint32(gguf.I8), uint64(0),
	), 64, 128+4*18)
}

func TestDecodeFileReturnsMetadataAndDescriptions(t *testing.T) {
	data := example()
	f := must.Do(gguf.DecodeFile(data))(t)
	assert.Equal(t, 3, f.Version)
	assert.Equal(t, int64(64), f.Alignment)
	assert.Equal(t, []gguf.Entry{
		{"general.architecture", "llama"},
		{"general.alignment", uint32(64)},
		{"tokens", []string{"<s>", "", "\xff"}},
		{"nested", []any{[]uint8{1, 2}, []bool{true}}},
	}, f.Metadata)
	value, ok := f.Value("general.architecture")
	assert.True(t, ok)
	assert.Equal(t, "llama", value)
	_, ok = f.Value("general.name")
	assert.False(t, ok)

	start := int64(len(data) - 128 - 4*18)
	v := must.Do(f.Find("w"))(t)
	assert.Equal(t, gguf.View{Name: "w", DType: gguf.F32, Shape: []int64{2, 3}, Offset: start + 64, Data: data[start+64 : start+64+24]}, *v)
	assert.Equal(t, 64, min(v.Alignment(), 64))
	v = must.Do(f.Find("q"))(t)
	assert.Equal(t, gguf.View{Name: "q", DType: gguf.Q4_0, Shape: []int64{2, 64}, Offset: start + 128, Data: data[start+128:]}, *v)
	assert.Empty(t, must.Do(f.Find("empty"))(t).Data)
	_, err := f.Find("x")
	assert.ErrorIs(t, err, elements.ErrNoName)
	assert.EqualError(t, err, `gguf: "x" is not one of the 3 tensors in the file, which begin with ["w" "q" "empty"]: no tensor has this name`)
	var none *gguf.File
	_, err = none.Find("x")
	assert.ErrorIs(t, err, elements.ErrNil)
	_, ok = none.Value("x")
	assert.False(t, ok)
}

func TestEveryTypeOfValueIsRead(t *testing.T) {
	f := &gguf.File{Version: 2}
	for kind := range ofArray + 4 {
		if value, ok := kinds[kind]; ok {
			list := reflect.MakeSlice(reflect.SliceOf(reflect.TypeOf(value)), 0, 3)
			f.Metadata = append(f.Metadata,
				gguf.Entry{fmt.Sprint("one ", kind), value},
				gguf.Entry{fmt.Sprint("none ", kind), list.Interface()},
				gguf.Entry{fmt.Sprint("list ", kind), reflect.Append(list, reflect.ValueOf(value), reflect.Zero(list.Type().Elem())).Interface()})
		}
	}
	deep := any([]uint16{1})
	for range 7 {
		deep = []any{deep}
	}
	f.Metadata = append(f.Metadata, gguf.Entry{"deep", deep}, gguf.Entry{"no arrays", []any{}})
	got := must.Do(gguf.DecodeFile(headerOf(f, 0)))(t)
	assert.Equal(t, f.Metadata, got.Metadata)
	assert.Equal(t, 2, got.Version)
	assert.Equal(t, int64(32), got.Alignment)
}

func TestEveryTypeOfTensorsHasItsSize(t *testing.T) {
	known := 0
	for dtype := range gguf.DType(64) {
		block, size := dtype.Block()
		if block == 0 {
			assert.Zero(t, size)
			assert.Equal(t, fmt.Sprintf("DType(%d)", uint32(dtype)), dtype.String())
			continue
		}
		known++
		data := padded(head(1, 0, text("x"), uint32(3), 2*block, uint64(3), uint64(5), uint32(dtype), uint64(0)), 32, int(30*size))
		v := must.Do(must.Do(gguf.DecodeFile(data))(t).Find("x"))(t)
		assert.Equal(t, []int64{5, 3, 2 * block}, v.Shape)
		assert.Len(t, v.Data, int(30*size), "%v", dtype)
		must.Fail(gguf.DecodeFile(data[:len(data)-1]))(t, elements.ErrTruncated)
		if dt := dtype.DataType(); dt != 0 {
			assert.Equal(t, int64(dt.ItemSize()), size, "%v", dtype)
		} else {
			assert.Greater(t, block, int64(1), "%v", dtype)
		}
	}
	assert.Equal(t, 35, known)
	assert.Equal(t, dlpack.DataType(0), gguf.DType(math.MaxUint32).DataType())
}

// A block has 32 numbers of a byte each, and two float16. The Python package counts two float32.
func TestABlockOfQ8_1HasTheBytesOfGGML(t *testing.T) {
	block, size := gguf.Q8_1.Block()
	assert.Equal(t, []int64{32, 36}, []int64{block, size})
}

// A refusal is a file that DecodeFile refuses.
type refusal struct {
	name string
	data []byte
	at   int64 // the byte of the error
	want error
}

func refusals() []refusal {
	const counts = 24 // bytes before the metadata
	entry := func(parts ...any) []byte { return head(0, 1, raw(parts...), make([]byte, 64)) }
	// tensor returns a file with count tensors and a data section of 64 bytes. parts describe the first tensor.
	tensor := func(count uint64, parts ...any) []byte { return padded(head(count, 0, parts...), 32, 64) }
	name := text("x")
	offset := int64(counts + 8 + 1 + 4 + 8 + 4) // of a tensor with a name of one byte and one dimension
	all := []refusal{
		{"no file", nil, 0, elements.ErrTruncated},
		{"another format", raw("PK\x03\x04", make([]byte, 64)), 0, elements.ErrHeader},
		{"version 1, whose lengths have 32 bits", raw("GGUF", uint32(1), make([]byte, 64)), 4, elements.ErrHeader},
		{"a version of the future", raw("GGUF", uint32(4), make([]byte, 64)), 4, elements.ErrHeader},
		{"a big-endian file", raw("GGUF\x00\x00\x00\x03", make([]byte, 64)), 4, elements.ErrHeader},
		{"2^64-1 tensors", head(math.MaxUint64, 0, make([]byte, 64)), 8, elements.ErrTruncated},
		{"2^64-1 metadata", head(0, math.MaxUint64, make([]byte, 64)), 16, elements.ErrTruncated},
		{"more tensors than the file has room for", head(3, 0, make([]byte, 74-24)), 8, elements.ErrTruncated},
		{"a key of 2^63 bytes", entry(uint64(1<<63), "key"), counts, elements.ErrTruncated},
		{"a key whose end wraps around", entry(uint64(math.MaxUint64-7), "key"), counts, elements.ErrTruncated},
		{"an empty key", entry(text(""), ofUint8, "\x01"), counts, elements.ErrName},
		{"a key of 64 KiB", entry(text(strings.Repeat("k", 1<<16)), ofUint8, "\x01"), counts, elements.ErrName},
		{"a key that is not UTF-8", entry(text("k\xff"), ofUint8, "\x01"), counts, elements.ErrName},
		{"two values of one key", head(0, 2, text("k"), ofUint8, "\x01", text("k"), ofUint8, "\x02", make([]byte, 64)), counts + 14, elements.ErrDuplicate},
		{"an unknown type of a value", entry(name, uint32(13)), counts + 9, elements.ErrHeader},
		{"a bool of 2", entry(name, ofBool, "\x02"), counts + 13, elements.ErrHeader},
		{"a bool of 255 in an array", entry(name, ofArray, array{ofBool, 3}, "\x01\x00\xff"), counts + 9 + 4 + 12 + 2, elements.ErrHeader},
		{"a string of 2^62 bytes", entry(name, ofString, uint64(1<<62), "abc"), counts + 13, elements.ErrTruncated},
		{"an array of 2^30 bytes", entry(name, ofArray, array{ofUint8, 1 << 30}), counts + 17, elements.ErrTruncated},
		{"an array whose size in bytes wraps to 4", entry(name, ofArray, array{ofUint32, 1<<62 + 1}), counts + 17, elements.ErrTruncated},
		{"an array of 2^61 strings", entry(name, ofArray, array{ofString, 1 << 61}), counts + 17, elements.ErrTruncated},
		{"an array of an unknown type without elements", entry(name, ofArray, array{99, 0}), counts + 13, elements.ErrHeader},
		{"an array whose second string claims more than the file", entry(name, ofArray, array{ofString, 2}, text("ok"), uint64(1<<40)),
			counts + 25 + 10, elements.ErrTruncated},
		{"an array of arrays that claim more than the file", entry(name, ofArray, array{ofArray, 2}, array{ofUint8, 0}, array{ofUint8, 1 << 40}),
			counts + 25 + 12 + 4, elements.ErrTruncated},
		{"arrays nested nine deep", entry(name, ofArray, slices.Repeat(raw(array{ofArray, 1}), 8), array{ofUint8, 1}, "\x01"),
			counts + 13 + 8*12, elements.ErrHeader},
		{"an alignment of another type", entry(text("general.alignment"), uint32(10), uint64(32)), counts + 25, elements.ErrHeader},
		{"an alignment of 0", entry(text("general.alignment"), ofUint32, uint32(0)), counts + 25, elements.ErrHeader},
		{"an alignment of 48", entry(text("general.alignment"), ofUint32, uint32(48)), counts + 25, elements.ErrHeader},
		{"an alignment of 2^31", entry(text("general.alignment"), ofUint32, uint32(1<<31)), counts + 25, elements.ErrHeader},
		{"an alignment that is an array", entry(text("general.alignment"), ofArray, array{ofUint32, 1}, uint32(32)), counts + 25, elements.ErrHeader},
		{"a tensor with an empty name", tensor(1, text(""), uint32(0), uint32(gguf.I8), uint64(0)), counts, elements.ErrName},
		{"a name of 65 bytes", tensor(1, text(strings.Repeat("n", 65)), uint32(0), uint32(gguf.I8), uint64(0)), counts, elements.ErrName},
		{"a name that is not UTF-8", tensor(1, text("\xc0\x80"), uint32(0), uint32(gguf.I8), uint64(0)), counts, elements.ErrName},
		{"a name of 2^64-1 bytes", tensor(1, uint64(math.MaxUint64), uint32(0), uint32(gguf.I8), uint64(0)), counts, elements.ErrTruncated},
		{"two tensors of one name", tensor(2, name, uint32(0), uint32(gguf.I8), uint64(0), name, uint32(0), uint32(gguf.I8), uint64(32)),
			counts + 25, elements.ErrDuplicate},
		{"5 dimensions", tensor(1, name, uint32(5), make([]uint64, 5), uint32(gguf.I8), uint64(0)), counts + 9, dlpack.ErrLayout},
		{"2^32-1 dimensions", tensor(1, name, uint32(math.MaxUint32), uint64(1), uint32(gguf.I8), uint64(0)), counts + 9, dlpack.ErrLayout},
		{"a dimension of -1", tensor(1, name, uint32(1), int64(-1), uint32(gguf.I8), uint64(0)), counts + 13, layout.ErrOverflow},
		{"a number of elements that wraps to 0", tensor(1, name, uint32(2), uint64(1<<32), uint64(1<<32), uint32(gguf.I8), uint64(0)),
			counts + 9, layout.ErrOverflow},
		{"a number of bytes that wraps to 4", tensor(1, name, uint32(1), uint64(1<<62+1), uint32(gguf.F32), uint64(0)), counts + 9, layout.ErrOverflow},
		{"sizes that overflow behind a 0", tensor(1, name, uint32(3), uint64(1<<40), uint64(1<<40), uint64(0), uint32(gguf.I8), uint64(0)),
			counts + 9, layout.ErrOverflow},
		{"sizes that overflow before a 0", tensor(1, name, uint32(3), uint64(0), uint64(1<<40), uint64(1<<40), uint32(gguf.I8), uint64(0)),
			counts + 9, layout.ErrOverflow},
		{"an unknown type", tensor(1, name, uint32(1), uint64(4), uint32(43), uint64(0)), counts + 21, elements.ErrDType},
		{"a type that was removed", tensor(1, name, uint32(1), uint64(4), uint32(4), uint64(0)), counts + 21, elements.ErrDType},
		{"half a block", tensor(1, name, uint32(1), uint64(16), uint32(gguf.Q8_0), uint64(0)), counts + 9, elements.ErrSize},
		{"rows of half a block each", tensor(1, name, uint32(2), uint64(16), uint64(2), uint32(gguf.Q8_0), uint64(0)), counts + 9, elements.ErrSize},
		{"a quantised scalar", tensor(1, name, uint32(0), uint32(gguf.Q8_0), uint64(0)), counts + 9, elements.ErrSize},
		{"an offset that is not aligned", tensor(1, name, uint32(1), uint64(4), uint32(gguf.I8), uint64(16)), offset, gguf.ErrOffsets},
		{"an offset beyond the file", tensor(1, name, uint32(1), uint64(4), uint32(gguf.I8), uint64(96)), offset, elements.ErrTruncated},
		{"an offset of 2^64-32, whose end wraps into the header", tensor(1, name, uint32(1), uint64(64), uint32(gguf.I8), uint64(1<<64-32)),
			offset, elements.ErrTruncated},
		{"an offset that is negative beside the beginning of the data", tensor(1, name, uint32(1), uint64(4), uint32(gguf.I8), uint64(1<<63)),
			offset, elements.ErrTruncated},
		{"a tensor of 2^60 bytes", tensor(1, name, uint32(1), uint64(1<<60), uint32(gguf.I8), uint64(0)), offset, elements.ErrTruncated},
		{"a tensor that ends one byte beyond the file", tensor(1, name, uint32(1), uint64(33), uint32(gguf.I8), uint64(32)), offset, elements.ErrTruncated},
		{"an empty tensor beyond the file", tensor(1, name, uint32(1), uint64(0), uint32(gguf.I8), uint64(96)), offset, elements.ErrTruncated},
		{"a data section beyond the file", head(1, 0, name, uint32(1), uint64(0), uint32(gguf.I8), uint64(0)), offset, elements.ErrTruncated},
		{"two tensors in one place", tensor(2, name, uint32(1), uint64(8), uint32(gguf.I8), uint64(0), text("y"), uint32(1), uint64(8), uint32(gguf.I8), uint64(0)),
			offset + 33, gguf.ErrOffsets},
		{"a tensor in the last byte of another, which comes later",
			tensor(2, name, uint32(1), uint64(8), uint32(gguf.I8), uint64(32), text("y"), uint32(1), uint64(33), uint32(gguf.I8), uint64(0)), offset, gguf.ErrOffsets},
		{"an overlap across an empty tensor", tensor(3, name, uint32(1), uint64(64), uint32(gguf.I8), uint64(0),
			text("e"), uint32(1), uint64(0), uint32(gguf.I8), uint64(32), text("y"), uint32(1), uint64(8), uint32(gguf.I8), uint64(32)), offset + 66, gguf.ErrOffsets},
	}
	long := head(0, 1, name, ofArray, array{ofUint8, gguf.MaxHeader})
	return append(all, refusal{"a header of more than the limit", append(long, make([]byte, gguf.MaxHeader)...), counts + 17, gguf.ErrLimit})
}

func TestDecodeFileRefusesMalformedFilesWithTheByte(t *testing.T) {
	for _, tt := range refusals() {
		t.Run(tt.name, func(t *testing.T) {
			_, err := gguf.DecodeFile(tt.data)
			require.ErrorIs(t, err, tt.want)
			var fault *elements.Error
			require.ErrorAs(t, err, &fault)
			assert.Equal(t, "gguf", fault.Format)
			assert.Equal(t, tt.at, fault.Offset, "%v", err)
			assert.Less(t, len(err.Error()), 250)
		})
	}
}

// The file ends with its last tensor, so each shorter file lacks something.
func TestDecodeFileRefusesAFileThatIsCutAtAnyByte(t *testing.T) {
	data := example()
	for n := range data {
		_, err := gguf.DecodeFile(data[:n:n])
		require.ErrorIs(t, err, elements.ErrTruncated, "%d bytes", n)
		var fault *elements.Error
		require.ErrorAs(t, err, &fault)
		assert.LessOrEqual(t, fault.Offset, int64(n))
	}
}

func TestDecodeFileAcceptsGapsAndWhatIsBehindTheTensors(t *testing.T) {
	tensor := func(name text, size, offset uint64) []byte {
		return raw(name, uint32(1), size, uint32(gguf.I8), offset)
	}
	data := padded(head(4, 0, tensor("late", 1, 96), tensor("early", 32, 0), tensor("next", 1, 32), tensor("none", 0, 0)), 32, 200)
	f := must.Do(gguf.DecodeFile(data))(t)
	start := len(data) - 200
	for i, want := range []struct{ at, size int }{{96, 1}, {0, 32}, {32, 1}, {0, 0}} {
		assert.Equal(t, data[start+want.at:][:want.size], f.Tensors[i].Data)
	}
	for align := uint32(1); align <= 1<<20; align *= 2 {
		head := head(1, 1, text("general.alignment"), ofUint32, align, tensor("x", 1, uint64(align)))
		data := padded(head, int(align), int(align)+1)
		f := must.Do(gguf.DecodeFile(data))(t)
		assert.Equal(t, int64(len(data)-1), f.Tensors[0].Offset)
		assert.GreaterOrEqual(t, f.Tensors[0].Alignment(), min(int(align), 4096))
	}
}

// A mapping ends some day, and its bytes may change.
func TestMetadataHaveMemoryOfTheirOwn(t *testing.T) {
	data := example()
	f := must.Do(gguf.DecodeFile(data))(t)
	want := fmt.Sprint(f.Metadata, f.Tensors[0].Name, f.Tensors[0].Shape)
	clear(data)
	assert.Equal(t, want, fmt.Sprint(f.Metadata, f.Tensors[0].Name, f.Tensors[0].Shape))
	value, ok := f.Value("general.architecture")
	assert.True(t, ok)
	assert.Equal(t, "llama", value)
}

func TestTypesAreNamesInLogsAndJSON(t *testing.T) {
	assert.Equal(t, "Q4_K", gguf.Q4_K.LogValue().String())
	assert.Equal(t, "IQ2_XXS", string(must.Do(gguf.IQ2_XXS.MarshalText())(t)))
}

// The tensors of a decoded file lie in the file, aligned and without overlaps, and encoding the result gives the same
// header.
func FuzzDecodeFile(f *testing.F) {
	f.Add(example())
	for _, tt := range refusals() {
		if len(tt.data) < 1<<12 {
			f.Add(tt.data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := gguf.DecodeFile(data)
		if err != nil {
			var fault *elements.Error
			require.ErrorAs(t, err, &fault)
			require.LessOrEqual(t, fault.Offset, int64(len(data)))
			return
		}
		end := len(headerOf(file, 0))
		start := (int64(end) + file.Alignment - 1) &^ (file.Alignment - 1)
		require.Equal(t, data[:end], headerOf(file, start))
		taken := make([]bool, len(data)) // by the header and tensors
		for i := range end {
			taken[i] = true
		}
		for _, v := range file.Tensors {
			require.Zero(t, (v.Offset-start)%file.Alignment)
			block, size := v.DType.Block()
			count := must.Do(layout.Count(v.Shape))(t)
			require.Len(t, v.Data, int(count/block*size))
			for i := range v.Data {
				require.False(t, taken[int(v.Offset)+i])
				taken[int(v.Offset)+i] = true
			}
		}
	})
}
