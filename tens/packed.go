package tens

import (
	"encoding/binary"
	"iter"
	"math"
	"slices"
	"strconv"

	"github.com/dlbridge/dlbridge/tens/strictjson"
)

// longSize is the first byte of a frame whose size follows in four bytes, big-endian. A smaller first byte is itself
// the size.
const longSize = 0xff

// DecodePacked decodes a message from its packed form. Label and parts alias data.
//
// Errors: those of [Decode] and of [DecodeFrames].
func DecodePacked(data []byte) (*Message, error) {
	frames, err := DecodeFrames(data)
	if err != nil {
		return nil, err
	}
	return Decode(frames)
}

// DecodeAll returns an iterator over the messages in data, which follow one another in the packed form. Label and parts
// alias data. The iterator ends after an error. The offset in the error counts from the beginning of data.
//
// The packed form does not say where a message ends. A frame after the coordinate header that begins like a prefix header,
// with ZIO and a level, is the prefix header of the next message. [Message.AppendPacked] therefore refuses a part that begins
// in this way.
//
// Errors: those of [Decode] and [ErrTruncated].
func DecodeAll(data []byte) iter.Seq2[*Message, error] {
	return func(yield func(*Message, error) bool) {
		for at := 0; at < len(data); {
			n, err := SizeFirst(data[at:])
			var m *Message
			if err == nil {
				m, err = DecodePacked(data[at : at+n : at+n])
			}
			if e, ok := err.(*Error); ok && e.Offset >= 0 {
				e.Offset += at
			}
			if !yield(m, err) || err != nil {
				return
			}
			at += n
		}
	}
}

// SizeFirst returns the size in bytes of the first message in data. Messages in data follow one another in the packed
// form (see [DecodeAll]). SizeFirst returns [ErrTruncated] for data that ends inside a frame. It allocates nothing.
func SizeFirst(data []byte) (int, error) {
	at := 0
	for i := 0; at < len(data); i++ {
		start, end, ok := frameAt(data, at)
		if !ok {
			return 0, truncated(data, at, i)
		}
		if i >= 2 && isPrefix(data[start:end]) {
			break
		}
		at = end
	}
	return at, nil
}

// AppendPacked appends the packed form of the message, with copies of the parts. Its errors are those of
// [Message.PackedSize]; it then returns dst unchanged. Like append, it ends the process if Go has no memory for the
// result, and panics if no slice can be that long. [Message.PackedSize] returns the number of bytes that are appended.
func (m *Message) AppendPacked(dst []byte) ([]byte, error) {
	n, err := m.PackedSize()
	if err != nil {
		return dst, err
	}
	dst = slices.Grow(dst, n)
	dst = appendSize(dst, SizePrefix(m.Label))
	dst = appendPrefix(dst, m.Level, m.Form, m.Label)
	dst = appendSize(dst, HeaderSize)
	dst = AppendHeader(dst, m.Origin, m.Granule, m.Seqno)
	for _, part := range m.Parts {
		dst = append(appendSize(dst, len(part)), part...)
	}
	return dst, nil
}

// PackedSize returns the size of the packed form in bytes.
//
// Errors: [ErrInvalid] for a level outside 0 to 8, and for a part that begins like a prefix header (see [DecodeAll]);
// [ErrFrameTooLarge] for a frame of more than 4 GiB - 1; [ErrNil].
func (m *Message) PackedSize() (int, error) {
	if err := m.Validate(); err != nil {
		return 0, err
	}
	prefix, err := sizeFrame(SizePrefix(m.Label), 0)
	if err != nil {
		return 0, err
	}
	parts, err := sizeFrames(m.Parts, 2)
	if err != nil {
		return 0, err
	}
	return prefix + 1 + HeaderSize + parts, nil
}

// AppendFrames appends the frames of a message in the packed form: for each frame its size, and then its bytes. A size below 255 takes one
// byte, and any other size takes five. The errors are those of [SizeFrames]; AppendFrames then returns dst unchanged. Like append, it ends
// the process if Go has no memory for the result, and panics if no slice can be that long. [SizeFrames] returns the number of bytes that
// are appended.
func AppendFrames(dst []byte, frames [][]byte) ([]byte, error) {
	n, err := SizeFrames(frames)
	if err != nil {
		return dst, err
	}
	dst = slices.Grow(dst, n)
	for _, frame := range frames {
		dst = append(appendSize(dst, len(frame)), frame...)
	}
	return dst, nil
}

// DecodeFrames decodes the frames of a message in the packed form. The frames alias data. The size of a frame of less than 255
// bytes may also take five bytes. DecodeFrames allocates nothing if it returns an error.
//
// Errors: [ErrTruncated] for data that ends inside a frame; [ErrInvalid] for data with several messages, which [DecodeAll]
// reads.
func DecodeFrames(data []byte) ([][]byte, error) {
	count := 0
	for _, err := range DecodeAllFrames(data) {
		if err != nil {
			return nil, err
		}
		count++
	}
	return listFrames(data, count)
}

// listFrames returns the frames of data. The caller has counted them: count. If another thread has changed data since
// then, so that it has more frames, listFrames returns an error. The list therefore never takes more memory than that
// for count frames.
func listFrames(data []byte, count int) ([][]byte, error) {
	frames := make([][]byte, 0, count)
	for at := 0; at < len(data); {
		start, end, ok := frameAt(data, at)
		if !ok {
			return nil, truncated(data, at, len(frames))
		}
		if len(frames) == count {
			return nil, truncated(data, len(data), count)
		}
		frames = append(frames, data[start:end:end])
		at = end
	}
	return frames, nil
}

// truncated returns the error for data that ends inside the frame with the given index. The size of the frame is at
// data[at].
func truncated(data []byte, at, frame int) *Error {
	return &Error{Kind: ErrTruncated, Tensor: -1, Offset: at,
		Detail: "frame " + strconv.Itoa(frame) + " is longer than the " + strconv.Itoa(len(data)-at) + " bytes that are left"}
}

// DecodeAllFrames returns an iterator over the frames that [DecodeFrames] returns. It needs no memory for a list of frames.
// At an invalid frame it yields the error of DecodeFrames and ends.
func DecodeAllFrames(data []byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for i, at := 0, 0; at < len(data); i++ {
			start, end, ok := frameAt(data, at)
			if !ok {
				yield(nil, truncated(data, at, i))
				return
			}
			frame := data[start:end:end]
			if i >= 2 && isPrefix(frame) {
				yield(nil, &Error{Kind: errSecondMessage, Tensor: -1, Offset: at,
					Detail: "frame " + strconv.Itoa(i) + " begins with " + strictjson.Quote(frame[:prefixSize]) +
						", like another message; DecodeAll reads several messages"})
				return
			}
			if !yield(frame, nil) {
				return
			}
			at = end
		}
	}
}

// SizeFrames returns the size in bytes of the frames of a message in the packed form. It returns [ErrFrameTooLarge] for
// a frame of more than 4 GiB - 1, and [ErrInvalid] for a part that begins like a prefix header (see [DecodeAll]).
func SizeFrames(frames [][]byte) (int, error) { return sizeFrames(frames, 0) }

// sizeFrames is SizeFrames. first is the index of frames[0] in the message, for errors.
func sizeFrames(frames [][]byte, first int) (int, error) {
	total := 0
	for i, frame := range frames {
		n, err := sizeFrame(len(frame), first+i)
		if err != nil {
			return 0, err
		}
		if first+i >= 2 && isPrefix(frame) {
			return 0, looksLikePrefix(frame, first+i-2)
		}
		total += n
	}
	return total, nil
}

// looksLikePrefix returns the error for the part with the given index: a reader would take it for another message.
func looksLikePrefix(part []byte, index int) error {
	return newError(errSecondMessage, "part "+strconv.Itoa(index)+" begins with "+strictjson.Quote(part[:prefixSize])+
		", like another message; the packed form would split the message there, so send separate frames")
}

// frameAt locates the frame whose size begins at data[at]: its bytes are data[start:end]. ok is false if data ends
// inside the frame.
func frameAt(data []byte, at int) (start, end int, ok bool) {
	size := uint64(data[at])
	start = at + 1
	if size == longSize {
		if len(data)-start < 4 {
			return 0, 0, false
		}
		size = uint64(binary.BigEndian.Uint32(data[start:]))
		start += 4
	}
	if size > uint64(len(data)-start) {
		return 0, 0, false
	}
	return start, start + int(size), true
}

func appendSize(dst []byte, n int) []byte {
	if n < longSize {
		return append(dst, byte(n))
	}
	return binary.BigEndian.AppendUint32(append(dst, longSize), uint32(n))
}

// isPrefix reports whether a frame begins like a prefix header, by the rules of [DecodePrefix]. It is small enough to be
// inlined, because it is called for every part.
func isPrefix(frame []byte) bool {
	return len(frame) >= prefixSize && frame[0] == magic[0] && hasMagic(frame)
}

func hasMagic(frame []byte) bool {
	return string(frame[:len(magic)]) == magic && frame[3] >= '0' && frame[3] <= '0'+MaxLevel
}

// sizeFrame returns the size in the packed form of the frame with the given index, which has n bytes.
func sizeFrame(n, index int) (int, error) {
	if n >= longSize {
		return sizeLongFrame(n, index)
	}
	return n + 1, nil
}

func sizeLongFrame(n, index int) (int, error) {
	if uint64(n) > math.MaxUint32 {
		return 0, newError(ErrFrameTooLarge, "frame "+strconv.Itoa(index)+" of "+strconv.Itoa(n)+" bytes")
	}
	return n + 5, nil
}
