package tens_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/vectors"
	"github.com/dlbridge/dlbridge/tens"
)

type manifest struct {
	vectors.Folder
	Count   int
	Vectors []vector
}

type vector struct {
	folder vectors.Folder

	ID, Title, Verdict string
	Frames             []string
	Encoded            *struct {
		Len       int
		SHA256    string
		File      string
		Canonical *bool
	}
	Message *struct {
		Level                  int
		FormHex                string `json:"form_hex"`
		LabelSHA256            string `json:"label_sha256"`
		Origin, Granule, Seqno string
		Parts                  []struct {
			Len    int
			SHA256 string
		}
	}
	Tens *struct {
		Metadata      json.RawMessage
		Omitted       bool `json:"metadata_omitted"`
		Tensors       []tensorVector
		Absent        bool
		OtherKeys     []string `json:"other_keys"`
		OtherLabelKey []string `json:"other_label_keys"`
	}
	Error     string
	ErrorAlso []string `json:"error_also"`
}

type tensorVector struct {
	Shape         []int64
	Word          int
	DType         string
	Part          int
	Count, NBytes int64
	Strides       []int64
	Offset        int64
	LogicalSHA256 string   `json:"logical_sha256"`
	FirstHex      []string `json:"first_hex"`
	Order         []int
	Ascend        []bool
	Metadata      json.RawMessage
	Packing       string
	OtherKeys     []string `json:"other_keys"`
	OnlyMetadata  bool     `json:"only_metadata"`
}

// kinds has the error variable for each kind of error in the vectors.
var kinds = map[string]error{
	"too-few-frames":      tens.ErrTooFewFrames,
	"prefix-short":        tens.ErrPrefixShort,
	"bad-magic":           tens.ErrBadMagic,
	"bad-level":           tens.ErrBadLevel,
	"header-size":         tens.ErrHeaderSize,
	"encoding-truncated":  tens.ErrTruncated,
	"label-not-json":      tens.ErrLabelNotJSON,
	"label-not-object":    tens.ErrLabelNotObject,
	"label-too-deep":      tens.ErrLabelTooDeep,
	"duplicate-name":      tens.ErrDuplicateName,
	"tens-missing":        tens.ErrNoTENS,
	"tens-invalid":        tens.ErrTENSInvalid,
	"tensor-invalid":      tens.ErrTensorInvalid,
	"metadata-invalid":    tens.ErrMetadataInvalid,
	"shape-invalid":       tens.ErrShapeInvalid,
	"word-invalid":        tens.ErrWordInvalid,
	"dtype-invalid":       tens.ErrDTypeInvalid,
	"dtype-unknown":       tens.ErrDTypeUnknown,
	"dtype-word":          tens.ErrDTypeWord,
	"order-invalid":       tens.ErrOrderInvalid,
	"ascend-invalid":      tens.ErrAscendInvalid,
	"packing-invalid":     tens.ErrPackingInvalid,
	"packing-unsupported": tens.ErrPackingUnsupported,
	"pointer-unsupported": tens.ErrPointerUnsupported,
	"part-invalid":        tens.ErrPartInvalid,
	"part-out-of-range":   tens.ErrPartMissing,
	"size-overflow":       tens.ErrSizeOverflow,
	"size-mismatch":       tens.ErrSize,
}

// readVectors returns the vectors of all groups.
func readVectors(t testing.TB) (all []vector) {
	for _, m := range vectors.Read[manifest](t, vectors.ZIO, "message", "tens", "layout", "wirecell", "invalid") {
		require.Len(t, m.Vectors, m.Count)
		for _, v := range m.Vectors {
			v.folder = m.Folder
			all = append(all, v)
		}
	}
	return all
}

func (v *vector) frames(t testing.TB) [][]byte {
	var frames [][]byte
	for _, file := range v.Frames {
		frames = append(frames, v.folder.File(t, file))
	}
	return frames
}

func TestVectors(t *testing.T) {
	ours := 0
	for _, v := range readVectors(t) {
		t.Run(v.folder.Name()+"/"+v.ID+" "+v.Title, v.test)
		if !v.folder.Further() {
			ours++
		}
	}
	assert.Equal(t, 228, ours)
}

func (v *vector) test(t *testing.T) {
	require.True(t, v.Frames != nil || v.Encoded.File != "")
	if v.Frames != nil {
		frames := v.frames(t)
		m, err := tens.Decode(frames)
		v.testMessage(t, m, err)
		if err == nil {
			v.testFrames(t, m, frames)
		}
	}
	if v.Encoded != nil && v.Encoded.File != "" {
		data := v.folder.File(t, v.Encoded.File)
		require.Len(t, data, v.Encoded.Len)
		m, err := tens.DecodePacked(data)
		v.testMessage(t, m, err)
	}
}

// testMessage checks a message that was decoded from either form.
func (v *vector) testMessage(t *testing.T, m *tens.Message, err error) {
	if v.Message != nil {
		require.NoError(t, err)
		assert.Equal(t, v.Message.Level, m.Level)
		assert.Equal(t, v.Message.FormHex, hex.EncodeToString(m.Form[:]))
		assert.Equal(t, v.Message.LabelSHA256, sum(m.Label))
		assert.Equal(t, v.Message.Origin, strconv.FormatUint(m.Origin, 10))
		assert.Equal(t, v.Message.Granule, strconv.FormatUint(m.Granule, 10))
		assert.Equal(t, v.Message.Seqno, strconv.FormatUint(m.Seqno, 10))
		require.Len(t, m.Parts, len(v.Message.Parts))
		for i, part := range v.Message.Parts {
			assert.Len(t, m.Parts[i], part.Len)
			assert.Equal(t, part.SHA256, sum(m.Parts[i]))
		}
	}
	var label *tens.Label
	if err == nil && (v.Tens != nil || v.Verdict != "accept") {
		label, err = m.DecodeLabel()
	}
	if v.Verdict == "reject" || v.Verdict == "either" && err != nil {
		v.testError(t, err)
		return
	}
	require.NoError(t, err)
	if v.Tens != nil && label != nil {
		v.testLabel(t, label)
		for i := range label.Tensors {
			v.Tens.Tensors[i].testElements(t, &label.Tensors[i], m.Parts)
		}
		v.testRewriting(t, m, label)
	}
}

// testError checks the error of a vector. With the verdict "either" there may be no error.
func (v *vector) testError(t *testing.T, err error) {
	require.Error(t, err)
	found := false
	for _, kind := range append(v.ErrorAlso, v.Error) {
		require.Contains(t, kinds, kind)
		found = found || errors.Is(err, kinds[kind])
	}
	assert.True(t, found, "%q is none of %s %v", err, v.Error, v.ErrorAlso)
	var fault *tens.Error
	require.ErrorAs(t, err, &fault)
	assert.True(t, strings.HasPrefix(err.Error(), "tens: "))
	assert.Equal(t, 1, strings.Count(err.Error(), "tens: "))
	assert.Less(t, len(err.Error()), 200)
	assert.Less(t, fault.Tensor, 2)
}

// testFrames checks that the message is encoded as the same bytes.
func (v *vector) testFrames(t *testing.T, m *tens.Message, frames [][]byte) {
	again := m.Encode()
	require.Equal(t, len(frames), len(again))
	for i, frame := range frames {
		assert.Equal(t, string(frame), string(again[i]))
		if i >= 2 && len(frame) > 0 {
			assert.Same(t, &frame[0], &again[i][0], "part %d was copied", i-2)
		}
	}
	packed := must.Do(m.AppendPacked([]byte("ahead")))(t)
	packed = packed[len("ahead"):]
	size := must.Do(m.PackedSize())(t)
	assert.Len(t, packed, size)
	if v.Encoded != nil && (v.Encoded.Canonical == nil || *v.Encoded.Canonical) {
		assert.Len(t, packed, v.Encoded.Len)
		assert.Equal(t, v.Encoded.SHA256, sum(packed))
	}
	unpacked := must.Do(tens.DecodePacked(packed))(t)
	assert.Equal(t, flat(m), flat(unpacked))
	appended := must.Do(tens.AppendFrames(nil, frames))(t)
	assert.Equal(t, packed, appended)
}

func (v *vector) testLabel(t *testing.T, l *tens.Label) {
	assert.Equal(t, v.Tens.Absent, l.Absent)
	if !v.Tens.Omitted {
		assertJSON(t, v.Tens.Metadata, l.Metadata)
	}
	assert.ElementsMatch(t, v.Tens.OtherKeys, names(l.Extra))
	assert.ElementsMatch(t, v.Tens.OtherLabelKey, names(l.LabelExtra))
	require.Len(t, l.Tensors, len(v.Tens.Tensors))
	for i, want := range v.Tens.Tensors {
		got := &l.Tensors[i]
		assert.Equal(t, want.Shape, got.Shape)
		assert.Equal(t, want.Word, got.Word)
		assert.Equal(t, want.DType, string(got.DType))
		assert.Equal(t, want.Part, got.Part)
		assert.Equal(t, want.Order, got.Order)
		assert.Equal(t, want.Ascend, got.Ascend)
		assert.Equal(t, want.Packing, got.Packing)
		assert.Equal(t, want.OnlyMetadata, got.OnlyMetadata())
		assert.Equal(t, !want.OnlyMetadata, got.IsDense())
		assertJSON(t, want.Metadata, got.Metadata)
		assert.ElementsMatch(t, want.OtherKeys, names(got.Extra))
	}
}

// testElements checks the elements at the positions that strides and offset give.
func (want *tensorVector) testElements(t *testing.T, got *tens.Tensor, parts [][]byte) {
	if want.OnlyMetadata {
		return
	}
	count := must.Do(got.NumElements())(t)
	assert.Equal(t, want.Count, count)
	size := must.Do(got.NumBytes())(t)
	assert.Equal(t, want.NBytes, size)
	strides, offset, err := got.Strides()
	require.NoError(t, err)
	assert.Equal(t, want.Offset, offset)
	if want.Strides != nil {
		assert.Equal(t, want.Strides, strides)
	}
	elements := logical(got, parts[got.Part], strides, offset)
	assert.Equal(t, want.LogicalSHA256, sum(elements))
	for i, first := range want.FirstHex {
		assert.Equal(t, first, hex.EncodeToString(elements[i*got.Word:][:got.Word]))
	}
}

// testRewriting encodes the label and checks that the result has the same content.
func (v *vector) testRewriting(t *testing.T, m *tens.Message, label *tens.Label) {
	requireRelayed(t, m, label)
	if label.Absent || !requireWrittenSame(t, label) {
		return
	}
	again := *m
	again.Label = nil
	require.NoError(t, again.EncodeLabel(label))
	read := must.Do(again.DecodeLabel())(t)
	v.testNormal(t, label, read)
	text := must.Do(read.Append(nil))(t)
	assert.Equal(t, string(again.Label), string(text), "written twice alike")
	assert.True(t, json.Valid(text))
}

func (v *vector) testNormal(t *testing.T, want, got *tens.Label) {
	assert.Equal(t, normal(t, want), normal(t, got))
}

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

func names(attributes tens.Attributes) []string {
	var list []string
	for _, a := range attributes {
		list = append(list, a.Name)
	}
	return list
}

// flat returns the message with empty slices in place of nil, so that the two compare equal.
func flat(m *tens.Message) tens.Message {
	f := *m
	f.Label = append([]byte{}, m.Label...)
	f.Parts = nil
	for _, part := range m.Parts {
		f.Parts = append(f.Parts, append([]byte{}, part...))
	}
	return f
}

// logical returns the bytes of the elements in the order of their indices.
func logical(t *tens.Tensor, part []byte, strides []int64, offset int64) []byte {
	var out []byte
	var walk func(d int, at int64)
	walk = func(d int, at int64) {
		if d == len(t.Shape) {
			out = append(out, part[at*int64(t.Word):][:t.Word]...)
			return
		}
		for i := range t.Shape[d] {
			walk(d+1, at+i*strides[d])
		}
	}
	walk(0, offset)
	return out
}

// value decodes JSON and keeps every digit of numbers.
func value(t testing.TB, text []byte) any {
	if text == nil || string(text) == "null" {
		return nil
	}
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	var v any
	require.NoError(t, d.Decode(&v))
	return v
}

func assertJSON(t testing.TB, want, got []byte) {
	assert.Equal(t, value(t, want), value(t, got))
}

// normal returns a label with decoded JSON text and with all defaults.
func normal(t testing.TB, l *tens.Label) any {
	type normalTensor struct {
		tens.Tensor
		Metadata, Extra any
	}
	attributes := func(list tens.Attributes) any {
		m := map[string]any{}
		for _, a := range list {
			m[a.Name] = value(t, a.Value)
		}
		require.Len(t, m, len(list))
		return m
	}
	object := func(text []byte) any {
		if text == nil {
			return map[string]any{}
		}
		return value(t, text)
	}
	var tensors []normalTensor
	for _, tensor := range l.Tensors {
		n := normalTensor{tensor, value(t, tensor.Metadata), attributes(tensor.Extra)}
		n.Tensor.Metadata, n.Tensor.Extra = nil, nil
		tensors = append(tensors, n)
	}
	return []any{tensors, object(l.Metadata), attributes(l.Extra), attributes(l.LabelExtra)}
}
