package safetensors_test

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/safetensors"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/vectors"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

func TestAFileCutAtAnyByteIsRefused(t *testing.T) {
	m := vectors.Read[manifest](t, "safetensors")[0]
	for _, file := range m.Files {
		data := m.File(t, file.File)
		for n := range data {
			_, err := safetensors.DecodeFile(data[:n:n])
			require.ErrorIs(t, err, elements.ErrTruncated, "%s: %d bytes", file.ID, n)
			var e *elements.Error
			require.True(t, errors.As(err, &e))
			require.LessOrEqual(t, e.Offset, int64(n))
		}
	}
}

func TestTensorsAreFoundByName(t *testing.T) {
	m := malformed{Header: `{"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"unknown":[{}]}}  `, Data: 2}
	f := must.Do(safetensors.DecodeFile(m.file()))(t)
	assert.Equal(t, []string{"a", "b"}, []string{f.Tensors[0].Name, f.Tensors[1].Name}, "in the order of their elements")
	for i, name := range []string{"a", "b"} {
		assert.Same(t, &f.Tensors[i], must.Do(f.Find(name))(t))
	}
	_, err := f.Find("c")
	require.ErrorIs(t, err, elements.ErrNoName)
	assert.EqualError(t, err, `safetensors: "c" is not one of the 2 tensors in the file, which begin with ["a" "b"]: no tensor has this name`)
	must.Fail((*safetensors.File)(nil).Find("a"))(t, elements.ErrNil)
}

func TestDTypesHaveTheirNames(t *testing.T) {
	for d := safetensors.BOOL; d <= safetensors.U64; d++ {
		assert.Equal(t, d, must.Do(safetensors.ParseDType(d.String()))(t))
		assert.Equal(t, d, must.Do(safetensors.DTypeOf(d.DataType()))(t))
		assert.NoError(t, d.DataType().Validate())
		assert.Equal(t, d.String(), d.LogValue().String())
		assert.Equal(t, d.String(), string(must.Do(d.MarshalText())(t)))
	}
	for _, d := range []safetensors.DType{0, safetensors.U64 + 1} {
		assert.Contains(t, d.String(), "dtype ")
		assert.Zero(t, d.DataType())
	}
	must.Fail(safetensors.ParseDType("f32"))(t, elements.ErrDType)
	must.Fail(safetensors.DTypeOf(dlpack.Complex128))(t, elements.ErrDType)
}

func TestHeadersThatCannotBeReadAreNotWritten(t *testing.T) {
	u8 := safetensors.View{Name: "a", DType: safetensors.U8, Shape: []int64{1}}
	change := func(change func(v *safetensors.View)) []safetensors.View {
		v := u8
		change(&v)
		return []safetensors.View{v}
	}
	shaped := func(dtype safetensors.DType, shape ...int64) []safetensors.View {
		return change(func(v *safetensors.View) { v.DType, v.Shape = dtype, shape })
	}
	for name, c := range map[string]struct {
		tensors  []safetensors.View
		metadata map[string]string
		align    int
		want     error
	}{
		"two of a name":           {tensors: []safetensors.View{u8, u8}, want: elements.ErrDuplicate},
		"name of the metadata":    {tensors: change(func(v *safetensors.View) { v.Name = "__metadata__" }), want: elements.ErrName},
		"name that is not UTF-8":  {tensors: change(func(v *safetensors.View) { v.Name = "\xff" }), want: elements.ErrName},
		"no type":                 {tensors: shaped(0), want: elements.ErrDType},
		"unknown type":            {tensors: shaped(safetensors.U64 + 1), want: elements.ErrDType},
		"negative size":           {tensors: shaped(safetensors.U8, -1), want: layout.ErrNegative},
		"negative size after 0":   {tensors: shaped(safetensors.U8, 0, -1), want: layout.ErrNegative},
		"product of 2^80":         {tensors: shaped(safetensors.U8, 1<<40, 1<<40), want: layout.ErrOverflow},
		"bytes of 2^65":           {tensors: shaped(safetensors.F64, 1<<62), want: layout.ErrOverflow},
		"sum of 2^63":             {tensors: append(shaped(safetensors.U8, 1<<62), safetensors.View{DType: safetensors.U8, Shape: []int64{1 << 62}}), want: layout.ErrOverflow},
		"half a byte":             {tensors: shaped(safetensors.F4, 3), want: elements.ErrSize},
		"257 dimensions":          {tensors: shaped(safetensors.U8, slices.Repeat([]int64{1}, 257)...), want: dlpack.ErrLayout},
		"metadata not UTF-8":      {metadata: map[string]string{"a": "\xff"}, want: elements.ErrName},
		"metadata name not UTF-8": {metadata: map[string]string{"\xff": "a"}, want: elements.ErrName},
		"header of 100 MB":        {metadata: map[string]string{"a": strings.Repeat("x", safetensors.MaxHeader)}, want: dlpack.ErrOverflow},
		"alignment of 3":          {align: 3, want: dlpack.ErrUnaligned},
		"alignment of -8":         {align: -8, want: dlpack.ErrUnaligned},
		"alignment of 8192":       {align: 8192, want: dlpack.ErrUnaligned},
	} {
		t.Run(name, func(t *testing.T) {
			out, views, err := safetensors.AppendHeader([]byte("before"), c.tensors, c.metadata, safetensors.Align(c.align))
			require.ErrorIs(t, err, c.want)
			assert.Equal(t, "before", string(out))
			assert.Nil(t, views)
		})
	}
}

func TestAlignedHeadersSayHowTensorsAreAligned(t *testing.T) {
	tensors := []safetensors.View{
		{Name: "odd", DType: safetensors.F64, Shape: []int64{3}},
		{Name: "even", DType: safetensors.U8, Shape: []int64{128}},
		{Name: "last", DType: safetensors.U8, Shape: []int64{1}},
	}
	for _, align := range []int{0, 1, 8, 64, 4096} {
		out, views, err := safetensors.AppendHeader(nil, tensors, nil, nil, safetensors.Align(align))
		require.NoError(t, err)
		assert.Zero(t, len(out)%max(align, 8))
		assert.Equal(t, int64(len(out)), views[0].Offset)
		for _, v := range views {
			want := 8
			switch {
			case align == 64 && v.Name != "last": // at byte 24
				want = 64
			case align == 4096 && v.Name == "odd":
				want = 4096
			case v.Name == "last" && align < 64:
				want = 1
			}
			assert.GreaterOrEqual(t, v.Alignment(), want, "%s with %d", v.Name, align)
		}
	}
}

func TestIndexFilesNameTheFileOfEachTensor(t *testing.T) {
	x := must.Do(safetensors.DecodeIndex([]byte(` {"metadata": {"total_size": 12}, "other": 1,
		"weight_map": {"a": "model-1.safetensors", "b": "model-1.safetensors", "c": "more/model-2.safetensors"}}`)))(t)
	assert.JSONEq(t, `{"total_size": 12}`, string(x.Metadata))
	assert.Equal(t, map[string]string{"a": "model-1.safetensors", "b": "model-1.safetensors", "c": "more/model-2.safetensors"}, x.Files)
	x = must.Do(safetensors.DecodeIndex([]byte(`{"weight_map":{}}`)))(t)
	assert.Nil(t, x.Metadata)
	assert.Empty(t, x.Files)

	for text, want := range map[string]struct {
		cause error
		at    int64
	}{
		``:                                 {elements.ErrHeader, 0},
		`[]`:                               {elements.ErrHeader, 0},
		`{}`:                               {elements.ErrHeader, 0},
		`{"weight_map":[]}`:                {elements.ErrHeader, 14},
		`{"weight_map":{"a":1}}`:           {elements.ErrHeader, 19},
		`{"weight_map":{"a":"b"}}}`:        {elements.ErrHeader, 24},
		`{"metadata":1,"weight_map":{}}`:   {elements.ErrHeader, 12},
		`{"weight_map":{},"weight_map":{}`: {elements.ErrDuplicate, 17},
		`{"weight_map":{"a":"b","a":"b"}}`: {elements.ErrDuplicate, 23},
		`{"weight_map":{"a":""}}`:          {elements.ErrName, 19},
		`{"weight_map":{"a":"."}}`:         {elements.ErrName, 19},
		`{"weight_map":{"a":"/b"}}`:        {elements.ErrName, 19},
		`{"weight_map":{"a":"../b"}}`:      {elements.ErrName, 19},
		`{"weight_map":{"a":"b/../../c"}}`: {elements.ErrName, 19},
		`{"weight_map":{"a":"b\\c"}}`:      {elements.ErrName, 19},
		`{"weight_map":{"a":"b\u0000"}}`:   {elements.ErrName, 19},
	} {
		_, err := safetensors.DecodeIndex([]byte(text))
		require.ErrorIs(t, err, want.cause, text)
		var e *elements.Error
		require.True(t, errors.As(err, &e), text)
		assert.Equal(t, want.at, e.Offset, text)
	}
}

// FuzzDecodeFile: the tensors that DecodeFile accepts lie inside the file, without gaps and overlaps. A header written
// by AppendHeader is decoded as the same tensors.
func FuzzDecodeFile(f *testing.F) {
	m := vectors.Read[manifest](f, "safetensors")[0]
	for _, file := range m.Files {
		f.Add(m.File(f, file.File))
	}
	for _, m := range readMalformed(f) {
		f.Add(m.file())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := safetensors.DecodeFile(data)
		if err != nil {
			var e *elements.Error
			require.True(t, errors.As(err, &e), err)
			require.True(t, 0 <= e.Offset && e.Offset <= int64(len(data)), err)
			return
		}
		at := 8 + int64(binary.LittleEndian.Uint64(data))
		for i, v := range file.Tensors {
			require.Equal(t, at, v.Offset)
			at += int64(len(v.Data))
			require.Same(t, &file.Tensors[i], must.Do(file.Find(v.Name))(t))
		}
		require.Equal(t, int64(len(data)), at)
		out, views, err := safetensors.AppendHeader(nil, file.Tensors, file.Metadata)
		require.NoError(t, err)
		for _, v := range views {
			out = append(out, v.Data...)
		}
		again := must.Do(safetensors.DecodeFile(out))(t)
		require.Equal(t, file.Metadata, again.Metadata)
		require.ElementsMatch(t, views, again.Tensors)
		for _, v := range file.Tensors {
			w := must.Do(again.Find(v.Name))(t)
			require.Equal(t, v.DType, w.DType)
			require.Equal(t, v.Shape, w.Shape)
			require.Equal(t, v.Data, w.Data)
		}
	})
}
