package tensorflow

import (
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// A record is one field of a message.
type record struct {
	num protowire.Number
	typ protowire.Type
	at  int // index in the input of its tag
	// value has the bytes of a length-delimited field, or the encoded bytes of a number.
	value []byte
	// start is the index in the input of value.
	start int
	err   error // the reason if next has returned false before the end of the message
}

// number returns the value of a varint record.
func (r *record) number() uint64 {
	if len(r.value) == 1 {
		return uint64(r.value[0])
	}
	v, _ := protowire.ConsumeVarint(r.value)
	return v
}

// sub returns a reader of the record as a message.
func (r *record) sub() reader { return reader{data: r.value, base: r.start} }

// A reader reads the fields of a message in order (Protocol Buffers, "Encoding"). It does not enter submessages.
type reader struct {
	data []byte
	at   int
	base int // index in the input of data
}

// next reads the next record into f, and skips groups. At the end of the message it returns false. After an error it
// also returns false, sets f.err, and must not be called again.
func (r *reader) next(f *record) bool {
	for r.at < len(r.data) {
		f.at = r.base + r.at
		if b := r.data[r.at]; b < 0x80 && b >= 1<<3 {
			f.num, f.typ = protowire.Number(b>>3), protowire.Type(b&7)
			r.at++
		} else if f.err = r.tag(f); f.err != nil {
			return false
		}
		if f.typ == protowire.EndGroupType {
			f.err = newError(f.at, ErrWire, "field %d ends a group that has not begun", f.num)
			return false
		}
		if f.typ != protowire.StartGroupType {
			f.err = r.payload(f)
			return f.err == nil
		}
		if f.err = r.skipGroup(f.num); f.err != nil {
			return false
		}
	}
	return false
}

// mostOf32 is the largest size in bytes of the varint of a tag or a length, because these are numbers of 32 bits.
const mostOf32 = 5

// tag reads a tag into f.
func (r *reader) tag(f *record) error {
	v, n := protowire.ConsumeVarint(r.data[r.at:])
	if n < 0 {
		return r.wire("tag", n)
	}
	if n > mostOf32 {
		return newError(r.base+r.at, ErrWire, "the tag has %d bytes, but at most %d are allowed", n, mostOf32)
	}
	num, typ := protowire.DecodeTag(v)
	if num < protowire.MinValidNumber || num > protowire.MaxValidNumber {
		return newError(r.base+r.at, ErrWire, "tag %d has an invalid field number", v)
	}
	f.num, f.typ = num, typ
	r.at += n
	return nil
}

// payload reads into f the bytes after its tag. The tag must not be the tag of a group.
func (r *reader) payload(f *record) error {
	rest := r.data[r.at:]
	skip, n := 0, 0
	switch f.typ {
	case protowire.VarintType:
		if len(rest) > 0 && rest[0] < 0x80 {
			n = 1
		} else {
			_, n = protowire.ConsumeVarint(rest)
		}
	case protowire.Fixed32Type:
		n = 4
	case protowire.Fixed64Type:
		n = 8
	case protowire.BytesType:
		var size uint64
		if len(rest) > 0 && rest[0] < 0x80 {
			size, skip = uint64(rest[0]), 1
		} else {
			size, skip = protowire.ConsumeVarint(rest)
		}
		if skip < 0 {
			return r.wire("length", skip)
		}
		if skip > mostOf32 {
			return newError(r.base+r.at, ErrWire, "the length has %d bytes, but at most %d are allowed", skip, mostOf32)
		}
		if size > uint64(len(rest)-skip) {
			return newError(f.at, ErrWire, "field %d has %d bytes, but only %d are left", f.num, size, len(rest)-skip)
		}
		n = int(size)
	default:
		return newError(f.at, ErrWire, "field %d: unknown wire type %d", f.num, f.typ)
	}
	if n < 0 {
		return r.wire("varint", n)
	}
	if skip+n > len(rest) {
		return newError(f.at, ErrWire, "field %d has %d bytes, but only %d are left", f.num, n, len(rest)-skip)
	}
	f.value = rest[skip : skip+n : skip+n]
	f.start = r.base + r.at + skip
	r.at += skip + n
	return nil
}

// deepest is the maximum nesting depth of groups, as in the parsers of TensorFlow.
const deepest = 100

// skipGroup skips the group with the given number after its start tag has been read.
func (r *reader) skipGroup(num protowire.Number) error {
	var open [deepest]protowire.Number
	open[0] = num
	depth := 1
	var f record
	for r.at < len(r.data) {
		f.at = r.base + r.at
		if err := r.tag(&f); err != nil {
			return err
		}
		switch f.typ {
		case protowire.StartGroupType:
			if depth == deepest {
				return newError(f.at, ErrWire, "field %d: groups nested more than %d deep", f.num, deepest)
			}
			open[depth] = f.num
			depth++
		case protowire.EndGroupType:
			depth--
			if open[depth] != f.num {
				return newError(f.at, ErrWire, "the end tag of group %d does not match the open group %d", f.num, open[depth])
			}
			if depth == 0 {
				return nil
			}
		default:
			if err := r.payload(&f); err != nil {
				return err
			}
		}
	}
	return newError(r.base+r.at, ErrWire, "group %d does not end", open[depth-1])
}

func (r *reader) wire(what string, code int) error {
	cause := strings.TrimPrefix(protowire.ParseError(code).Error(), "proto:") // a plain or a no-break space follows
	return newError(r.base+r.at, ErrWire, "%s: %s", what, strings.TrimSpace(cause))
}

// count returns the number of length-delimited records with the given number that follow before the end of the message
// or an error.
func (r reader) count(num protowire.Number) (n int) {
	var f record
	for r.next(&f) {
		if f.num == num && f.typ == protowire.BytesType {
			n++
		}
	}
	return n
}

// countVarints returns the number of varints in a packed field. ok is false if data does not consist of whole varints.
func countVarints(data []byte) (n int, ok bool) {
	for i := 0; i < len(data); n++ {
		if data[i] < 0x80 {
			i++
			continue
		}
		_, size := protowire.ConsumeVarint(data[i:])
		if size < 0 {
			return n, false
		}
		i += size
	}
	return n, true
}
