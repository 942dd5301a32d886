package tens

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/dlbridge/dlbridge/tens/strictjson"
)

const (
	// HeaderSize is the size of the coordinate header: origin, granule and seqno of 64 bits each.
	HeaderSize = 24
	// MaxLevel is the highest level of a message.
	MaxLevel = 8
	// MaxDepth is the largest depth of nested arrays and objects in a label, including the label itself.
	MaxDepth = strictjson.MaxDepth

	magic      = "ZIO"
	prefixSize = 8 // magic, level, form
)

var formTENS = [4]byte{'T', 'E', 'N', 'S'}

// Message is a ZIO message: prefix header, coordinate header and payload. A decoded message owns no memory: its label and
// its parts alias the frames.
type Message struct {
	Level   int      // 0 to 8
	Form    [4]byte  // as on the wire; see [MakeForm]
	Label   []byte   // the rest of the prefix header after the form; any bytes
	Origin  uint64   // in the coordinate header, like Granule and Seqno; any number
	Granule uint64   //
	Seqno   uint64   //
	Parts   [][]byte // the payload parts
}

// String describes the message in one line: its headers, and the sizes of label and parts.
func (m Message) String() string {
	size := 0
	for _, part := range m.Parts {
		size += len(part)
	}
	return fmt.Sprintf("message of level %d, form %q, label of %d bytes, origin %d, granule %d, seqno %d, parts %d of %d bytes in all",
		m.Level, m.Form[:], len(m.Label), m.Origin, m.Granule, m.Seqno, len(m.Parts), size)
}

// MakeForm returns a name as a form: at most four bytes, padded with spaces. It returns [ErrInvalid] for a longer name.
func MakeForm(name string) ([4]byte, error) {
	form := [4]byte{' ', ' ', ' ', ' '}
	if len(name) > len(form) {
		return form, newError(errFormInvalid, "form "+strictjson.Quote([]byte(name)))
	}
	copy(form[:], name)
	return form, nil
}

// Decode decodes a message from its frames: prefix header, coordinate header, payload parts. Label and Parts alias the frames. The
// label is not decoded; see [Message.DecodeLabel].
//
// Errors: [ErrInvalid].
func Decode(frames [][]byte) (*Message, error) {
	if len(frames) < 2 {
		detail := strconv.Itoa(len(frames)) + " frames, want at least 2"
		if len(frames) == 1 {
			detail = "1 frame, want at least 2; DecodeFrames splits the packed form"
		}
		return nil, newError(errTooFewFrames, detail)
	}
	level, form, label, err := DecodePrefix(frames[0])
	if err != nil {
		return nil, err
	}
	origin, granule, seqno, err := DecodeHeader(frames[1])
	if err != nil {
		return nil, err
	}
	return &Message{
		Level: level, Form: form, Label: label,
		Origin: origin, Granule: granule, Seqno: seqno,
		Parts: frames[2:len(frames):len(frames)],
	}, nil
}

// Validate returns [ErrInvalid] if the level is not in 0 to 8, and [ErrNil] for a nil message. Form, label and parts may be any
// bytes.
func (m *Message) Validate() error {
	if m == nil {
		return newError(ErrNil, "message")
	}
	if m.Level < 0 || m.Level > MaxLevel {
		return newError(errBadLevel, "level "+strconv.Itoa(m.Level))
	}
	return nil
}

// Encode returns the frames of the message: a new prefix header, a new coordinate header, and the parts themselves, without a
// copy. The result is nil if [Message.Validate] returns an error.
func (m *Message) Encode() [][]byte {
	if m.Validate() != nil {
		return nil
	}
	n := SizePrefix(m.Label)
	heads := make([]byte, 0, n+HeaderSize)
	heads = appendPrefix(heads, m.Level, m.Form, m.Label)
	heads = AppendHeader(heads, m.Origin, m.Granule, m.Seqno)
	frames := make([][]byte, 2, 2+len(m.Parts))
	frames[0], frames[1] = heads[:n:n], heads[n:]
	return append(frames, m.Parts...)
}

// AppendPrefix appends a prefix header: magic, level, form, label. For a level outside 0 to 8 it returns [ErrInvalid],
// and dst unchanged.
func AppendPrefix(dst []byte, level int, form [4]byte, label []byte) ([]byte, error) {
	if err := (&Message{Level: level}).Validate(); err != nil {
		return dst, err
	}
	return appendPrefix(dst, level, form, label), nil
}

func appendPrefix(dst []byte, level int, form [4]byte, label []byte) []byte {
	dst = append(dst, magic...)
	dst = append(dst, '0'+byte(level))
	dst = append(dst, form[:]...)
	return append(dst, label...)
}

// DecodePrefix decodes a prefix header, which must be the whole frame. The label aliases the frame.
//
// Errors: [ErrInvalid].
func DecodePrefix(frame []byte) (level int, form [4]byte, label []byte, err error) {
	if len(frame) < prefixSize {
		return 0, form, nil, newError(errPrefixShort, strconv.Itoa(len(frame))+" bytes, want at least 8")
	}
	if string(frame[:len(magic)]) != magic {
		return 0, form, nil, newError(errBadMagic, strictjson.Quote(frame[:len(magic)])+" instead of \"ZIO\"")
	}
	level = int(frame[3]) - '0'
	if level < 0 || level > MaxLevel {
		return 0, form, nil, newError(errBadLevel, "level "+strictjson.Quote(frame[3:4]))
	}
	copy(form[:], frame[4:])
	return level, form, frame[prefixSize:len(frame):len(frame)], nil
}

// SizePrefix returns the size in bytes of a prefix header with the given label.
func SizePrefix(label []byte) int { return prefixSize + len(label) }

// AppendHeader appends a coordinate header, [HeaderSize] bytes: origin, granule and seqno, each
// little-endian.
func AppendHeader(dst []byte, origin, granule, seqno uint64) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, origin)
	dst = binary.LittleEndian.AppendUint64(dst, granule)
	return binary.LittleEndian.AppendUint64(dst, seqno)
}

// DecodeHeader decodes a coordinate header, which must be the whole frame. It returns [ErrInvalid] for a frame of another
// size than [HeaderSize].
func DecodeHeader(frame []byte) (origin, granule, seqno uint64, err error) {
	if len(frame) != HeaderSize {
		return 0, 0, 0, newError(errHeaderSize, strconv.Itoa(len(frame))+" bytes")
	}
	return binary.LittleEndian.Uint64(frame), binary.LittleEndian.Uint64(frame[8:]),
		binary.LittleEndian.Uint64(frame[16:]), nil
}
