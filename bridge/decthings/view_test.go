package decthings_test

import (
	"bytes"
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/decthings"
	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

func ExampleDecodeView() {
	v, err := decthings.DecodeView([]byte("\x0b\x01\x02\x05hello\x08, world!"), decthings.Doc)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%v %q\n", v.Elements, v.Elements.Values)
	_, err = decthings.DecodeView([]byte("\x07\x01\x03\x01"), decthings.Doc)
	fmt.Println(err)
	// Output:
	// string[2] ["hello" ", world!"]
	// decthings: byte 3: u8[3] needs 3 elements of 1 bytes, but only 1 bytes are left: cut short
}

func ExampleView_DecodeFirst() {
	var v decthings.View
	for data := []byte{7, 0, 42, 4, 1, 2, 1, 0, 2, 0}; len(data) > 0; {
		n, err := v.DecodeFirst(data, decthings.Doc)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(v.Type, v.Shape, v.Data)
		data = data[n:]
	}
	// Output:
	// u8 [] [42]
	// i16 [2] [1 0 2 0]
}

func ExampleView_Append() {
	v := decthings.View{Type: decthings.Boolean, Shape: []int64{3}, Data: []byte{1, 0, 1}}
	data, err := v.Append(nil, decthings.Doc)
	fmt.Println(data, err)
	// Output: [13 1 3 1 0 1] <nil>
}

func ExampleAppendHeader() {
	pixels := make([]byte, 640*480)
	header, err := decthings.AppendHeader(nil, decthings.U8, []int64{480, 640})
	if err != nil {
		fmt.Println(err)
		return
	}
	frame := [][]byte{header, pixels} // for example for one call of writev
	fmt.Println(frame[0])
	// Output: [7 2 253 1 224 253 2 128]
}

func ExampleAppendElements() {
	e := &elements.Elements{Type: "image", Values: [][]byte{{0x89, 'P'}}, Formats: []string{"png"}}
	for _, d := range []decthings.Dialect{decthings.Doc, decthings.Py004, decthings.Rs015} {
		data, err := decthings.AppendElements(nil, e, d)
		size, _ := decthings.SizeElements(e, d)
		fmt.Printf("%v %q %d %v\n", d, data, size, err)
	}
	// Output:
	// doc "\x0e\x00\x05png\x89P" 8 <nil>
	// py004 "\x0e\x00\x06\x05png\x89P" 9 <nil>
	// rs015 "\x0e\x00\a\x06\x03png\x89P" 10 <nil>
}

func TestTypesAndDialectsHaveNames(t *testing.T) {
	names := []string{"f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "string", "binary", "boolean", "image", "audio", "video"}
	for i, name := range names {
		what := decthings.Type(i + 1)
		assert.Equal(t, name, what.String())
		parsed := must.Do(decthings.ParseType(name))(t)
		assert.Equal(t, what, parsed)
		if dt := what.DataType(); dt != 0 {
			back := must.Do(decthings.TypeOf(dt))(t)
			assert.Equal(t, what, back)
		}
	}
	for _, none := range []decthings.Type{0, 17, 255} {
		assert.Zero(t, none.DataType())
		must.Fail(decthings.ParseType(none.String()))(t, decthings.ErrType)
	}
	must.Fail(decthings.ParseType(""))(t, decthings.ErrType)
	for _, dt := range []dlpack.DataType{0, dlpack.Float16, dlpack.BFloat16, dlpack.Complex64, dlpack.Int4, dlpack.MakeDataType(dlpack.CodeFloat, 32, 2)} {
		_, err := decthings.TypeOf(dt)
		assert.ErrorIs(t, err, elements.ErrDType, "%v", dt)
	}
	must.Fail(decthings.ParseDialect("py"))(t, decthings.ErrDialect)
	_, err := decthings.DecodeView([]byte{7, 0, 1}, 3)
	assert.ErrorIs(t, err, decthings.ErrDialect)
	assert.ErrorContains(t, err, "dialect 3")
}

func TestAppendRefusesWhatCannotBeRead(t *testing.T) {
	scalar := func(what string, value []byte, formats ...string) *elements.Elements {
		return &elements.Elements{Type: what, Values: [][]byte{value}, Formats: formats}
	}
	long := string(bytes.Repeat([]byte{'x'}, 256))
	tests := []struct {
		name string
		e    *elements.Elements
		d    decthings.Dialect
		want error
	}{
		{"no type", scalar("text", nil), decthings.Doc, decthings.ErrType},
		{"a number", scalar("u8", []byte{1}), decthings.Doc, decthings.ErrType},
		{"no dialect", scalar("string", nil), 7, decthings.ErrDialect},
		{"too many values", &elements.Elements{Type: "string", Shape: []int64{0}, Values: [][]byte{{}}}, decthings.Doc, elements.ErrElements},
		{"a negative dimension", &elements.Elements{Type: "string", Shape: []int64{-1}}, decthings.Doc, layout.ErrNegative},
		{"too many dimensions", &elements.Elements{Type: "binary", Shape: slices.Repeat([]int64{1}, 256), Values: [][]byte{{}}}, decthings.Doc, decthings.ErrRank},
		{"text in Latin-1", scalar("string", []byte{0xe4}), decthings.Py004, dlpack.ErrValue},
		{"an image without a format", scalar("image", nil), decthings.Rs015, decthings.ErrFormat},
		{"a string with a format", scalar("string", nil, "png"), decthings.Doc, decthings.ErrFormat},
		{"four bytes in the document's dialect", scalar("video", nil, "webm"), decthings.Doc, decthings.ErrFormat},
		{"two bytes in the older clients' dialect", scalar("audio", nil, "au"), decthings.Py004, decthings.ErrFormat},
		{"256 bytes in the newer clients' dialect", scalar("image", nil, long), decthings.Rs015, decthings.ErrFormat},
		{"a format that is not ASCII in the document's dialect", scalar("image", nil, "pä"), decthings.Doc, dlpack.ErrValue},
		{"a format that is not UTF-8", scalar("image", nil, "p\xe4g"), decthings.Py004, dlpack.ErrValue},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			before := []byte("before")
			out, err := decthings.AppendElements(before, test.e, test.d)
			assert.ErrorIs(t, err, test.want)
			assert.Equal(t, before, out)
			must.Fail(decthings.SizeElements(test.e, test.d))(t, test.want)
		})
	}
	for _, allowed := range []struct {
		format string
		d      decthings.Dialect
	}{{"", decthings.Rs015}, {long[1:], decthings.Rs015}, {"pä", decthings.Py004}, {"数", decthings.Rs015}} {
		e := scalar("image", []byte{1}, allowed.format)
		data := must.Do(decthings.AppendElements(nil, e, allowed.d))(t)
		v := must.Do(decthings.DecodeView(data, allowed.d))(t)
		assert.Equal(t, e.Formats, v.Elements.Formats)
		assert.Equal(t, e.Values, v.Elements.Values)
	}

	views := []struct {
		name string
		v    decthings.View
		want error
	}{
		{"no type", decthings.View{}, decthings.ErrType},
		{"bytes missing", decthings.View{Type: decthings.I16, Shape: []int64{2}, Data: make([]byte, 3)}, elements.ErrSize},
		{"bytes too many", decthings.View{Type: decthings.I16, Shape: []int64{2}, Data: make([]byte, 6)}, elements.ErrSize},
		{"a negative dimension", decthings.View{Type: decthings.I16, Shape: []int64{-2}}, layout.ErrNegative},
		{"too many elements", decthings.View{Type: decthings.U8, Shape: []int64{math.MaxInt64, 2}}, layout.ErrOverflow},
		{"a boolean of 2", decthings.View{Type: decthings.Boolean, Shape: []int64{9}, Data: []byte{0, 1, 0, 1, 0, 1, 0, 1, 2}}, dlpack.ErrValue},
		{"no elements", decthings.View{Type: decthings.String}, decthings.ErrType},
		{"other elements", decthings.View{Type: decthings.String, Elements: scalar("binary", nil)}, decthings.ErrType},
		{"too many dimensions", decthings.View{Type: decthings.U8, Shape: slices.Repeat([]int64{1}, 256), Data: []byte{1}}, decthings.ErrRank},
	}
	for _, test := range views {
		t.Run(test.name, func(t *testing.T) {
			before := []byte("before")
			out, err := test.v.Append(before, decthings.Doc)
			assert.ErrorIs(t, err, test.want)
			assert.Equal(t, before, out)
		})
	}
	for _, what := range []decthings.Type{decthings.String, 0, 17} {
		must.Fail(decthings.AppendHeader(nil, what, nil))(t, decthings.ErrType)
	}
}

func TestNilViewsAreRefused(t *testing.T) {
	var v *decthings.View
	must.Fail(v.DecodeFirst([]byte{3, 0, 1}, decthings.Doc))(t, elements.ErrNil)
	dst, err := v.Append([]byte("kept"), decthings.Doc)
	assert.ErrorIs(t, err, elements.ErrNil)
	assert.Equal(t, []byte("kept"), dst)
}

func TestBooleansOtherThan0And1AreFoundAnywhere(t *testing.T) {
	for n := range 20 {
		data := append([]byte{byte(decthings.Boolean), 1, byte(n)}, bytes.Repeat([]byte{1}, n)...)
		must.Do(decthings.DecodeView(data, decthings.Doc))(t)
		for i := range n {
			for _, wrong := range []byte{2, 128, 255} {
				data[3+i] = wrong
				_, err := decthings.DecodeView(data, decthings.Doc)
				var fault *elements.Error
				require.ErrorAs(t, err, &fault)
				assert.Equal(t, int64(3+i), fault.Offset)
			}
			data[3+i] = 0
		}
	}
}

func TestSectionsEndWithTheirLastElement(t *testing.T) {
	e := &elements.Elements{Type: "string", Shape: []int64{2}, Values: [][]byte{[]byte("a"), []byte("bc")}}
	for _, d := range []decthings.Dialect{decthings.Py004, decthings.Rs015} {
		data := must.Do(decthings.AppendElements(nil, e, d))(t)
		must.Do(decthings.DecodeView(data, d))(t)
		const section = 3 // index of the section's length, after the type, the rank and one dimension
		require.EqualValues(t, len(data)-section-1, data[section])
		data[section]++
		_, err := decthings.DecodeView(append(data, 0), d)
		assert.ErrorIs(t, err, decthings.ErrSection, "%v", d)
	}
}

func TestNewMemoryAlignsThePayload(t *testing.T) {
	for rank := range 9 {
		for size := range 70 {
			shape := append(slices.Repeat([]int64{1}, rank), int64(size))
			v := decthings.View{Type: decthings.F64, Shape: shape, Data: make([]byte, 8*size)}
			for _, before := range [][]byte{nil, {1}, make([]byte, 100, 101)} {
				out := must.Do(v.Append(before, decthings.Doc))(t)
				require.True(t, bytes.HasPrefix(out, before))
				require.Zero(t, (address(out)+uintptr(len(out)-8*size))%64, "%v behind %d bytes", shape, len(before))
			}
		}
	}
}

func TestAppendUsesTheMemoryThatIsThere(t *testing.T) {
	v := decthings.View{Type: decthings.U8, Shape: []int64{2}, Data: []byte{1, 2}}
	dst := make([]byte, 1, 6)
	out, err := v.Append(dst, decthings.Doc)
	require.NoError(t, err)
	assert.Equal(t, []byte{0, 7, 1, 2, 1, 2}, out)
	assert.Same(t, &dst[0], &out[0])
	e := &elements.Elements{Type: "binary", Values: [][]byte{{1, 2}}}
	out = must.Do(decthings.AppendElements(dst[:0], e, decthings.Py004))(t)
	assert.Equal(t, []byte{12, 0, 3, 2, 1, 2}, out)
	assert.Same(t, &dst[0], &out[0])
	stream := []byte(nil)
	allocations := testing.AllocsPerRun(1, func() {
		stream = nil
		for range 1000 {
			stream, err = v.Append(stream, decthings.Doc)
		}
	})
	require.NoError(t, err)
	assert.Equal(t, bytes.Repeat([]byte{7, 1, 2, 1, 2}, 1000), stream)
	assert.Less(t, allocations, 20.0, "memory grows in proportion")
}

// allocated returns how many bytes f allocates on the heap.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestHeadersAloneTakeNoMemory(t *testing.T) {
	huge := []byte{255, 0, 0, 1, 0, 0, 0, 0, 0} // 2^40
	tests := []struct {
		name string
		data []byte
		d    decthings.Dialect
	}{
		{"numbers", append([]byte{2, 1}, huge...), decthings.Doc},
		{"numbers in two dimensions", slices.Concat([]byte{2, 2, 200}, huge), decthings.Doc},
		{"strings", append([]byte{11, 1}, huge...), decthings.Doc},
		{"strings in a section", slices.Concat([]byte{11, 1}, huge, huge), decthings.Py004},
		{"strings in an empty section", append(append([]byte{11, 1}, huge...), 0), decthings.Rs015},
		{"images", append(append([]byte{14, 1}, huge...), 3), decthings.Doc},
		{"one string", append([]byte{11, 0}, huge...), decthings.Doc},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var err error
			assert.Less(t, allocated(func() { _, err = decthings.DecodeView(test.data, test.d) }), uint64(64<<10))
			assert.Error(t, err)
		})
	}
}

func TestFormatsThatRepeatAreOneString(t *testing.T) {
	e := &elements.Elements{Type: "image", Shape: []int64{4}, Values: make([][]byte, 4), Formats: []string{"png", "png", "jpg", "jpg"}}
	data := must.Do(decthings.AppendElements(nil, e, decthings.Doc))(t)
	v := must.Do(decthings.DecodeView(data, decthings.Doc))(t)
	got := v.Elements.Formats
	assert.Equal(t, e.Formats, got)
	assert.Same(t, unsafe.StringData(got[0]), unsafe.StringData(got[1]))
	assert.Same(t, unsafe.StringData(got[2]), unsafe.StringData(got[3]))
}

// FuzzDecodeView: a decoded view lies inside the input, and is encoded as the same bytes.
func FuzzDecodeView(f *testing.F) {
	for _, m := range manifests(f)[:1] {
		for _, v := range m.Tensors {
			for name, file := range v.Files {
				f.Add(m.File(f, file), byte(dialect(f, name)))
			}
		}
		for _, v := range m.Malformed {
			for _, name := range v.Dialects {
				f.Add(m.File(f, v.File), byte(dialect(f, name)))
			}
		}
		for _, v := range m.Streams {
			f.Add(m.File(f, v.File), byte(dialect(f, v.Dialect)))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, d byte) {
		dialect := decthings.Dialect(d % 3)
		var v decthings.View
		n, err := v.DecodeFirst(data, dialect)
		if err != nil {
			var fault *elements.Error
			require.ErrorAs(t, err, &fault)
			require.True(t, fault.Offset >= 0 && fault.Offset <= int64(len(data)))
			return
		}
		require.True(t, n >= 2 && n <= len(data))
		if v.Elements != nil {
			require.NoError(t, v.Elements.Validate())
			for _, value := range v.Elements.Values {
				require.True(t, within(data[:n], value))
			}
		} else {
			require.True(t, within(data[:n], v.Data))
		}
		again := must.Do(v.Append(nil, dialect))(t)
		require.True(t, bytes.Equal(data[:n], again))
		_, err = decthings.DecodeView(data, dialect)
		if n == len(data) {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, decthings.ErrTrailing)
		}
	})
}

// FuzzAppendElements: encoded elements are decoded as equal elements.
func FuzzAppendElements(f *testing.F) {
	f.Add("string", int64(2), int64(1), []byte("hello"), []byte(", world!"), "", "", byte(0))
	f.Add("image", int64(1), int64(2), []byte{1}, []byte{}, "png", "jpg", byte(1))
	f.Add("video", int64(2), int64(1), []byte{}, []byte{2}, "", "webm", byte(2))
	f.Add("binary", int64(0), int64(1<<62), []byte{}, []byte{2}, "", "", byte(1))
	f.Fuzz(func(t *testing.T, what string, m, n int64, a, b []byte, formatA, formatB string, d byte) {
		e := &elements.Elements{Type: what, Shape: []int64{m, n}, Values: [][]byte{}}
		if m == 1 || m == 2 {
			e.Values = [][]byte{a, b}[:m]
		}
		if what == "image" || what == "audio" || what == "video" {
			e.Formats = []string{formatA, formatB}[:len(e.Values)]
		}
		dialect := decthings.Dialect(d % 3)
		data, err := decthings.AppendElements(nil, e, dialect)
		size, sizeErr := decthings.SizeElements(e, dialect)
		require.Equal(t, err, sizeErr)
		if err != nil {
			return
		}
		require.Equal(t, len(data), size)
		v := must.Do(decthings.DecodeView(data, dialect))(t)
		require.Equal(t, e.Type, v.Elements.Type)
		require.Equal(t, e.Shape, v.Elements.Shape)
		require.Equal(t, e.Formats, v.Elements.Formats)
		require.Equal(t, len(e.Values), len(v.Elements.Values))
		for i := range e.Values {
			require.True(t, bytes.Equal(e.Values[i], v.Elements.Values[i]))
		}
	})
}

func TestErrorsInElementsNameTheDialect(t *testing.T) {
	text := &elements.Elements{Type: "string", Shape: []int64{2}, Values: [][]byte{[]byte("one"), []byte("two")}}
	data := must.Do(decthings.AppendElements(nil, text, decthings.Py004))(t)
	_, err := decthings.DecodeView(data, decthings.Doc)
	assert.ErrorContains(t, err, "in dialect doc; the option In selects another: cut short")
	_, err = decthings.DecodeView(data, decthings.Py004)
	assert.NoError(t, err)
	_, err = decthings.NewReader(bytes.NewReader(data[:len(data)-9]), decthings.Py004).Next()
	assert.ErrorContains(t, err, "the length of the section, in dialect py004: cut short")
}
