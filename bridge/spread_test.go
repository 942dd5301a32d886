//go:build cgo

package bridge_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge"
	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/amplification"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/testmode"
	"github.com/dlbridge/dlbridge/tens"
)

// randomTensor returns a tensor without gaps, of random type, shape, order and directions. Packed elements are row-major.
func randomTensor(t *testing.T, r *rand.Rand) *dlpack.Tensor {
	types := []dlpack.DataType{dlpack.Uint8, dlpack.Int16, dlpack.Float32, dlpack.Complex128, dlpack.BFloat16,
		dlpack.MakeDataType(dlpack.CodeInt, 4, 1), dlpack.MakeDataType(dlpack.CodeFloat, 32, 3)}
	dt := types[r.IntN(len(types))]
	shape := make([]int64, r.IntN(5))
	n := int64(1)
	for d := range shape {
		shape[d] = int64(r.IntN(6))
		if shape[d] == 0 && r.IntN(4) > 0 {
			shape[d] = 1
		}
		n *= shape[d]
	}
	strides, offset := make([]int64, len(shape)), int64(0)
	order := r.Perm(len(shape))
	if dt.IsSubByte() {
		slices.Sort(order)
	}
	step := int64(1)
	for _, d := range slices.Backward(order) {
		strides[d] = step
		if n > 0 && !dt.IsSubByte() && r.IntN(3) == 0 {
			strides[d] = -step
			offset += step * (shape[d] - 1)
		}
		step *= max(shape[d], 1)
	}
	size := must.Do(dt.NumBytes(n, false))(t)
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return must.Do(dlpack.FromBytes(data, dlpack.Spec{DType: dt, Shape: shape, Strides: strides, ByteOffset: offset * int64(dt.ItemSize())}))(t)
}

func elementsOf(t *testing.T, x *dlpack.Tensor) []byte {
	return must.Do(x.AppendBytes(nil))(t)
}

func closeAll(t *testing.T, ts []*dlpack.Tensor) {
	for _, x := range ts {
		require.NoError(t, x.Close())
	}
}

// decoders returns Decode, and DecodeParts with parts in other memory.
func decoders(t *testing.T, msg *tens.Message) []func(...bridge.DecodeOption) ([]*dlpack.Tensor, error) {
	return []func(...bridge.DecodeOption) ([]*dlpack.Tensor, error){
		func(o ...bridge.DecodeOption) ([]*dlpack.Tensor, error) { return bridge.Decode(msg, o...) },
		func(o ...bridge.DecodeOption) ([]*dlpack.Tensor, error) {
			label, err := msg.DecodeLabel()
			if err != nil {
				return nil, err
			}
			var parts []*dlpack.Tensor
			for _, data := range msg.Parts {
				part := must.Do(dlpack.New(dlpack.Uint8, int64(len(data))))(t)
				defer part.Close()
				room, _, err := part.UnsafeBytes()
				require.NoError(t, err)
				copy(room, data)
				parts = append(parts, part)
			}
			return bridge.DecodeParts(label, parts, o...)
		},
	}
}

// The parts of a spread tensor together are the part of the whole tensor, and alias it.
func TestSpreadTensorsAreThoseOfOnePart(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	r := rand.New(rand.NewPCG(1, 2))
	cuts := 0
	for i := range 600 {
		x := randomTensor(t, r)
		limit := 1 + r.Int64N(x.NumBytes()+2)
		name := fmt.Sprintf("%d: %s, Spread(%d)", i, x, limit)
		plain, _, err := bridge.Encode([]*dlpack.Tensor{x, x})
		require.NoError(t, err, name)
		msg, report, err := bridge.Encode([]*dlpack.Tensor{x, x}, bridge.Spread(limit))
		require.NoError(t, err, name)
		assert.Equal(t, []string{"", ""}, report.Copied, name)
		label, err := msg.DecodeLabel()
		require.NoError(t, err, name)
		one := &label.Tensors[0]
		count := max(one.Parts, 1)
		require.Len(t, msg.Parts, 2*count, name)
		require.True(t, bytes.Equal(plain.Parts[0], slices.Concat(msg.Parts[:count]...)), name)
		whole := plain.Parts[0]
		for _, part := range msg.Parts[:count] {
			assert.Equal(t, address(whole), address(part), name)
			whole = whole[len(part):]
		}
		dim, step, ok, err := bridge.Step(one)
		require.NoError(t, err, name)
		if one.Parts < 2 {
			assert.True(t, !ok || x.NumBytes() <= limit || x.Dim(dim) == 1, name)
		} else {
			cuts++
			require.True(t, ok)
			for _, part := range msg.Parts {
				assert.LessOrEqual(t, int64(len(part)), max(limit, step), name)
			}
			requireOldReadersRefuse(t, msg, label)
		}
		for _, decode := range decoders(t, msg) {
			for _, align := range []int{0, 64} {
				options := []bridge.DecodeOption{bridge.Join()}
				if align > 0 {
					options = append(options, bridge.Align(align))
				}
				joined, err := decode(options...)
				require.NoError(t, err, name)
				require.Len(t, joined, 2)
				for _, y := range joined {
					assert.Equal(t, x.DType(), y.DType())
					assert.Equal(t, x.Shape(), y.Shape())
					assert.Equal(t, elementsOf(t, x), elementsOf(t, y), name)
					if count > 1 {
						assert.Equal(t, dlpack.IsCopied, y.Flags(), name)
						assert.NoError(t, y.RequireAlign(dlpack.AllocAlignment), name)
					}
				}
				closeAll(t, joined)
				pieces, err := decode(options[1:]...)
				require.NoError(t, err, name)
				require.Len(t, pieces, 2*count, name)
				requirePieces(t, x, dim, pieces[:count], name)
				requirePieces(t, x, dim, pieces[count:], name)
				closeAll(t, pieces)
			}
		}
		require.NoError(t, x.Close())
	}
	assert.Greater(t, cuts, 100)
}

// requirePieces checks that the pieces are the pieces of x along dim, in memory order.
func requirePieces(t *testing.T, x *dlpack.Tensor, dim int, pieces []*dlpack.Tensor, name string) {
	if len(pieces) == 1 {
		require.Equal(t, elementsOf(t, x), elementsOf(t, pieces[0]), name)
		return
	}
	if x.Stride(dim) < 0 {
		pieces = slices.Clone(pieces)
		slices.Reverse(pieces)
	}
	start := int64(0)
	for _, piece := range pieces {
		want, err := x.Narrow(dim, start, piece.Dim(dim))
		require.NoError(t, err, name)
		require.Equal(t, want.Shape(), piece.Shape(), name)
		require.Equal(t, elementsOf(t, want), elementsOf(t, piece), name)
		require.NoError(t, want.Close())
		start += piece.Dim(dim)
	}
	require.Equal(t, x.Dim(dim), start)
}

// requireOldReadersRefuse checks that a reader that does not know the attribute parts finds the first part too small.
func requireOldReadersRefuse(t *testing.T, msg *tens.Message, label *tens.Label) {
	for i := range label.Tensors {
		old := label.Tensors[i]
		old.Parts = 0
		what := must.Do(bridge.DecodeTensor(&old))(t)
		require.Less(t, int64(len(msg.Parts[old.Part])), what.NBytes)
		var parts []*dlpack.Tensor
		for _, data := range msg.Parts {
			part := must.Do(dlpack.FromSlice(data))(t)
			parts = append(parts, part)
		}
		must.Fail(bridge.DecodeParts(&tens.Label{Tensors: []tens.Tensor{old}}, parts))(t, elements.ErrSize)
		closeAll(t, parts)
	}
}

func TestPiecesAreReadOnlyWithoutWritable(t *testing.T) {
	msg := messageOf(t, `{"shape":[3],"word":1,"dtype":"u","part":0,"parts":2}`, []byte{1, 2}, []byte{3})
	for _, writable := range []bool{false, true} {
		var options []bridge.DecodeOption
		if writable {
			options = append(options, bridge.Writable())
		}
		ts := must.Do(bridge.Decode(msg, options...))(t)
		require.Len(t, ts, 2)
		assert.Equal(t, !writable, ts[1].ReadOnly())
		assert.Equal(t, address(msg.Parts[1]), ts[1].Data())
		closeAll(t, ts)
		ts = must.Do(bridge.Decode(msg, append(options, bridge.Join())...))(t)
		require.Len(t, ts, 1)
		assert.False(t, ts[0].ReadOnly())
		closeAll(t, ts)
	}
}

func TestSpreadRefusesWhatCannotBeCut(t *testing.T) {
	x, err := dlpack.FromSlice([]uint8{1, 2})
	require.NoError(t, err)
	defer x.Close()
	for _, size := range []int64{0, -1} {
		_, _, err = bridge.Encode([]*dlpack.Tensor{x}, bridge.Spread(size))
		assert.ErrorIs(t, err, tens.ErrInvalid)
	}
	_, _, err = bridge.Encode([]*dlpack.Tensor{x}, func(l *tens.Label) error { l.Tensors[0].Parts = 3; return nil })
	assert.ErrorIs(t, err, tens.ErrInvalid)
	msg, _, err := bridge.Encode([]*dlpack.Tensor{x}, func(l *tens.Label) error { l.Tensors[0].Parts = 2; return nil })
	require.NoError(t, err)
	assert.Equal(t, [][]byte{{1}, {2}}, msg.Parts)
}

// Packed elements are cut between whole bytes only.
func TestPiecesOfPackedElementsAreWholeBytes(t *testing.T) {
	tensor := func(shape string) string {
		return `{"shape":` + shape + `,"word":1,"dtype":"V","dlpack":[0,4,1],"part":0,"parts":2}`
	}
	for _, test := range []struct {
		shape string
		sizes [2]int
		kind  error
	}{
		{"[3,2]", [2]int{1, 2}, nil},
		{"[3,2]", [2]int{2, 1}, nil},
		{"[3,2]", [2]int{1, 1}, elements.ErrSize},
		{"[3,2]", [2]int{2, 2}, elements.ErrSize},
		{"[2,3]", [2]int{2, 1}, tens.ErrInvalid}, // an index takes a byte and a half
		{"[4]", [2]int{1, 1}, tens.ErrInvalid},
	} {
		msg := messageOf(t, tensor(test.shape), make([]byte, test.sizes[0]), make([]byte, test.sizes[1]))
		for _, options := range [][]bridge.DecodeOption{nil, {bridge.Join()}} {
			ts, err := bridge.Decode(msg, options...)
			if test.kind == nil {
				require.NoError(t, err)
				require.Len(t, ts, 2-len(options))
			} else {
				require.ErrorIs(t, err, test.kind, "%s %v", test.shape, test.sizes)
			}
			closeAll(t, ts)
		}
	}
}

// Tensors may share parts, and each tensor is joined separately.
func TestPiecesAndJoinedCopiesAreBounded(t *testing.T) {
	testmode.SkipMemory(t)
	dlpacktest.CheckLeaks(t)
	defer dlpack.SetLedger(dlpack.SetLedger(false)) // its records are allocated
	decode := func(n int, tensor string, parts [][]byte, options ...bridge.DecodeOption) error {
		label := `{"TENS":{"tensors":[` + strings.TrimSuffix(strings.Repeat(tensor+",", n), ",") + `]}}`
		msg := &tens.Message{Form: [4]byte{'T', 'E', 'N', 'S'}, Label: []byte(label), Parts: parts}
		ts, err := bridge.Decode(msg, options...)
		closeAll(t, ts)
		return err
	}
	const size = 1 << 20
	two := [][]byte{make([]byte, size/2), make([]byte, size/2)}
	tensor := fmt.Sprintf(`{"part":0,"parts":2,"shape":[2,%d],"word":1,"dtype":"u"}`, size/2)
	require.NoError(t, decode(68, tensor, two, bridge.Join())) // the limit: four times the parts plus 64 MiB
	err := decode(69, tensor, two, bridge.Join())
	require.ErrorIs(t, err, dlpack.ErrMemory)
	assert.ErrorContains(t, err, "bridge: tensor 68: joined copies need more than")
	require.NoError(t, decode(300, tensor, two))

	// The views of many pieces take more memory than the bytes of the pieces.
	many := slices.Repeat([][]byte{{1}}, 30_000)
	for _, more := range []string{`"word":1,"dtype":"u"`, `"word":1,"dtype":"V","dlpack":[0,8,1]`, `"word":1,"dtype":"u","order":[0]`} {
		tensor = `{"part":0,"parts":30000,"shape":[30000],` + more + `}`
		for _, options := range [][]bridge.DecodeOption{nil, {bridge.Join()}} {
			amplification.Require(t, 2*30_000, 512+32, 0, func() func() { // as [bridge.Decode] documents for one dimension
				require.NoError(t, decode(2, tensor, many, options...))
				return nil
			})
		}
	}
	tensor = `{"part":0,"parts":30000,"shape":[30000],"word":1,"dtype":"u"}`
	require.NoError(t, decode(4, tensor, many))
	assert.ErrorIs(t, decode(5, tensor, many), tens.ErrInvalid)
	tensor = `{"part":0,"parts":30000,"shape":[30000` + strings.Repeat(",1", 200) + `],"word":1,"dtype":"u"}`
	assert.ErrorIs(t, decode(1, tensor, many), dlpack.ErrMemory)
	require.NoError(t, decode(1, tensor, many, bridge.Join()))
}
