//go:build cgo

package zeromq_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/zeromq"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/vectors"
)

type vector struct {
	ID, Verdict string
	Frames      []string
	Encoded     struct {
		SHA256 string
		File   string
	}
	frames [][]byte
	single []byte // the packed form, nil if there is no file with it
}

type manifest struct {
	vectors.Folder
	Vectors []vector
}

func readVectors(t testing.TB, groups ...string) (all []vector) {
	for _, m := range vectors.Read[manifest](t, vectors.ZIO, groups...) {
		for _, v := range m.Vectors {
			for _, name := range v.Frames {
				v.frames = append(v.frames, m.File(t, name))
			}
			if v.Encoded.File != "" {
				v.single = m.File(t, v.Encoded.File)
			}
			all = append(all, v)
		}
	}
	require.NotEmpty(t, all)
	return all
}

func encoded(t *testing.T) [][]byte {
	x := must.Do(dlpack.FromSlice([]int32{1, 2, 3}))(t)
	t.Cleanup(func() { x.Close() })
	m := must.Do(zeromq.Encode([]*dlpack.Tensor{x}))(t)
	frames := must.Do(m.Frames())(t)
	return frames
}

func packed(t *testing.T) []byte {
	m := must.Do(zeromq.Decode(encoded(t)))(t)
	defer m.Close()
	require.NoError(t, m.Pack())
	frames := must.Do(m.Frames())(t)
	require.Len(t, frames, 1)
	return slices.Clone(frames[0])
}

func TestDecodeFindsTheMessageBehindItsRouting(t *testing.T) {
	frames, single := encoded(t), packed(t)
	dlpacktest.CheckLeaks(t)
	for name, routing := range map[string][][]byte{
		"none":                {},
		"a delimiter":         {{}},
		"an id":               {{0, 1, 2, 3, 4}},
		"an id, a delimiter":  {[]byte("name"), {}},
		"several, with a hop": {{0, 1, 2, 3, 4}, []byte("worker"), {}},
	} {
		for form, frames := range map[string][][]byte{"frames": frames, "one frame": {single}} {
			t.Run(name+"/"+form, func(t *testing.T) {
				m := must.Do(zeromq.Decode(slices.Concat(routing, frames)))(t)
				defer m.Close()
				assert.Len(t, m.Routing, len(routing))
				for i := range routing {
					assert.Equal(t, string(routing[i]), string(m.Routing[i]))
				}
				require.Len(t, m.Tensors, 1)
				got, err := dlpack.Values[int32](m.Tensors[0])
				if err == nil { // unaligned in the single frame
					assert.Equal(t, []int32{1, 2, 3}, got)
				}
				back := must.Do(m.Frames())(t)
				assert.Len(t, back, len(routing)+3)
			})
		}
	}
}

// Where an id is required, a frame that looks like a message is an id.
func TestDecodeTakesTheFirstFrameAsAnIDIfItIsRouted(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	frames := encoded(t)
	m := must.Do(zeromq.Decode(slices.Concat([][]byte{[]byte("ZIO0TENS")}, frames), zeromq.Routed()))(t)
	defer m.Close()
	require.Len(t, m.Routing, 1)
	require.Len(t, m.Tensors, 1)
}

func TestDecodeCopiesNothingAndKeepsTheFrames(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	x := make([]byte, 1<<16)
	tensor := must.Do(dlpack.FromSlice(x))(t)
	sent := must.Do(zeromq.Encode([]*dlpack.Tensor{tensor}))(t)
	frames := must.Do(sent.Frames())(t)
	m := must.Do(zeromq.Decode(frames, zeromq.Writable()))(t)
	require.NoError(t, tensor.Close())
	require.NoError(t, dlpack.Use(m.Tensors[0], func(data []byte) error { data[7] = 7; return nil }))
	assert.EqualValues(t, 7, x[7])
	m.Close()

	m = must.Do(zeromq.Decode(frames))(t)
	defer m.Close()
	assert.True(t, m.Tensors[0].ReadOnly())
}

func TestDecodeRefusesWhatIsNoMessage(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	for _, v := range readVectors(t, "invalid") {
		for _, frames := range [][][]byte{v.frames, {v.single}} {
			m, err := zeromq.Decode(frames)
			if err == nil {
				assert.NotEqual(t, "reject", v.Verdict, v.ID)
				m.Close()
			}
		}
	}
	for name, frames := range map[string][][]byte{
		"nothing": nil, "an empty frame": {{}}, "noise": {[]byte("noise"), []byte("more")}, "one frame": {[]byte("noise")},
	} {
		_, err := zeromq.Decode(frames)
		assert.Error(t, err, name)
		_, err = zeromq.Decode(frames, zeromq.Routed())
		assert.Error(t, err, name)
	}
	must.Fail(zeromq.Decode(encoded(t), zeromq.Limit(10)))(t, zeromq.ErrLimit)
	_, err := zeromq.Decode(encoded(t), zeromq.Limit(-1))
	assert.ErrorContains(t, err, "-1 bytes is negative")
}

// The parts of a message lie in the memory of its tensors, which Close frees.
func TestFramesOfAClosedTensorAreRefused(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	open := must.Do(dlpack.FromSlice([]int32{1, 2, 3}))(t)
	defer open.Close()
	closed := must.Do(open.Share())(t)
	m := must.Do(zeromq.Encode([]*dlpack.Tensor{open, closed}))(t)
	defer m.Close()
	packed := must.Do(zeromq.Encode([]*dlpack.Tensor{open, closed}))(t)
	defer packed.Close()
	require.NoError(t, packed.Pack())
	require.NoError(t, closed.Close())
	_, err := m.Frames()
	require.ErrorIs(t, err, dlpack.ErrClosed)
	assert.ErrorContains(t, err, "zeromq: tensor 1: ")
	require.ErrorIs(t, m.Pack(), dlpack.ErrClosed)
	frames, err := packed.Frames()
	require.NoError(t, err, "a copy needs no tensor")

	got := must.Do(zeromq.Decode(frames))(t)
	defer got.Close()
	require.NoError(t, got.Tensors[0].Close())
	_, err = got.Frames()
	require.NoError(t, err, "the parts of a message that was received stay until its Close")
}

// The parts and the packed form of a received message lie in memory that Close releases.
func TestAClosedMessageHasNoFrames(t *testing.T) {
	frames, single := encoded(t), packed(t)
	dlpacktest.CheckLeaks(t)
	given := must.Do(dlpack.FromSlice([]int32{1, 2, 3}))(t)
	defer given.Close()
	for name, message := range map[string]func() (*zeromq.Message, error){
		"received":           func() (*zeromq.Message, error) { return zeromq.Decode(frames) },
		"received, one part": func() (*zeromq.Message, error) { return zeromq.Decode([][]byte{single}) },
		"encoded":            func() (*zeromq.Message, error) { return zeromq.Encode([]*dlpack.Tensor{given}) },
	} {
		for _, pack := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", packed: ", pack), func(t *testing.T) {
				m := must.Do(message())(t)
				if pack {
					require.NoError(t, m.Pack())
				}
				another := *m
				m.Close()
				_, err := m.Frames()
				require.ErrorIs(t, err, zeromq.ErrClosed)
				require.EqualError(t, err, "zeromq: the message is closed")
				require.ErrorIs(t, m.Pack(), zeromq.ErrClosed)
				assert.Empty(t, m.Parts)
				assert.Empty(t, m.Label)
				if pack {
					_, err = another.Frames()
					require.ErrorIs(t, err, zeromq.ErrClosed, "a copy has the same memory")
				}
				m.Close()
			})
		}
	}
}
