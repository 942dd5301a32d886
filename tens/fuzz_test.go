package tens_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/tens"
)

// FuzzDecode encodes a decoded message. The frames must be the same. Its packed form, and the message with an encoded label,
// must be decoded as an equal message.
func FuzzDecode(f *testing.F) {
	for _, v := range readVectors(f) {
		frames := append(v.frames(f), nil, nil, nil, nil)
		f.Add(frames[0], frames[1], frames[2], frames[3], min(uint(len(v.Frames)), 4))
	}
	for _, tensor := range spreadTensors {
		f.Add(append([]byte("ZIO0TENS"), tensorLabel(tensor)...), make([]byte, 24), make([]byte, 4), make([]byte, 8), uint(4))
	}
	f.Fuzz(func(t *testing.T, prefix, header, part0, part1 []byte, count uint) {
		frames := [][]byte{prefix, header, part0, part1}[:min(count, 4)]
		m, err := tens.Decode(frames)
		if err != nil {
			requireFault(t, err.(*tens.Error).Kind, err)
			return
		}
		again := m.Encode()
		require.Len(t, again, len(frames))
		for i := range frames {
			require.True(t, bytes.Equal(frames[i], again[i]))
		}
		requirePackedSame(t, m)
		requireLabelSame(t, m)
	})
}

// FuzzDecodePacked encodes a decoded message. The result must not be longer than the input, and must be decoded as an
// equal message.
func FuzzDecodePacked(f *testing.F) {
	for _, v := range readVectors(f) {
		if v.Encoded != nil && v.Encoded.File != "" {
			f.Add(v.folder.File(f, v.Encoded.File))
		} else if data, err := tens.AppendFrames(nil, v.frames(f)); err == nil {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		frames, err := tens.DecodeFrames(data)
		if err == nil {
			total := 0
			for _, frame := range frames {
				total += len(frame) + 1
			}
			require.LessOrEqual(t, total, len(data))
			again := must.Do(tens.AppendFrames(nil, frames))(t)
			require.LessOrEqual(t, len(again), len(data))
		}
		m, err := tens.DecodePacked(data)
		if err != nil {
			requireFault(t, err.(*tens.Error).Kind, err)
			return
		}
		requirePackedSame(t, m)
		requireLabelSame(t, m)
	})
}

// FuzzDecodeLabel checks that DecodeLabel and encoding/json agree on which texts are JSON, and that a decoded label is encoded as
// JSON with equal content.
func FuzzDecodeLabel(f *testing.F) {
	for _, v := range readVectors(f) {
		if v.Frames == nil {
			continue
		}
		if _, _, label, err := tens.DecodePrefix(v.frames(f)[0]); err == nil {
			f.Add(label)
		}
	}
	for _, tensor := range spreadTensors {
		f.Add(tensorLabel(tensor))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		agreeWithStandardLibrary(t, text)
		l, err := tens.DecodeLabel(text)
		if err != nil {
			requireFault(t, err.(*tens.Error).Kind, err)
			return
		}
		require.True(t, json.Valid(text))
		requireWrittenSame(t, l)
	})
}

// FuzzRelay relays a decoded label, which must be encoded as the same bytes. After one change, the rest must stay the same:
// the label can be relayed again, with its original metadata.
func FuzzRelay(f *testing.F) {
	for _, v := range readVectors(f) {
		if v.Frames == nil {
			continue
		}
		frames := v.frames(f)
		if m, err := tens.Decode(frames); err == nil {
			f.Add(m.Form == formTENS, m.Label, len(m.Parts) > 0)
		}
	}
	f.Fuzz(func(t *testing.T, form bool, label []byte, parts bool) {
		m := message(label)
		if !form {
			m.Form = formFLOW
		}
		if l, err := tens.DecodeLabel(label); err == nil && parts {
			for _, x := range l.Tensors { // parts that fit the tensor
				if size, err := x.NumBytes(); err == nil && x.Parts == 0 && x.Part < 8 && size < 1<<10 {
					for len(m.Parts) <= x.Part {
						m.Parts = append(m.Parts, nil)
					}
					m.Parts[x.Part] = make([]byte, size)
				}
			}
		}
		l, err := m.DecodeLabel()
		if err != nil {
			requireFault(t, err.(*tens.Error).Kind, err)
			return
		}
		requireRelayed(t, m, l)
		if l.Absent {
			return
		}
		changed, again := *l, *m
		changed.Relay, changed.Metadata = m, []byte(`{"changed":[1]}`)
		require.NoError(t, again.EncodeLabel(&changed))
		read := must.Do(again.DecodeLabel())(t)
		require.Equal(t, `{"changed":[1]}`, string(read.Metadata))
		for i := range l.Tensors {
			require.Equal(t, string(l.Tensors[i].Metadata), string(read.Tensors[i].Metadata))
		}
		read.Metadata = l.Metadata
		require.Equal(t, normal(t, l), normal(t, read))
		requireRelayed(t, &again, must.Do(again.DecodeLabel())(t))
	})
}

// requireRelayed checks that the decoded label of a message is relayed as the same bytes.
func requireRelayed(t *testing.T, m *tens.Message, l *tens.Label) {
	relayed, again := *l, *m
	relayed.Relay, again.Label = m, nil
	require.NoError(t, again.EncodeLabel(&relayed))
	require.Equal(t, string(m.Label), string(again.Label))
}

// FuzzDecodeAll decodes messages in the packed form, one after another. They must be decoded as the same messages, and as
// one message only if there is just one.
func FuzzDecodeAll(f *testing.F) {
	for _, v := range readVectors(f) {
		if data, err := tens.AppendFrames(nil, v.frames(f)); err == nil && v.Frames != nil {
			f.Add(data, slices.Concat(data, data))
		}
	}
	f.Add([]byte(nil), []byte("\x08ZIO0TENS\x18012345678901234567890123\x00\x08ZIO1TEXT\x18ZIO0TENS0123456789012345\x08ZIO0TENS"))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var messages []*tens.Message
		for _, data := range [][]byte{first, second} {
			at := 0
			for m, err := range tens.DecodeAll(data) {
				if err != nil {
					requireFault(t, err.(*tens.Error).Kind, err)
					break
				}
				size := must.Do(tens.SizeFirst(data[at:]))(t)
				alone := must.Do(tens.DecodePacked(data[at : at+size]))(t)
				require.Equal(t, flat(alone), flat(m))
				messages, at = append(messages, m), at+size
			}
		}
		data := packedOf(t, messages...)
		i := 0
		for m, err := range tens.DecodeAll(data) {
			require.NoError(t, err)
			require.Equal(t, flat(messages[i]), flat(m))
			i++
		}
		require.Len(t, messages, i)
		_, err := tens.DecodePacked(data)
		require.Equal(t, len(messages) == 1, err == nil)
	})
}

func requirePackedSame(t *testing.T, m *tens.Message) {
	packed, err := m.AppendPacked(nil)
	if slices.ContainsFunc(m.Parts, func(part []byte) bool { _, _, _, err := tens.DecodePrefix(part); return err == nil }) {
		requireFault(t, tens.ErrSecondMessage, err)
		return
	}
	require.NoError(t, err)
	size := must.Do(m.PackedSize())(t)
	require.Len(t, packed, size)
	again := must.Do(tens.DecodePacked(packed))(t)
	require.Equal(t, flat(m), flat(again))
}

func requireLabelSame(t *testing.T, m *tens.Message) {
	l, err := m.DecodeLabel()
	if err != nil {
		requireFault(t, err.(*tens.Error).Kind, err)
		return
	}
	if l.Absent {
		require.True(t, m.Form != formTENS || string(bytes.TrimSpace(m.Label)) == "null")
		require.Equal(t, &tens.Label{Absent: true}, l)
		return
	}
	for i := range l.Tensors {
		if l.Tensors[i].IsDense() {
			requireInsideItsPart(t, &l.Tensors[i], m.Parts)
		}
	}
	if !requireWrittenSame(t, l) {
		return
	}
	again := *m
	require.NoError(t, again.EncodeLabel(l))
	must.Do(again.DecodeLabel())(t)
}

// requireInsideItsPart checks that the strides reach every element of the part exactly once, and nothing outside.
func requireInsideItsPart(t *testing.T, x *tens.Tensor, parts [][]byte) {
	count := max(x.Parts, 1)
	require.LessOrEqual(t, x.Part, len(parts)-count)
	have := 0
	for _, part := range parts[x.Part : x.Part+count] {
		have += len(part)
		require.True(t, count == 1 || len(part) > 0)
	}
	size := must.Do(x.NumBytes())(t)
	if x.DType == 'V' {
		require.LessOrEqual(t, int64(have), size)
	} else {
		require.EqualValues(t, have, size)
	}
	if count > 1 {
		_, ok := x.Slowest()
		require.True(t, ok)
	}
	elements := must.Do(x.NumElements())(t)
	require.Equal(t, elements*int64(x.Word), size)
	strides, offset, err := x.Strides()
	require.NoError(t, err)
	if elements == 0 {
		return
	}
	low, high := offset, offset
	for d, stride := range strides {
		if far := (x.Shape[d] - 1) * stride; far < 0 {
			low += far
		} else {
			high += far
		}
	}
	require.Zero(t, low)
	require.Equal(t, elements-1, high)
}

// requireWrittenSame reports whether the label can be written. All labels can, except those with tensors that are only metadata, or
// with nested metadata of a tensor.
func requireWrittenSame(t *testing.T, l *tens.Label) bool {
	text, err := l.Append(nil)
	if at := slices.IndexFunc(l.Tensors, func(x tens.Tensor) bool { return x.OnlyMetadata() || deepMetadata(x) }); at >= 0 {
		kind := tens.ErrMetadataInvalid
		if l.Tensors[at].OnlyMetadata() {
			kind = tens.ErrDTypeUnknown
		}
		fault := requireFault(t, kind, err)
		require.Equal(t, at, fault.Tensor)
		return false
	}
	require.NoError(t, err)
	require.True(t, json.Valid(text), "%q", text)
	again, err := tens.DecodeLabel(text)
	require.NoError(t, err, "%q", text)
	assert.Equal(t, normal(t, l), normal(t, again))
	twice := must.Do(again.Append(nil))(t)
	require.Equal(t, string(text), string(twice))
	return true
}

func deepMetadata(x tens.Tensor) bool {
	attributes, _ := tens.DecodeAttributes(x.Metadata)
	return slices.ContainsFunc(attributes, func(a tens.Attribute) bool { return a.Value[0] == '{' || a.Value[0] == '[' })
}
