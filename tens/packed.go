package tens

import (
	"encoding/binary"
	"iter"
	"math"
	"slices"
	"strconv"

	"github.com/dlbridge/dlbridge/tens/strictjson"
)

// longSize is the first byte of a frame whose size follows in four bytes, big-endian. A smaller first byte is the size.
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

// DecodeAll returns an iterator over the messages that follow one another in data, each in the packed form. Label and
// parts alias data. The iterator ends after an error, whose offset counts from the beginning of data.
//
// The packed form does not say where a message ends. A frame behind the coordinate header that begins as a prefix header
// does, with ZIO and a level, is the prefix header of the next message; [Message.AppendPacked] therefore refuses such a part.
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

// SizeFirst returns the size in bytes of the first message in data, which has messages in the packed form, one after
// another (see [DecodeAll]). The error for data that ends inside a frame is [ErrTruncated]. Nothing is allocated.
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

// AppendPacked appends the packed form of the message, into which it copies the parts. On an error, one of
// [Message.PackedSize], dst is returned unchanged. Like append, it ends the process if Go has no memory for the result,
// and panics if no slice can be that long; [Message.PackedSize] returns how many bytes are appended.
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

// PackedSize returns the size of the packed form in bytes. The error for a level outside of 0 to 8, and for a part that
// begins as a prefix header does (see [DecodeAll]), is [ErrInvalid], and for a frame of more than 4 GiB - 1
// [ErrFrameTooLarge].
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

// AppendFrames appends the frames of a message in the packed form: the size of each, then its bytes. A size below 255
// takes one byte, any other five. The errors are those of [SizeFrames]; dst is then returned unchanged. Like append, it ends the process if Go has no memory for the result, and panics if no slice can be that
// long; [SizeFrames] returns how many bytes are appended.
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

// DecodeFrames decodes the frames of a message in the packed form, which alias data. It accepts a size of five bytes also
// for a frame of less than 255 bytes. The error for data that ends inside a frame is [ErrTruncated], and for data with another
// message behind the first [ErrInvalid]: [DecodeAll] reads several. Errors are returned before anything is allocated.
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

// listFrames returns the frames of data, of which the caller has counted count. If another thread has since changed
// data to have more frames, it returns an error, so that the list never takes more memory than was allocated for count
// frames.
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

// truncated returns the error for the frame with the given index, which begins with its size at data[at] and for which
// data is too short.
func truncated(data []byte, at, frame int) *Error {
	return &Error{Kind: ErrTruncated, Tensor: -1, Offset: at,
		Detail: "frame " + strconv.Itoa(frame) + " does not end in the " + strconv.Itoa(len(data)-at) + " bytes that are left"}
}

// DecodeAllFrames returns an iterator over the frames that [DecodeFrames] returns. It needs no memory for a list of them. It
// yields an error of DecodeFrames in the place of the frame that the error is about, and ends.
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
						", as another message does; DecodeAll reads several"})
				return
			}
			if !yield(frame, nil) {
				return
			}
			at = end
		}
	}
}

// SizeFrames returns the size in bytes of the frames of a message in the packed form. The error for a frame of more than
// 4 GiB - 1 is [ErrFrameTooLarge], and for a part that begins as a prefix header does (see [DecodeAll]) [ErrInvalid].
func SizeFrames(frames [][]byte) (int, error) { return sizeFrames(frames, 0) }

// sizeFrames is SizeFrames. first is the index in the message of frames[0], which an error names.
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

// looksLikePrefix returns the error for the part with the given index, which a reader would take for another message.
func looksLikePrefix(part []byte, index int) error {
	return newError(errSecondMessage, "part "+strconv.Itoa(index)+" begins with "+strictjson.Quote(part[:prefixSize])+
		", as another message does; the packed form cannot tell them apart, separate frames can")
}

// frameAt returns where a frame lies: its size begins at data[at], and its bytes are data[start:end]. ok is false if
// data ends before the frame does.
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

// isPrefix reports whether a frame begins as a prefix header does, as [DecodePrefix] checks it. It is small enough to be
// inlined, since it is asked about every part.
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
