//go:build linux && cgo

package shm_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge"
	"github.com/dlbridge/dlbridge/bridge/shm"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/tens"
)

// offeredMessage encodes tensors with offers, and decodes the frames again.
func offeredMessage(t *testing.T, ts []*dlpack.Tensor, options ...bridge.EncodeOption) (*tens.Message, *tens.Label, []*dlpack.Tensor) {
	msg, _, err := bridge.Encode(ts, append(options, shm.Offers(ts, time.Minute))...)
	require.NoError(t, err)
	got := must.Do(tens.Decode(msg.Encode()))(t)
	label := must.Do(got.DecodeLabel())(t)
	decoded := must.Do(bridge.Decode(got))(t)
	t.Cleanup(func() {
		for _, x := range decoded {
			x.Close()
		}
	})
	return got, label, decoded
}

func TestAMessageCarriesATensorOfAnySize(t *testing.T) {
	offering(t)
	x := must.Do(shm.New(dlpack.Uint8, 1<<30))(t)
	defer x.Close()
	require.NoError(t, x.SetAt(uint8(7), 1<<29))
	msg, label, ts := offeredMessage(t, []*dlpack.Tensor{x})
	size := 0
	for _, frame := range msg.Parts {
		size += len(frame)
	}
	assert.Zero(t, size)
	assert.Less(t, len(msg.Label), 400)
	require.Nil(t, ts[0])
	require.NoError(t, shm.FetchTensors(t.Context(), label, ts))
	v := must.Do(ts[0].At(1 << 29))(t)
	assert.Equal(t, uint8(7), v)
	assert.True(t, ts[0].ReadOnly())
}

func TestTensorsInSegmentsTravelBesideOthers(t *testing.T) {
	offering(t)
	x := numbers(t, 3, 4)
	turned := must.Do(x.Transpose())(t)
	defer turned.Close()
	back := must.Do(x.Flip(0, 1))(t)
	defer back.Close()
	rows := must.Do(x.Narrow(0, 1, 2))(t)
	defer rows.Close()
	gaps := must.Do(x.Narrow(1, 1, 2))(t)
	defer gaps.Close()
	plain := must.Do(dlpack.FromSlice([]float64{1, 2, 3, 4, 5, 6}, 2, 3))(t)
	defer plain.Close()
	empty := must.Do(shm.New(dlpack.Int8, 0, 2))(t)
	defer empty.Close()
	all := []*dlpack.Tensor{x, plain, turned, back, gaps, rows, empty}
	msg, label, ts := offeredMessage(t, all, bridge.Spread(24))
	assert.Len(t, msg.Parts, 2+1+1) // two pieces of plain, the copy of gaps, nothing of empty
	require.NoError(t, shm.FetchTensors(t.Context(), label, ts))
	require.Len(t, ts, 8)
	for i, want := range []*dlpack.Tensor{x, nil, nil, turned, back, gaps, rows, empty} {
		if want != nil {
			assert.True(t, must.Do(dlpack.Equal(want, ts[i]))(t), "%v instead of %v", ts[i], want)
		}
	}
}

func TestSpreadAndOffersWorkInEveryOrder(t *testing.T) {
	offering(t)
	private := must.Do(dlpack.FromSlice([]int32{1, 2, 3, 4}, 2, 2))(t)
	defer private.Close()
	shared := must.Do(shm.Copy(private))(t)
	defer shared.Close()
	want := must.Do(private.AppendBytes(nil))(t)
	for _, ts := range [][]*dlpack.Tensor{{private, shared}, {shared, private}, {private, shared, shared}, {private, private, shared}, {shared}} {
		for _, offersFirst := range []bool{true, false} {
			options := []bridge.EncodeOption{shm.Offers(ts, time.Minute), bridge.Spread(8)}
			if !offersFirst {
				slices.Reverse(options)
			}
			msg, _, err := bridge.Encode(ts, options...)
			require.NoError(t, err)
			got := must.Do(tens.Decode(msg.Encode()))(t)
			label := must.Do(got.DecodeLabel())(t)
			decoded := must.Do(bridge.Decode(got, bridge.Join()))(t)
			require.NoError(t, shm.FetchTensors(t.Context(), label, decoded))
			require.Len(t, decoded, len(ts))
			parts := 0
			for i, x := range decoded {
				got := must.Do(x.AppendBytes(nil))(t)
				assert.Equal(t, want, got)
				assert.Equal(t, ts[i] == shared, shm.IsShared(x))
				if ts[i] == private {
					parts += 2
				}
				x.Close()
			}
			assert.Len(t, got.Parts, parts)
		}
	}
}

// A broadcast with gaps may repeat as many elements as it leaves out.
func TestABroadcastWithGapsIsNotOffered(t *testing.T) {
	offering(t)
	x := numbers(t, 4)
	for _, spec := range []dlpack.Spec{
		{Shape: []int64{2, 2}, Strides: []int64{3, 0}},
		{Shape: []int64{2, 2}, Strides: []int64{0, -3}, ByteOffset: 12},
		{Shape: []int64{3, 1}, Strides: []int64{1, 7}},
	} {
		spec.DType = x.DType()
		view := must.Do(x.View(spec))(t)
		defer view.Close()
		msg, label, ts := offeredMessage(t, []*dlpack.Tensor{view})
		packed := spec.Shape[1] == 1
		assert.Equal(t, packed, len(msg.Parts) == 0)
		require.NoError(t, shm.FetchTensors(t.Context(), label, ts))
		assert.True(t, must.Do(dlpack.Equal(view, ts[0]))(t), "%v instead of %v", ts[0], view)
	}
}

func TestNothingIsOfferedIfOneTensorCannotBe(t *testing.T) {
	offering(t)
	x, y := numbers(t, 4), numbers(t, 4)
	readOnly := must.Do(shm.ReadOnly(y))(t)
	defer readOnly.Close()
	ts := []*dlpack.Tensor{x, readOnly}
	_, _, err := bridge.Encode(ts, shm.Offers(ts, time.Minute, shm.Writable()))
	require.ErrorContains(t, err, "tensor 1: shm: offer: it is read-only")
	assert.Zero(t, shm.Offered())
}

func TestAttributesThatAreNotHandlesAreRefused(t *testing.T) {
	offering(t)
	for _, test := range []struct{ attribute, text string }{
		{``, `tensor 1: it has no attribute "shm"`},
		{`,"shm":7`, `tensor 1: attribute "shm"`},
		{`,"shm":{}`, "the segment has 0 bytes"},
		{`,"shm":{"socket":"x","token":"00000000000000000000000000000000","offset":0,"size":16}`, "the socket must be"},
		{`,"shm":{"offset":-1}`, `tensor 1: attribute "shm"`},
	} {
		text := `{"TENS":{"tensors":[{"dtype":"f","packing":"lz4","shape":[4],"word":4},` +
			`{"dtype":"f","packing":"shm","shape":[4]` + test.attribute + `,"word":4}],"metadata":{}}}`
		label := must.Do(tens.DecodeLabel([]byte(text)))(t)
		ts := make([]*dlpack.Tensor, 2)
		require.ErrorContains(t, shm.FetchTensors(t.Context(), label, ts), test.text)
		assert.Equal(t, make([]*dlpack.Tensor, 2), ts)
	}
	x := numbers(t, 4)
	_, label, ts := offeredMessage(t, []*dlpack.Tensor{x, x})
	label.Tensors[1].Shape = []int64{5}
	require.ErrorContains(t, shm.FetchTensors(t.Context(), label, ts), "tensor 1: shm: fetch: its elements reach from byte 0 to 20")
	require.Equal(t, []*dlpack.Tensor{nil, nil}, ts)
	label.Tensors[1].Shape = []int64{4}
	require.NoError(t, shm.FetchTensors(t.Context(), label, ts)) // neither handle has been used
	ts[0].Close()
	ts[1].Close()
	ts[0], ts[1] = nil, nil
	require.ErrorIs(t, shm.FetchTensors(t.Context(), label, ts), shm.ErrNotOffered)
	_, label, ts = offeredMessage(t, []*dlpack.Tensor{x, x})
	again := slices.Clone(label.Tensors)
	label.Tensors = append(label.Tensors, label.Tensors[0])
	ts = append(ts, nil)
	require.ErrorContains(t, shm.FetchTensors(t.Context(), label, ts), "tensor 2: shm: fetch: handle: it was used before")
	require.Equal(t, []*dlpack.Tensor{nil, nil, nil}, ts) // the tensors before it are closed
	require.Len(t, again, 2)
	_, _, err := bridge.Encode([]*dlpack.Tensor{x}, shm.Offers(nil, time.Minute))
	require.ErrorIs(t, err, dlpack.ErrValue)
}
