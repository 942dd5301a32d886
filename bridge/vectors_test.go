//go:build cgo

package bridge_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/vectors"
	"github.com/dlbridge/dlbridge/dlpack/layout"
	"github.com/dlbridge/dlbridge/tens"
)

type vector struct {
	ID, Verdict string
	Frames      []string
	Typed       *bool
	Message     *struct{ Label *string }
	Tens        *struct {
		Tensors []struct {
			Shape         []int64
			Word, Part    int
			DType         string
			Strides       []int64
			Offset        int64
			LogicalSHA256 string `json:"logical_sha256"`
		}
	}
	folder vectors.Folder
}

type manifest struct {
	vectors.Folder
	Vectors []vector
}

func readVectors(t testing.TB, groups ...string) (all []vector) {
	for _, m := range vectors.Read[manifest](t, vectors.ZIO, groups...) {
		for _, v := range m.Vectors {
			v.folder = m.Folder
			all = append(all, v)
		}
	}
	require.NotEmpty(t, all)
	return all
}

func (v *vector) read(t testing.TB) (frames [][]byte) {
	for _, name := range v.Frames {
		frames = append(frames, v.folder.File(t, name))
	}
	return frames
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// Decode turns order and ascend into strides and an offset in the memory of the part, and Encode returns the same order
// and ascend. Neither copies.
func TestVectorsTravelBothWaysWithoutACopy(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	seen := 0
	for _, v := range readVectors(t, "tens", "layout") {
		t.Run(v.ID, func(t *testing.T) {
			msg := must.Do(tens.Decode(v.read(t)))(t)
			label := must.Do(msg.DecodeLabel())(t)
			ts := must.Do(bridge.Decode(msg))(t)
			require.Len(t, ts, len(v.Tens.Tensors))
			for i, want := range v.Tens.Tensors {
				seen++
				got := ts[i]
				part := msg.Parts[want.Part]
				assert.Equal(t, append([]int64{}, want.Shape...), got.Shape())
				assert.Equal(t, want.Word, got.DType().ItemSize())
				assert.True(t, got.ReadOnly())
				if want.Strides != nil {
					assert.Equal(t, append([]int64{}, want.Strides...), got.Strides())
				}
				if got.NumElements() > 0 {
					assert.Equal(t, address(part)+uintptr(want.Offset)*uintptr(want.Word), got.Data(), "the same memory")
				}
				elements := must.Do(got.AppendBytes(nil))(t)
				sum := sha256.Sum256(elements)
				assert.Equal(t, want.LogicalSHA256, hex.EncodeToString(sum[:]))
			}
			out, report, err := bridge.Encode(ts)
			require.NoError(t, err)
			again := must.Do(out.DecodeLabel())(t)
			for i, in := range label.Tensors {
				assert.Empty(t, report.Copied[i])
				assert.Equal(t, msg.Parts[in.Part], out.Parts[i])
				if len(out.Parts[i]) > 0 {
					assert.Equal(t, address(msg.Parts[in.Part]), address(out.Parts[i]), "the same memory")
				}
				back := again.Tensors[i]
				assert.Equal(t, in.DType, back.DType)
				before, offset, err := in.Strides()
				require.NoError(t, err)
				after, offsetAfter, err := back.Strides()
				require.NoError(t, err)
				if len(out.Parts[i]) > 0 {
					assert.Equal(t, offset, offsetAfter)
					for d, n := range in.Shape {
						if n > 1 {
							assert.Equal(t, before[d], after[d])
						}
					}
				}
			}
			for _, tensor := range ts {
				require.NoError(t, tensor.Close())
			}
		})
	}
	assert.Greater(t, seen, 20)
}

// Messages of other programs are relayed byte for byte. If a new tensor replaces the first, everything else stays.
func TestVectorsAreRelayedAsTheyCame(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	fresh := must.Own(dlpack.FromSlice([]float64{1, 2, 3}))(t)
	for _, v := range readVectors(t, "tens", "layout", "wirecell") {
		if v.Verdict != "accept" {
			continue
		}
		t.Run(v.ID, func(t *testing.T) {
			msg := must.Do(tens.Decode(v.read(t)))(t)
			label := must.Do(msg.DecodeLabel())(t)
			ts := must.Do(bridge.Decode(msg))(t)
			out, _, err := bridge.Encode(ts, bridge.Relay(msg))
			require.NoError(t, err)
			assert.Equal(t, string(msg.Label), string(out.Label))
			require.Len(t, out.Parts, len(msg.Parts))
			for i, part := range msg.Parts {
				assert.Equal(t, len(part), len(out.Parts[i]))
				assert.True(t, len(part) == 0 || address(part) == address(out.Parts[i]), "part %d was copied", i)
			}
			first := slices.IndexFunc(ts, func(x *dlpack.Tensor) bool { return x != nil })
			if first < 0 {
				return
			}
			changed := slices.Clone(ts)
			changed[first] = fresh
			out, _, err = bridge.Encode(changed, bridge.Relay(msg))
			require.NoError(t, err)
			got := must.Do(out.DecodeLabel())(t)
			assert.Equal(t, []int64{3}, got.Tensors[first].Shape)
			assert.Equal(t, string(label.Tensors[first].Metadata), string(got.Tensors[first].Metadata))
			for i := range label.Tensors {
				if i != first && !sharesPart(label, i, first) {
					want := label.Tensors[i]
					assert.Equal(t, want.Shape, got.Tensors[i].Shape)
					assert.Equal(t, want.Part, got.Tensors[i].Part)
					assert.Equal(t, string(want.Metadata), string(got.Tensors[i].Metadata))
				}
			}
			for _, x := range ts {
				x.Close()
			}
		})
	}
}

func sharesPart(l *tens.Label, i, k int) bool { return l.Tensors[i].Part == l.Tensors[k].Part }

func TestRelayKeepsWhatTensorsAreNotIn(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	texts := []string{
		`{"shape":[2],"word":1,"dtype":"u","part":1,"metadata":{"a":[1]},"packing":"dense","unit":"mV"}`,
		`{"shape":[9],"word":4,"dtype":"f","part":2,"packing":"zip"}`,
		`{"shape":[],"word":0,"dtype":"?","part":7,"metadata":{"b":{}}}`,
		`{"shape":[2,1],"word":1,"dtype":"u","part":1,"order":[1,0]}`,
	}
	msg := messageOf(t, strings.Join(texts, ","), []byte("other"), []byte{1, 2}, []byte("zipped"))
	ts := must.Do(bridge.Decode(msg))(t)
	out, _, err := bridge.Encode(ts, bridge.Relay(msg))
	require.NoError(t, err)
	assert.Equal(t, string(msg.Label), string(out.Label))
	assert.Equal(t, msg.Parts, out.Parts)
	wide := must.Own(dlpack.FromSlice([]int16{3, 4, 5}))(t)
	out, _, err = bridge.Encode([]*dlpack.Tensor{wide, nil, nil, ts[3]}, bridge.Relay(msg), bridge.TensorMetadata(3, []byte(`{"c":[2]}`)))
	require.NoError(t, err)
	assert.Equal(t, `{"TENS":{"metadata":{},"tensors":[{"dtype":"i","metadata":{"a":[1]},"part":1,"shape":[3],"unit":"mV","word":2},`+
		`{"dtype":"f","packing":"zip","part":2,"shape":[9],"word":4},{"dtype":"?","metadata":{"b":{}},"part":7,"shape":[],"word":0},`+
		`{"dtype":"u","metadata":{"c":[2]},"order":[1,0],"part":3,"shape":[2,1],"word":1}]}}`, string(out.Label))
	assert.Equal(t, [][]byte{[]byte("other"), {3, 0, 4, 0, 5, 0}, []byte("zipped"), {1, 2}}, out.Parts)
	unzipped := must.Own(dlpack.FromSlice([]float32{1}))(t)
	out, _, err = bridge.Encode([]*dlpack.Tensor{ts[0], unzipped, nil, ts[3]}, bridge.Relay(msg), bridge.Spread(1))
	require.NoError(t, err)
	assert.Equal(t, [][]byte{[]byte("other"), nil, {0, 0, 128, 63}, {1}, {2}, {1}, {2}}, out.Parts)
	must.Do(out.DecodeLabel())(t)
	for _, test := range []struct {
		ts   []*dlpack.Tensor
		text string
	}{
		{nil, "relay: 0 tensors, but the decoded message has 4"},
		{[]*dlpack.Tensor{nil, nil, nil, ts[3]}, "tensor 0: relay: the tensor is nil, but this tensor of the decoded message has elements"},
	} {
		_, _, err := bridge.Encode(test.ts, bridge.Relay(msg))
		assert.ErrorIs(t, err, tens.ErrInvalid)
		assert.ErrorContains(t, err, test.text)
	}
	_, _, err = bridge.Encode(nil, bridge.Relay(nil))
	assert.ErrorIs(t, err, tens.ErrNil)
	ts[0].Close()
	ts[3].Close()
}

// Invalid messages are errors, and leave no tensor open.
func TestInvalidVectorsAreRefused(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, v := range readVectors(t, "invalid") {
		if len(v.Frames) == 0 || v.Verdict == "accept" {
			continue
		}
		t.Run(v.ID, func(t *testing.T) {
			msg, err := tens.Decode(v.read(t))
			if err == nil {
				var ts []*dlpack.Tensor
				ts, err = bridge.Decode(msg)
				if err == nil && v.Verdict == "either" {
					for _, tensor := range ts {
						tensor.Close()
					}
					return
				}
			}
			require.Error(t, err)
		})
	}
}

func TestTensorsOfLentPartsAreViewsOfThem(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	loan := dlpacktest.Lend(t, 24)
	part := must.Do(dlpack.Lend(loan.Data(), 24, false, loan.Release(), loan.Context()))(t)
	label := must.Do(tens.DecodeLabel([]byte(`{"TENS":{"tensors":[{"shape":[2,3],"word":4,"dtype":"f","order":[0,1]}],"metadata":{}}}`)))(t)
	ts := must.Do(bridge.DecodeParts(label, []*dlpack.Tensor{part}))(t)
	assert.Equal(t, []int64{1, 2}, ts[0].Strides())
	assert.False(t, ts[0].ReadOnly())
	part.Close()
	assert.Zero(t, loan.Releases())
	m := must.Do(ts[0].Export())(t)
	ts[0].Close()
	dlpacktest.Fill(m, 1)
	assert.Equal(t, 6.0, dlpacktest.Sum(m))
	dlpacktest.DeleteOnThreads([]unsafe.Pointer{m}, 1)
	assert.Equal(t, 1, loan.Releases())

	must.Fail(bridge.DecodeParts(label, nil))(t, tens.ErrPartMissing)
}

func TestLentPartsMustBeRowsOfBytes(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	label := must.Do(tens.DecodeLabel([]byte(`{"TENS":{"tensors":[{"shape":[4],"word":1,"dtype":"u"}],"metadata":{}}}`)))(t)
	bytes := must.Own(dlpack.FromSlice([]uint8{0, 1, 2, 3, 4, 5, 6, 7}))(t)
	for name, part := range map[string]func() (*dlpack.Tensor, error){
		"every second byte":  func() (*dlpack.Tensor, error) { return bytes.Slice(layout.All().By(2)) },
		"backwards":          func() (*dlpack.Tensor, error) { return bytes.Slice(layout.From(3).By(-1)) },
		"of another type":    func() (*dlpack.Tensor, error) { return dlpack.FromSlice([]int32{1}) },
		"of another type, 4": func() (*dlpack.Tensor, error) { return dlpack.FromSlice([]int8{1, 2, 3, 4}) },
		"of rank 2":          func() (*dlpack.Tensor, error) { return dlpack.FromSlice([]uint8{1, 2, 3, 4}, 2, 2) },
	} {
		t.Run(name, func(t *testing.T) {
			part := must.Own(part())(t)
			_, err := bridge.DecodeParts(label, []*dlpack.Tensor{part})
			assert.ErrorIs(t, err, dlpack.ErrLayout)
			assert.ErrorContains(t, err, "part 0")
		})
	}
}

// messageOf returns a message with one part and one tensor of the given description.
func messageOf(t testing.TB, description string, parts ...[]byte) *tens.Message {
	t.Helper()
	return &tens.Message{
		Form:  [4]byte{'T', 'E', 'N', 'S'},
		Label: fmt.Appendf(nil, `{"TENS":{"tensors":[%s],"metadata":{}}}`, description),
		Parts: parts,
	}
}

// Types without a letter are encoded in the attribute dlpack.
func TestTypesWithoutALetterTravel(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	tests := []struct {
		dtype  dlpack.DataType
		padded bool
		bytes  int
		text   string
	}{
		{dlpack.BFloat16, false, 30, "[4,16,1]"},
		{dlpack.Float8E4M3FN, false, 15, "[10,8,1]"},
		{dlpack.Float4E2M1FN, false, 8, "[17,4,1]"},
		{dlpack.Float4E2M1FN, true, 15, "[17,4,1,4]"},
		{dlpack.Float4E2M1FNx2, false, 15, "[17,4,2]"},
		{dlpack.Float6E2M3FN, false, 12, "[15,6,1]"},
		{dlpack.Int4, true, 15, "[0,4,1,4]"},
		{dlpack.MakeDataType(dlpack.CodeFloat, 32, 4), false, 240, "[2,32,4]"},
		{dlpack.Complex32, false, 60, "[5,32,1]"},
		{dlpack.OpaqueHandle64, false, 120, "[3,64,1]"},
	}
	for _, test := range tests {
		t.Run(fmt.Sprint(test.dtype, test.padded), func(t *testing.T) {
			part := make([]byte, test.bytes)
			part[0] = 0x5a
			in := must.Own(dlpack.FromBytes(part, dlpack.Spec{DType: test.dtype, Shape: []int64{3, 5}, Padded: test.padded}))(t)
			msg, report, err := bridge.Encode([]*dlpack.Tensor{in})
			require.NoError(t, err)
			assert.Empty(t, report.Copied[0])
			assert.Equal(t, address(part), address(msg.Parts[0]))
			assert.Contains(t, string(msg.Label), `"dlpack":`+test.text)
			assert.Contains(t, string(msg.Label), `"dtype":"V"`, "older readers refuse it")
			ts := must.Do(bridge.Decode(msg))(t)
			assert.Equal(t, test.dtype, ts[0].DType())
			assert.Equal(t, test.padded, ts[0].Flags()&dlpack.SubbytePadded != 0)
			assert.Equal(t, address(part), ts[0].Data())
			ts[0].Close()
		})
	}
}

func TestMalformedExtensionsAreRefused(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, description := range []string{
		`{"shape":[8],"word":2,"dtype":"V","dlpack":[4,16]}`,
		`{"shape":[8],"word":2,"dtype":"V","dlpack":[4,16,1,1]}`,
		`{"shape":[8],"word":2,"dtype":"V","dlpack":[4,16,1,4]}`,
		`{"shape":[8],"word":2,"dtype":"V","dlpack":[4,16,1,4,4]}`,
		`{"shape":[8],"word":2,"dtype":"V","dlpack":[4.5,16,1]}`,
		`{"shape":[8],"word":2,"dtype":"V","dlpack":["4",16,1]}`,
		`{"shape":[8],"word":2,"dtype":"V","dlpack":null}`,
		`{"shape":[16],"word":1,"dtype":"V","dlpack":[null,8,1]}`,
		`{"shape":[8],"word":2,"dtype":"V","dlpack":{}}`,
		`{"shape":[8],"word":2,"dtype":"V","dlpack":[-1,16,1]}`,
		`{"shape":[8],"word":2,"dtype":"V","dlpack":[4,272,1]}`,
		`{"shape":[8],"word":2,"dtype":"V","dlpack":[4,16,0]}`,
		`{"shape":[8],"word":2,"dtype":"V","dlpack":[99,16,1]}`,
		`{"shape":[4],"word":4,"dtype":"V","dlpack":[4,16,1]}`,
		`{"shape":[8],"word":2,"dtype":"V"}`,
		`{"shape":[16],"word":1,"dtype":"V","dlpack":[17,4,1]}`,
		`{"shape":[4,8],"word":1,"dtype":"V","dlpack":[17,4,1],"order":[0,1]}`,
		`{"shape":[1],"word":16,"dtype":"f"}`,
	} {
		_, err := bridge.Decode(messageOf(t, description, make([]byte, 16)))
		assert.Error(t, err, description)
	}
}

func TestGapsAndBroadcastsAreCompacted(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	data := []float32{1, 2, 3, 4, 5, 6, 7, 8}
	base := must.Own(dlpack.FromSlice(data))(t)
	tests := []struct {
		name           string
		shape, strides []int64
		offset         int64
		want           []float32
	}{
		{"step", []int64{4}, []int64{2}, 0, []float32{1, 3, 5, 7}},
		{"columns", []int64{2, 2}, []int64{4, 1}, 4, []float32{2, 3, 6, 7}},
		{"broadcast", []int64{2, 2}, []int64{0, 1}, 0, []float32{1, 2, 1, 2}},
		{"backwards with a step", []int64{3}, []int64{-3}, 28, []float32{8, 5, 2}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			view := must.Own(base.View(dlpack.Spec{DType: dlpack.Float32, Shape: test.shape, Strides: test.strides, ByteOffset: test.offset}))(t)
			msg, report, err := bridge.Encode([]*dlpack.Tensor{base, view})
			require.NoError(t, err)
			assert.Empty(t, report.Copied[0])
			assert.Contains(t, report.Copied[1], "leave gaps or share elements")
			ts := must.Do(bridge.Decode(msg))(t)
			got := must.Do(dlpack.UnsafeValues[float32](ts[1]))(t)
			assert.Equal(t, test.want, got)
			for _, tensor := range ts {
				tensor.Close()
			}
		})
	}
}

func TestWritableFramesCanBeWritten(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	part := make([]byte, 16)
	msg := messageOf(t, `{"shape":[4],"word":4,"dtype":"i"}`, part)
	ts := must.Do(bridge.Decode(msg))(t)
	must.Fail(dlpack.Values[int32](ts[0]))(t, dlpack.ErrReadOnly)
	ts[0].Close()
	ts = must.Do(bridge.Decode(msg, bridge.Writable()))(t)
	defer ts[0].Close()
	values := must.Do(dlpack.Values[int32](ts[0]))(t)
	values[3] = 0x01020304
	assert.Equal(t, []byte{4, 3, 2, 1}, part[12:])
}

// A tensor aliases its part at any alignment; only Align copies.
func TestUnalignedPartsAreAliasedUnlessAlignmentIsAskedFor(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	part := make([]byte, 64)[1:17]
	part[0] = 7
	msg := messageOf(t, `{"shape":[4],"word":4,"dtype":"i"}`, part)
	ts := must.Do(bridge.Decode(msg))(t)
	assert.Equal(t, address(part), ts[0].Data())
	assert.Equal(t, 1, ts[0].Alignment())
	assert.Zero(t, ts[0].Flags()&dlpack.IsCopied)
	must.Fail(dlpack.UnsafeValues[int32](ts[0]))(t, dlpack.ErrUnaligned)
	ts[0].Close()
	ts = must.Do(bridge.Decode(msg, bridge.Align(64)))(t)
	defer ts[0].Close()
	assert.NotZero(t, ts[0].Flags()&dlpack.IsCopied)
	values := must.Do(dlpack.Values[int32](ts[0]))(t)
	assert.Equal(t, []int32{7, 0, 0, 0}, values)
}

func TestMetadataTravels(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	tensor := must.Own(dlpack.FromSlice([]uint8{1, 2}))(t)
	msg, _, err := bridge.Encode([]*dlpack.Tensor{tensor, tensor},
		bridge.Metadata([]byte(`{"run":7}`)),
		bridge.TensorMetadata(1, []byte(`{"gain":0.5}`)),
		bridge.LabelAttributes(tens.Attributes{{Name: "flow", Value: []byte(`"DAT"`)}}))
	require.NoError(t, err)
	label := must.Do(msg.DecodeLabel())(t)
	assert.JSONEq(t, `{"run":7}`, string(label.Metadata))
	assert.Nil(t, label.Tensors[0].Metadata)
	assert.JSONEq(t, `{"gain":0.5}`, string(label.Tensors[1].Metadata))
	flow, ok := label.LabelExtra.Get("flow")
	assert.True(t, ok)
	assert.Equal(t, `"DAT"`, string(flow))

	_, _, err = bridge.Encode([]*dlpack.Tensor{tensor}, bridge.Metadata([]byte(`[1]`)))
	assert.Error(t, err)
	_, _, err = bridge.Encode([]*dlpack.Tensor{tensor}, bridge.TensorMetadata(1, []byte(`{}`)))
	assert.ErrorIs(t, err, tens.ErrInvalid)
}

func TestNamesTravel(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	tensor := must.Own(dlpack.FromSlice([]uint8{1, 2}))(t)
	ts := []*dlpack.Tensor{tensor, tensor, tensor}
	unit := bridge.TensorMetadata(2, []byte(`{"unit":"m"}`))
	for _, options := range [][]bridge.EncodeOption{{bridge.Names("w", "", "b"), unit}, {unit, bridge.Names("w", "", "b")}} {
		msg, _, err := bridge.Encode(ts, options...)
		require.NoError(t, err)
		label := must.Do(msg.DecodeLabel())(t)
		assert.Equal(t, `{"name":"w"}`, string(label.Tensors[0].Metadata))
		assert.Nil(t, label.Tensors[1].Metadata)
		assert.Equal(t, `{"name":"b","unit":"m"}`, string(label.Tensors[2].Metadata))
		assert.Equal(t, 2, must.Do(label.Find("b"))(t))
	}
	for text, options := range map[string][]bridge.EncodeOption{
		`bridge: 2 names, but the number of tensors is 3: invalid`:        {bridge.Names("w", "b")},
		`bridge: tensors 0 and 2 are both named "w": invalid`:             {bridge.Names("w", "", "w")},
		`bridge: tensors 0 and 1 are both named "w": invalid`:             {bridge.TensorMetadata(0, []byte(`{"name":"w"}`)), bridge.Names("", "w", "b")},
		`bridge: tensor 1: tens: name "a\xff" is not UTF-8: name invalid`: {bridge.Names("w", "a\xff", "")},
		`bridge: tensor 0: tens: name "w", but the metadata have the name "\"x\"": name invalid`: {
			bridge.TensorMetadata(0, []byte(`{"name":"x"}`)), bridge.Names("w", "", "")},
		`bridge: tensor 2: tens: name "b", but the metadata have the name "\"x\"": name invalid`: {
			bridge.Names("w", "", "b"), bridge.TensorMetadata(2, []byte(`{"name":"x"}`))},
	} {
		_, _, err := bridge.Encode(ts, options...)
		assert.ErrorIs(t, err, tens.ErrInvalid)
		assert.EqualError(t, err, text)
	}
}

func TestUnknownPackingRefusesItsOwnTensor(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	sparse, dense := `{"shape":[9],"word":4,"dtype":"f","part":5,"packing":"sparse"}`, `{"shape":[2],"word":1,"dtype":"u","part":0}`
	msg := messageOf(t, sparse+","+dense, []byte{7, 8})
	label := must.Do(msg.DecodeLabel())(t)
	part := must.Own(dlpack.FromSlice([]byte{7, 8}))(t)
	for _, decode := range []func(...bridge.DecodeOption) ([]*dlpack.Tensor, error){
		func(o ...bridge.DecodeOption) ([]*dlpack.Tensor, error) { return bridge.Decode(msg, o...) },
		func(o ...bridge.DecodeOption) ([]*dlpack.Tensor, error) {
			return bridge.DecodeParts(label, []*dlpack.Tensor{part}, o...)
		},
	} {
		ts := must.Do(decode(bridge.Align(64)))(t)
		require.Len(t, ts, 2)
		assert.Nil(t, ts[0])
		values := must.Do(ts[1].AppendBytes(nil))(t)
		assert.Equal(t, []byte{7, 8}, values)
		must.Fail(ts[0].Export())(t, dlpack.ErrClosed)
		must.Fail(ts[0].AppendBytes(nil))(t, dlpack.ErrClosed)
		_, _, err := bridge.Encode(ts)
		assert.ErrorIs(t, err, dlpack.ErrClosed)
		assert.NoError(t, ts[0].Close())
		require.NoError(t, ts[1].Close())
	}
	must.Fail(bridge.DecodeTensor(&label.Tensors[0]))(t, tens.ErrUnsupported)
}

// If several tensors share a text, it is encoded once for each of them.
func TestLabelsThatNoMemoryHasRoomForAreRefused(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	tensor, err := dlpack.FromSlice([]uint8{1, 2})
	require.NoError(t, err)
	defer tensor.Close()
	text := make([]byte, 256<<20) // none of it is touched
	for _, share := range []func(*tens.Tensor){
		func(x *tens.Tensor) { x.Metadata = text },
		func(x *tens.Tensor) { x.Extra = tens.Attributes{{Name: "x", Value: text}} },
	} {
		_, _, err = bridge.Encode(slices.Repeat([]*dlpack.Tensor{tensor}, 1<<15), func(l *tens.Label) error {
			for i := range l.Tensors {
				share(&l.Tensors[i])
			}
			return nil
		})
		assert.ErrorIs(t, err, dlpack.ErrMemory)
	}
}

func TestEncodeRefusesClosedAndForeignMemory(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	closed := must.Do(dlpack.FromSlice([]uint8{1, 2}))(t)
	closed.Close()
	_, _, err := bridge.Encode([]*dlpack.Tensor{closed})
	assert.ErrorIs(t, err, dlpack.ErrClosed)
	p := dlpacktest.Produce(t, dlpacktest.Config{DeviceType: 2, Shape: []int64{2}})
	device := must.Own(dlpack.Import(p.Managed()))(t)
	_, _, err = bridge.Encode([]*dlpack.Tensor{device})
	assert.ErrorIs(t, err, dlpack.ErrDevice)
	assert.ErrorContains(t, err, "tensor 0")
}

// FuzzDecode: decoded tensors are encoded with the same parts, and decoded as equal tensors.
func FuzzDecode(f *testing.F) {
	for _, v := range readVectors(f, "tens", "layout", "invalid") {
		if len(v.Frames) > 0 {
			if packed, err := tens.AppendFrames(nil, v.read(f)); err == nil {
				f.Add(packed)
			}
		}
	}
	for _, x := range []string{`{"shape":[3],"word":2,"dtype":"i","part":0,"parts":2,"ascend":[false]}`, `{"shape":[1,6],"word":1,"dtype":"V","dlpack":[0,8,1],"part":0,"parts":2}`} {
		packed := must.Do(messageOf(f, x, []byte{1, 2}, []byte{3, 4, 5, 6}).AppendPacked(nil))(f)
		f.Add(packed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		msg, err := tens.DecodePacked(data)
		if err != nil {
			return
		}
		if joined, err := bridge.Decode(msg, bridge.Join()); err == nil {
			label := must.Do(msg.DecodeLabel())(t)
			require.Len(t, joined, len(label.Tensors))
			for i, x := range joined {
				require.Equal(t, label.Tensors[i].IsDense(), x != nil)
				if x != nil {
					require.True(t, slices.Equal(label.Tensors[i].Shape, x.Shape()))
				}
				x.Close()
			}
		}
		ts, err := bridge.Decode(msg)
		if err != nil {
			return
		}
		if label := must.Do(msg.DecodeLabel())(t); len(label.Tensors) == len(ts) { // no tensor is in several parts
			relayed, _, err := bridge.Encode(ts, bridge.Relay(msg))
			require.NoError(t, err)
			require.Equal(t, string(msg.Label), string(relayed.Label))
			require.Equal(t, len(msg.Parts), len(relayed.Parts))
			for i := range msg.Parts {
				require.True(t, bytes.Equal(msg.Parts[i], relayed.Parts[i]))
			}
		}
		ts = slices.DeleteFunc(ts, func(x *dlpack.Tensor) bool { return x == nil })
		out, report, err := bridge.Encode(ts)
		require.NoError(t, err)
		again := must.Do(bridge.Decode(out))(t)
		for i := range ts {
			require.Empty(t, report.Copied[i])
			assert.Equal(t, ts[i].DType(), again[i].DType())
			assert.Equal(t, ts[i].Shape(), again[i].Shape())
			a := must.Do(ts[i].AppendBytes(nil))(t)
			b := must.Do(again[i].AppendBytes(nil))(t)
			assert.Equal(t, a, b)
			ts[i].Close()
			again[i].Close()
		}
	})
}
