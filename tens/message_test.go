package tens_test

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/tens"
)

var (
	formTENS = [4]byte{'T', 'E', 'N', 'S'}
	formFLOW = [4]byte{'F', 'L', 'O', 'W'}
)

// requireFault requires err to be an *Error of the given kind, and returns it.
func requireFault(t testing.TB, kind, err error) *tens.Error {
	require.ErrorIs(t, err, kind)
	var fault *tens.Error
	require.ErrorAs(t, err, &fault)
	return fault
}

func TestParseRefusesFramesThatAreNoMessage(t *testing.T) {
	prefix, header := []byte("ZIO0TENS{}"), make([]byte, tens.HeaderSize)
	for _, test := range []struct {
		name   string
		frames [][]byte
		kind   error
		text   string
	}{
		{"nothing", nil, tens.ErrTooFewFrames, "tens: 0 frames, want at least 2: too few frames"},
		{"prefix alone", [][]byte{prefix}, tens.ErrTooFewFrames,
			"tens: 1 frame, want at least 2; DecodeFrames splits the packed form: too few frames"},
		{"empty prefix", [][]byte{nil, header}, tens.ErrPrefixShort, "tens: 0 bytes, want at least 8: prefix too short"},
		{"prefix of 7 bytes", [][]byte{prefix[:7], header}, tens.ErrPrefixShort, "tens: 7 bytes, want at least 8: prefix too short"},
		{"other magic", [][]byte{[]byte("ZMQ0TENS"), header}, tens.ErrBadMagic,
			`tens: "ZMQ" instead of "ZIO": prefix without the magic ZIO`},
		{"level X", [][]byte{[]byte("ZIOXTENS"), header}, tens.ErrBadLevel, `tens: level "X": level must be 0 to 8`},
		{"level below 0", [][]byte{[]byte("ZIO/TENS"), header}, tens.ErrBadLevel, `tens: level "/": level must be 0 to 8`},
		{"level 9", [][]byte{[]byte("ZIO9TENS"), header}, tens.ErrBadLevel, `tens: level "9": level must be 0 to 8`},
		{"header of 23 bytes", [][]byte{prefix, header[:23]}, tens.ErrHeaderSize, "tens: 23 bytes: header must have 24 bytes"},
		{"header of 25 bytes", [][]byte{prefix, append(header, 0)}, tens.ErrHeaderSize, "tens: 25 bytes: header must have 24 bytes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, err := tens.Decode(test.frames)
			fault := requireFault(t, test.kind, err)
			assert.Nil(t, m)
			assert.Equal(t, -1, fault.Tensor)
			assert.Equal(t, -1, fault.Offset)
			assert.EqualError(t, err, test.text)
		})
	}
}

func TestParseTakesEveryLevel(t *testing.T) {
	for level := range tens.MaxLevel + 1 {
		m := tens.Message{Level: level, Form: formFLOW}
		again := must.Do(tens.Decode(m.Encode()))(t)
		assert.Equal(t, level, again.Level)
		assert.Equal(t, byte('0'+level), m.Encode()[0][3])
	}
}

func TestWritersRefuseLevels(t *testing.T) {
	for _, level := range []int{-1, 9, 256, 'A' - '0'} {
		m := tens.Message{Level: level}
		requireFault(t, tens.ErrBadLevel, m.Validate())
		assert.Nil(t, m.Encode())
		_, err := m.PackedSize()
		requireFault(t, tens.ErrBadLevel, err)
		out, err := m.AppendPacked([]byte("kept"))
		requireFault(t, tens.ErrBadLevel, err)
		assert.Equal(t, "kept", string(out))
		out, err = tens.AppendPrefix([]byte("kept"), level, formTENS, nil)
		requireFault(t, tens.ErrBadLevel, err)
		assert.Equal(t, "kept", string(out))
	}
}

func TestParseAliasesFrames(t *testing.T) {
	frames := [][]byte{[]byte("ZIO0TEXTlabel"), make([]byte, 24), []byte("part"), nil}
	m := must.Do(tens.Decode(frames))(t)
	frames[0][8], frames[2][0] = 'L', 'P'
	assert.Equal(t, "Label", string(m.Label))
	assert.Equal(t, "Part", string(m.Parts[0]))
	m.Label[0], m.Parts[0][0] = 'l', 'p'
	assert.Equal(t, "ZIO0TEXTlabel", string(frames[0]))
	assert.Equal(t, "part", string(frames[2]))
	assert.Nil(t, m.Parts[1])
}

func TestAppendingToWhatWasParsedLeavesNeighboursAlone(t *testing.T) {
	m := tens.Message{Label: []byte("label"), Parts: [][]byte{[]byte("one"), []byte("two")}}
	packed := must.Do(m.AppendPacked(nil))(t)
	before := bytes.Clone(packed)
	parsed := must.Do(tens.DecodePacked(packed))(t)
	_ = append(parsed.Label, "xxxx"...)
	_ = append(parsed.Parts[0], "xxxx"...)
	frames := m.Encode()
	_ = append(frames[0], "xxxx"...)
	assert.Equal(t, before, packed)
	assert.Equal(t, make([]byte, 24), frames[1])
	again := must.Do(tens.Decode(frames))(t)
	again.Parts = append(again.Parts, nil)
	assert.Len(t, frames, 4)
}

func TestTheTextOfAMessageHasNoneOfItsBytes(t *testing.T) {
	m := tens.Message{Level: 2, Form: [4]byte{'T', 'E', 'N', 'S'}, Label: make([]byte, 100), Seqno: 7, Parts: [][]byte{make([]byte, 1000), nil}}
	want := `message of level 2, form "TENS", label of 100 bytes, origin 0, granule 0, seqno 7, parts 2 of 1000 bytes in all`
	assert.Equal(t, want, fmt.Sprint(&m))
	assert.Equal(t, want, fmt.Sprint(m))
}

func TestMakeFormPadsWithSpaces(t *testing.T) {
	for name, want := range map[string]string{"": "    ", "OK": "OK  ", "TENS": "TENS"} {
		form := must.Do(tens.MakeForm(name))(t)
		assert.Equal(t, want, string(form[:]))
	}
	_, err := tens.MakeForm("TENSOR")
	requireFault(t, tens.ErrFormInvalid, err)
}

func TestHostileSizesAllocateNothing(t *testing.T) {
	good := must.Do(tens.AppendFrames(nil, [][]byte{[]byte("ZIO0TENS"), make([]byte, 24)}))(t)
	for name, tail := range map[string][]byte{
		"size of 4 GiB - 1":    {0xff, 0xff, 0xff, 0xff, 0xff},
		"size beyond the end":  {3, 1, 2},
		"size cut short":       {0xff, 0, 0, 0},
		"marker alone":         {0xff},
		"short size alone":     {254},
		"long size of nothing": {0xff, 0, 0, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			data := append(bytes.Clone(good), tail...)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := tens.DecodePacked(data)
			runtime.ReadMemStats(&after)
			fault := requireFault(t, tens.ErrTruncated, err)
			assert.Equal(t, len(good), fault.Offset)
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
		})
	}
}

func TestEveryCutOfAPackedMessageIsRefused(t *testing.T) {
	m := tens.Message{Form: formTENS, Label: bytes.Repeat([]byte("x"), 300), Parts: [][]byte{[]byte("one"), make([]byte, 255)}}
	packed := must.Do(m.AppendPacked(nil))(t)
	whole := 0
	for n := range packed {
		cut, err := tens.DecodePacked(packed[:n:n])
		if err == nil {
			whole++ // after the header and after each part
			assert.Equal(t, m.Label, cut.Label)
		}
	}
	assert.Equal(t, 2, whole)
}

func TestSizesAroundTheLongForm(t *testing.T) {
	for n, want := range map[int]int{0: 1, 1: 2, 254: 255, 255: 260, 256: 261, 1 << 16: 1<<16 + 5} {
		frames := [][]byte{make([]byte, n)}
		size := must.Do(tens.SizeFrames(frames))(t)
		assert.Equal(t, want, size)
		data := must.Do(tens.AppendFrames(nil, frames))(t)
		assert.Len(t, data, want)
		again := must.Do(tens.DecodeFrames(data))(t)
		assert.Equal(t, frames, again)
	}
}
