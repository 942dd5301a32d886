package tens_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/tens"
)

// packedOf returns the packed forms of the messages, one after another.
func packedOf(t testing.TB, messages ...*tens.Message) []byte {
	var data []byte
	for _, m := range messages {
		data = must.Do(m.AppendPacked(data))(t)
	}
	return data
}

func textMessage(seqno uint64, parts ...string) *tens.Message {
	m := &tens.Message{Form: [4]byte{'T', 'E', 'X', 'T'}, Label: []byte("a label"), Seqno: seqno}
	for _, part := range parts {
		m.Parts = append(m.Parts, []byte(part))
	}
	return m
}

func TestASecondMessageIsNotPartOfTheFirst(t *testing.T) {
	first := textMessage(1, "part")
	for name, second := range map[string][]byte{
		"a message":                 packedOf(t, textMessage(2)),
		"a message with parts":      packedOf(t, textMessage(2, "", "part")),
		"a message without a label": packedOf(t, &tens.Message{Level: 8}),
		"only its prefix":           packedOf(t, textMessage(2))[:16],
		"its prefix in a long size": append([]byte{0xff, 0, 0, 0, 8}, "ZIO0TEXT"...),
	} {
		t.Run(name, func(t *testing.T) {
			data := append(packedOf(t, first), second...)
			frames, err := tens.DecodeFrames(data)
			fault := requireFault(t, tens.ErrSecondMessage, err)
			assert.Nil(t, frames)
			assert.ErrorIs(t, err, tens.ErrInvalid)
			assert.Equal(t, len(packedOf(t, first)), fault.Offset)
			assert.ErrorContains(t, err, `tens: frame 3 begins with "ZIO`)
			assert.ErrorContains(t, err, "like another message; DecodeAll reads several messages")
			m, err := tens.DecodePacked(data)
			requireFault(t, tens.ErrSecondMessage, err)
			assert.Nil(t, m)
			size := must.Do(tens.SizeFirst(data))(t)
			assert.Equal(t, len(packedOf(t, first)), size)
		})
	}
}

func TestWhatIsNoPrefixHeaderIsAPart(t *testing.T) {
	for _, part := range []string{"", "ZIO", "ZIO0", "ZIO0TEN", "ZIO9TENS", "ZIO/TENS", "zio0TENS", " ZIO0TENS", "\x08ZIO0TENS"} {
		m, err := tens.DecodePacked(packedOf(t, textMessage(1, part, part)))
		require.NoError(t, err, "%q", part)
		require.Len(t, m.Parts, 2)
		assert.Equal(t, part, string(m.Parts[1]))
	}
	// The frame after the prefix header is the coordinate header, even if it begins like a prefix header.
	m := textMessage(1, "part")
	m.Origin = 'Z' | 'I'<<8 | 'O'<<16 | '0'<<24
	again := must.Do(tens.DecodePacked(packedOf(t, m)))(t)
	assert.Equal(t, m.Origin, again.Origin)
}

func TestAPartThatLooksLikeAPrefixHeaderHasNoSinglePartForm(t *testing.T) {
	m := textMessage(1, "part", "ZIO3TENS{}")
	const text = `tens: part 1 begins with "ZIO3TENS", like another message; ` +
		"the packed form would split the message there, so send separate frames: more than one message"
	_, err := m.PackedSize()
	assert.EqualError(t, err, text)
	out, err := m.AppendPacked([]byte("kept"))
	assert.EqualError(t, err, text)
	assert.Equal(t, "kept", string(out))
	frames := m.Encode()
	_, err = tens.SizeFrames(frames)
	assert.EqualError(t, err, text)
	out, err = tens.AppendFrames([]byte("kept"), frames)
	assert.EqualError(t, err, text)
	assert.Equal(t, "kept", string(out))
	again := must.Do(tens.Decode(frames))(t)
	assert.Equal(t, m.Parts, again.Parts)
}

func TestMessagesAreReadOneAfterAnother(t *testing.T) {
	messages := []*tens.Message{
		textMessage(1, "part"), textMessage(2), textMessage(3, "", ""), {Level: 8, Parts: [][]byte{make([]byte, 300)}},
		{Origin: 'Z' | 'I'<<8 | 'O'<<16 | '0'<<24}, textMessage(4, "part"),
	}
	for n := range len(messages) + 1 {
		data := packedOf(t, messages[:n]...)
		var got []*tens.Message
		for m, err := range tens.DecodeAll(data) {
			require.NoError(t, err)
			got = append(got, m)
		}
		require.Len(t, got, n)
		for i, m := range got {
			assert.Equal(t, flat(messages[i]), flat(m))
		}
		if n > 0 {
			got[0].Label = append(got[0].Label, "!"...)
			for m, err := range tens.DecodeAll(data) {
				require.NoError(t, err)
				assert.Equal(t, flat(messages[0]), flat(m), "a longer label does not write to data")
				break
			}
		}
	}
}

func TestTheIteratorEndsAfterAnError(t *testing.T) {
	good := packedOf(t, textMessage(1, "part"))
	for name, test := range map[string]struct {
		rest   []byte
		kind   error
		offset int
		count  int
	}{
		"cut short":              {good[:len(good)-1], tens.ErrTruncated, len(good) + len(good) - 5, 1},
		"a prefix alone":         {good[:16], tens.ErrTooFewFrames, -1, 1},
		"a header of 23 bytes":   {append(slices.Clone(good[:16]), append([]byte{23}, make([]byte, 23)...)...), tens.ErrHeaderSize, -1, 1},
		"a size of 4 GiB":        {[]byte{0xff, 0xff, 0xff, 0xff, 0xff}, tens.ErrTruncated, len(good), 0},
		"a size that is cut off": {[]byte{0xff, 0}, tens.ErrTruncated, len(good), 0},
	} {
		t.Run(name, func(t *testing.T) {
			count, faults := 0, 0
			for m, err := range tens.DecodeAll(append(slices.Clone(good), test.rest...)) {
				if err == nil {
					count++
					continue
				}
				faults++
				assert.Nil(t, m)
				assert.Equal(t, test.offset, requireFault(t, test.kind, err).Offset)
			}
			assert.Equal(t, []int{test.count, 1}, []int{count, faults})
		})
	}
	for range tens.DecodeAll(nil) {
		t.Fatal("there is no message in no bytes")
	}
}
