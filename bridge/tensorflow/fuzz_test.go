package tensorflow_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/tensorflow"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// oracle requires view to have the elements of the message, as protobuf-go decodes its fields and by the rules of
// vectors/tensorflow.
func oracle(t testing.TB, md protoreflect.MessageDescriptor, data []byte, view *tensorflow.View) {
	m, err := peerRead(md, data)
	require.NoError(t, err, "what DecodeView takes is a message")
	get := func(name protoreflect.Name) protoreflect.Value { return m.Get(md.Fields().ByName(name)) }
	require.Equal(t, int32(get("dtype").Int()), int32(view.DType))
	var shape []int64
	dims := get("tensor_shape").Message()
	list := dims.Get(dims.Descriptor().Fields().ByName("dim")).List()
	for i := range list.Len() {
		dim := list.Get(i).Message()
		shape = append(shape, dim.Get(dim.Descriptor().Fields().ByName("size")).Int())
	}
	require.Equal(t, append([]int64{}, shape...), append([]int64{}, view.Shape...))
	count := int64(1)
	for _, n := range shape {
		count *= n
	}

	dt := view.DType.Storage()
	content := get("tensor_content").Bytes()
	if view.Elements != nil {
		require.Zero(t, dt)
		require.NoError(t, view.Elements.Validate())
		if len(content) > 0 {
			size := 0
			for _, value := range view.Elements.Values {
				size += len(value)
			}
			require.Less(t, size, len(content))
			return
		}
		name := map[tensorflow.DType]protoreflect.Name{
			tensorflow.String: "string_val", tensorflow.Resource: "resource_handle_val", tensorflow.Variant: "variant_val",
		}[view.DType]
		values := get(name).List()
		for i, value := range view.Elements.Values {
			want := []byte{}
			if n := values.Len(); n > 0 {
				want = values.Get(min(i, n-1)).Bytes()
			}
			require.True(t, bytes.Equal(want, value))
		}
		return
	}
	if len(content) > 0 {
		require.True(t, view.Aliases)
		require.True(t, bytes.Equal(content, view.Data))
		return
	}
	var all []byte // the values in the message, in their form in memory
	size := dt.ItemSize()
	switch name := fieldNames[view.DType]; name {
	case "float8_val":
		all = get(name).Bytes()
	default:
		values := get(name).List()
		for i := range values.Len() {
			var word [8]byte
			switch x := values.Get(i).Interface().(type) {
			case float32:
				all = binary.LittleEndian.AppendUint32(all, math.Float32bits(x))
				continue
			case float64:
				all = binary.LittleEndian.AppendUint64(all, math.Float64bits(x))
				continue
			case bool:
				if x {
					word[0] = 1
				}
			case int32:
				binary.LittleEndian.PutUint64(word[:], uint64(x))
			case int64:
				binary.LittleEndian.PutUint64(word[:], uint64(x))
			case uint32:
				binary.LittleEndian.PutUint64(word[:], uint64(x))
			case uint64:
				binary.LittleEndian.PutUint64(word[:], x)
			}
			all = append(all, word[:size]...)
		}
	}
	require.LessOrEqual(t, int64(len(all)), count*int64(size))
	for i := int64(0); i < count; i++ {
		want := make([]byte, size)
		if len(all) > 0 {
			at := min(int(i), len(all)/size-1) * size
			want = all[at : at+size]
		}
		if got := view.Data[int(i)*size : int(i+1)*size]; !bytes.Equal(want, got) {
			require.Equal(t, quiet(view.DType, masked(view.DType, want)), quiet(view.DType, masked(view.DType, got)), "element %d", i)
		}
	}
	require.Equal(t, count*int64(size), int64(len(view.Data)))
}

// quiet makes all NaNs quiet, as protobuf-go's reflection does with floats of 32 bits.
func quiet(dtype tensorflow.DType, data []byte) []byte {
	if dtype != tensorflow.Float && dtype != tensorflow.Complex64 {
		return data
	}
	var out []byte
	for ; len(data) > 0; data = data[4:] {
		x := binary.LittleEndian.Uint32(data)
		if math.IsNaN(float64(math.Float32frombits(x))) {
			x |= 1 << 22
		}
		out = binary.LittleEndian.AppendUint32(out, x)
	}
	return out
}

var fieldNames = map[tensorflow.DType]protoreflect.Name{
	tensorflow.Float: "float_val", tensorflow.Double: "double_val", tensorflow.Complex64: "scomplex_val",
	tensorflow.Complex128: "dcomplex_val", tensorflow.Int64: "int64_val", tensorflow.UInt32: "uint32_val",
	tensorflow.UInt64: "uint64_val", tensorflow.Bool: "bool_val", tensorflow.Half: "half_val", tensorflow.BFloat16: "half_val",
	tensorflow.Int32: "int_val", tensorflow.UInt8: "int_val", tensorflow.Int16: "int_val", tensorflow.Int8: "int_val",
	tensorflow.QInt8: "int_val", tensorflow.QUInt8: "int_val", tensorflow.QInt32: "int_val", tensorflow.QInt16: "int_val",
	tensorflow.QUInt16: "int_val", tensorflow.UInt16: "int_val", tensorflow.Int4: "int_val", tensorflow.UInt4: "int_val",
	tensorflow.Int2: "int_val", tensorflow.UInt2: "int_val", tensorflow.Float8E5M2: "float8_val",
	tensorflow.Float8E4M3FN: "float8_val", tensorflow.Float8E4M3FNUZ: "float8_val", tensorflow.Float8E4M3B11FNUZ: "float8_val",
	tensorflow.Float8E5M2FNUZ: "float8_val", tensorflow.Float4E2M1FN: "float8_val",
}

// forms has the options for all forms in which a tensor can be encoded.
var forms = map[string][]tensorflow.EncodeOption{
	"plain":               nil,
	"content":             {tensorflow.Content()},
	"fields":              {tensorflow.Fields()},
	"content, padded":     {tensorflow.Content(), tensorflow.Pad(64)},
	"content, compressed": {tensorflow.Content(), tensorflow.Compress(1, 1)},
	"fields, compressed":  {tensorflow.Fields(), tensorflow.Compress(1, 1), tensorflow.Pad(64)},
}

// roundTrip encodes a view in every form, and decodes the result.
func roundTrip(t testing.TB, md protoreflect.MessageDescriptor, view *tensorflow.View) {
	for name, form := range forms {
		out, err := view.Append(nil, form...)
		require.NoError(t, err, name)
		if dtype := view.DType; dtype.DataType() == 0 {
			size, err := tensorflow.SizeElements(view.AsElements(), form...)
			require.NoError(t, err, name)
			require.Equal(t, len(out), size, name)
		}
		back, err := tensorflow.DecodeView(out, tensorflow.Limit(1<<40))
		require.NoError(t, err, name)
		oracle(t, md, out, &back)
		require.Equal(t, view.DType, back.DType, name)
		require.Equal(t, append([]int64{}, view.Shape...), back.Shape, name)
		if view.Elements != nil {
			require.Equal(t, len(view.Elements.Values), len(back.Elements.Values), name)
			for i, value := range view.Elements.Values {
				require.True(t, bytes.Equal(value, back.Elements.Values[i]), "%s: element %d", name, i)
			}
			continue
		}
		require.True(t, bytes.Equal(masked(view.DType, view.Data), masked(view.DType, back.Data)), name)
	}
}

// This package decodes random tensors of every type in every form as protobuf-go does.
func TestRandomTensorsTravelInEveryForm(t *testing.T) {
	md := descriptor(t, "Tensor")
	r := rand.New(rand.NewSource(6))
	for dtype := tensorflow.Float; dtype <= tensorflow.Float4E2M1FN; dtype++ {
		for range 100 {
			shape := make([]int64, r.Intn(4))
			count := 1
			for i := range shape {
				shape[i] = int64(r.Intn(5))
				count *= int(shape[i])
			}
			header := must.Do(tensorflow.AppendHeader(nil, tensorflow.UInt8, shape))(t)
			view := must.Do(tensorflow.DecodeView(append(header, make([]byte, count)...)))(t)
			view.DType = dtype
			if size := dtype.Storage().ItemSize(); size > 0 {
				view.Data = make([]byte, count*size)
				r.Read(view.Data[:r.Intn(len(view.Data)+1)/size*size])
				if dtype == tensorflow.Bool {
					for i := range view.Data {
						view.Data[i] &= 1
					}
				}
			} else {
				view.Data = nil
				view.Elements = view.AsElements()
				for range count {
					value := make([]byte, r.Intn(300))
					r.Read(value)
					view.Elements.Values = append(view.Elements.Values, value)
				}
			}
			roundTrip(t, md, &view)
		}
	}
}

// FuzzDecodeView: a message is decoded as protobuf-go decodes it, and again after encoding in every form. An error has an offset in
// the input.
func FuzzDecodeView(f *testing.F) {
	for _, m := range manifests(f) {
		for _, v := range m.Tensors {
			f.Add(m.File(f, v.File))
		}
		for _, v := range m.Malformed {
			f.Add(m.File(f, v.File))
		}
	}
	md := descriptor(f, "Tensor")
	f.Fuzz(func(t *testing.T, data []byte) {
		view, err := tensorflow.DecodeView(data, tensorflow.Limit(1<<16))
		if err != nil {
			var where *elements.Error
			require.ErrorAs(t, err, &where)
			assert.LessOrEqual(t, uint(where.Offset), uint(len(data)))
			_, err = tensorflow.DecodeView(data, tensorflow.Limit(1<<16), tensorflow.Lenient())
			if err != nil {
				require.ErrorAs(t, err, &where)
			}
			return
		}
		oracle(t, md, data, &view)
		if len(view.Data) <= 1<<16 {
			roundTrip(t, md, &view)
		}
	})
}

// FuzzMessages: every other kind of message is decoded as an equal value after encoding.
func FuzzMessages(f *testing.F) {
	for _, m := range manifests(f) {
		for _, v := range m.ShapeProtos {
			f.Add(m.File(f, v.File))
		}
		for _, v := range m.Slices.Proto {
			f.Add(unhex(f, v.Hex))
		}
	}
	f.Add(unhex(f, "080112061202080312002215080c1080021a03637075200728013080defbedea1b"))
	f.Add(unhex(f, "0a1674656e736f72666c6f773a3a54656e736f724c6973741207000103120208021a1208011204120208022a080000803f00000040"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if shape, err := tensorflow.DecodeShape(data); err == nil {
			back := must.Do(tensorflow.DecodeShape(tensorflow.AppendShape(nil, shape)))(t)
			require.True(t, shape.Equal(back))
		}
		if slice, err := tensorflow.DecodeSlice(data); err == nil {
			back := must.Do(tensorflow.DecodeSlice(tensorflow.AppendSlice(nil, slice)))(t)
			require.True(t, slice.Equal(back))
		}
		if d, err := tensorflow.DecodeDescription(data); err == nil {
			out := must.Do(d.Append(nil))(t)
			back := must.Do(tensorflow.DecodeDescription(out))(t)
			require.True(t, d.Shape.Equal(back.Shape))
			require.Equal(t, d.DType, back.DType)
			require.Equal(t, d.Allocation, back.Allocation)
		}
		if v, err := tensorflow.DecodeVariant(data); err == nil {
			require.True(t, utf8.ValidString(v.TypeName))
			out := must.Do(v.Append(nil))(t)
			back := must.Do(tensorflow.DecodeVariant(out))(t)
			require.Equal(t, v.TypeName, back.TypeName)
			require.True(t, bytes.Equal(v.Metadata, back.Metadata))
			require.Equal(t, len(v.Tensors), len(back.Tensors))
			for i := range v.Tensors {
				require.True(t, bytes.Equal(v.Tensors[i], back.Tensors[i]))
			}
		}
	})
}
