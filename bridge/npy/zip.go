package npy

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/internal/errtext"
	"github.com/dlbridge/dlbridge/bridge/internal/payload"
)

// The records of a zip file begin with these bytes, and have these sizes without names, extra fields and comments.
const (
	localMagic     = "PK\x03\x04"
	entryMagic     = "PK\x01\x02"
	endMagic       = "PK\x05\x06"
	end64Magic     = "PK\x06\x06"
	locatorMagic   = "PK\x06\x07"
	descriptorMark = "PK\x07\x08" // may precede a descriptor

	sizeLocal   = 30
	sizeEntry   = 46
	sizeEnd     = 22
	sizeEnd64   = 56
	sizeLocator = 20
)

// The flags that a member may have.
const (
	flagsDeflate    = 1<<1 | 1<<2 // the effort of the compressor
	flagDescriptor  = 1 << 3      // the sizes and the checksum follow the bytes of the member
	flagUTF8        = 1 << 11     // the name is UTF-8
	flagsUnderstood = flagsDeflate | flagDescriptor | flagUTF8
)

const (
	stored   = 0
	deflated = 8

	// maxDeflate is the largest number of bytes that a byte of deflated data can become: a length of 258 takes at least
	// two bits.
	maxDeflate = 258 * 8 / 2

	idZip64       = 0x0001
	idUnicodePath = 0x7075
)

// A member is a file in a zip file.
type member struct {
	name   string // with ".npy"
	at     int    // index of its first byte in the zip file
	bytes  []byte // stored or deflated
	size   uint64 // in bytes, inflated
	crc    uint32 // of the inflated bytes
	method uint16
	head   int // index of the elements in the inflated bytes
}

// DecodeZip checks an npz file, which is a zip file of npy files, and describes its arrays. It reads only the directory
// and the headers, so data can be the mapping of a large file. It inflates the headers of deflated members.
//
// A [View] has Err set if its member has an unsupported type. It also has Err set if the member does not begin like an
// npy file, such as a text, and its name does not end in ".npy". All other members can be read.
//
// Errors: an [*elements.Error] with [ErrZip], [elements.ErrTruncated], [elements.ErrName], [elements.ErrDuplicate] or
// [ErrMethod], or with an error of [DecodeFile] for one of the members, except [elements.ErrDType]. Its Offset counts
// from the beginning of the zip file. For an error inside a deflated member, Offset is the first byte of that member.
func DecodeZip(data []byte) (*File, error) {
	z := archive{data: data}
	start, end, count, fail := z.directory()
	if fail != nil {
		return nil, fail
	}
	members := make([]*member, 0, count)
	f := &File{Tensors: make([]View, 0, count), index: make(map[string]int, count)}
	for at := start; at < end || uint64(len(members)) < count; {
		if uint64(len(members)) == count {
			return nil, newError(at, ErrZip, "%d bytes follow the last of the %d entries of the directory", end-at, count)
		}
		m, next, fail := z.entry(at, start, end)
		if fail != nil {
			return nil, fail
		}
		name := strings.TrimSuffix(m.name, ".npy")
		if _, ok := f.index[name]; ok {
			return nil, newError(at, elements.ErrDuplicate, "two arrays have the name %s, and NumPy would read the last", errtext.Quote(name))
		}
		f.index[name] = len(members)
		members = append(members, m)
		at = next
	}
	if fail := z.overlap(); fail != nil {
		return nil, fail
	}
	in := inflater{left: 4*len(data) + maxHead}
	for _, m := range members {
		v, fail := m.view(&in)
		if fail != nil {
			return nil, fail
		}
		f.Tensors = append(f.Tensors, v)
	}
	return f, nil
}

// An archive is a zip file. spans has the parts of the file that belong to members.
type archive struct {
	data  []byte
	spans []span
}

type span struct{ begin, end int }

// directory returns where the directory begins and ends, and its number of entries. It checks that the directory has
// room for them.
func (z *archive) directory() (start, end int, count uint64, fail *elements.Error) {
	at := len(z.data) - sizeEnd
	if at < 0 || string(z.data[at:at+4]) != endMagic {
		return 0, 0, 0, newError(max(at, 0), ErrZip, "the last %d bytes are not the end of a zip directory; a comment at the end is not supported", sizeEnd)
	}
	b := z.data[at:]
	count, size, begin := uint64(le16(b[10:])), uint64(le32(b[12:])), uint64(le32(b[16:]))
	if le16(b[4:]) != 0 || le16(b[6:]) != 0 || le16(b[8:]) != le16(b[10:]) {
		return 0, 0, 0, newError(at+4, ErrZip, "the archive has several parts, but must have one")
	}
	if le16(b[20:]) != 0 {
		return 0, 0, 0, newError(at+20, ErrZip, "a comment of %d bytes would end beyond the file", le16(b[20:]))
	}
	end = at
	if locator := at - sizeLocator; locator >= 0 && string(z.data[locator:locator+4]) == locatorMagic {
		end = locator - sizeEnd64
		l := z.data[locator:]
		if end < 0 || le64(l[8:]) != uint64(end) || le32(l[4:]) != 0 || le32(l[16:]) != 1 {
			return 0, 0, 0, newError(locator, ErrZip, "the zip64 end of the directory is not directly before its locator")
		}
		e := z.data[end:]
		if string(e[:4]) != end64Magic || le64(e[4:]) != sizeEnd64-12 || le32(e[16:]) != 0 || le32(e[20:]) != 0 || le64(e[24:]) != le64(e[32:]) {
			return 0, 0, 0, newError(end, ErrZip, "the zip64 end of the directory is malformed")
		}
		for _, both := range [][3]uint64{{count, math.MaxUint16, le64(e[32:])}, {size, math.MaxUint32, le64(e[40:])}, {begin, math.MaxUint32, le64(e[48:])}} {
			if both[0] != both[1] && both[0] != both[2] {
				return 0, 0, 0, newError(at, ErrZip, "the end of the directory says %d, but the zip64 end says %d", both[0], both[2])
			}
		}
		count, size, begin = le64(e[32:]), le64(e[40:]), le64(e[48:])
	}
	if begin > uint64(end) || size != uint64(end)-begin {
		return 0, 0, 0, newError(at, ErrZip, "the directory has %d bytes and begins at byte %d, but must end at byte %d", size, begin, end)
	}
	if count > size/sizeEntry {
		return 0, 0, 0, newError(at, ErrZip, "%d entries do not fit in a directory of %d bytes", count, size)
	}
	return int(begin), end, count, nil
}

// entry returns the member that the directory entry at byte at describes, and the beginning of the next entry. The
// directory has the bytes from start to end.
func (z *archive) entry(at, start, end int) (m *member, next int, fail *elements.Error) {
	if end-at < sizeEntry || string(z.data[at:at+4]) != entryMagic {
		return nil, 0, newError(at, ErrZip, "an entry of the directory is expected here")
	}
	b := z.data[at:end]
	flags, method, crc := le16(b[8:]), le16(b[10:]), le32(b[16:])
	packed, size, offset := uint64(le32(b[20:])), uint64(le32(b[24:])), uint64(le32(b[42:]))
	n, extra, comment := int(le16(b[28:])), int(le16(b[30:])), int(le16(b[32:]))
	if len(b)-sizeEntry < n+extra+comment {
		return nil, 0, newError(at+28, ErrZip, "an entry of the directory has %d bytes, but only %d are left", sizeEntry+n+extra+comment, len(b))
	}
	next = at + sizeEntry + n + extra + comment
	raw := b[sizeEntry : sizeEntry+n]
	if fail := checkName(raw, at+sizeEntry, flags); fail != nil {
		return nil, 0, fail
	}
	if fail := numbers(b[sizeEntry+n:sizeEntry+n+extra], at+sizeEntry+n, &size, &packed, &offset); fail != nil {
		return nil, 0, fail
	}
	m = &member{name: string(raw), size: size, crc: crc, method: method}
	switch {
	case flags&^flagsUnderstood != 0:
		return nil, 0, newError(at+8, ErrMethod, "%s has the flags %#x: it is encrypted or patched", errtext.Quote(m.name), flags)
	case method != stored && method != deflated:
		return nil, 0, newError(at+10, ErrMethod, "%s is compressed by method %d", errtext.Quote(m.name), method)
	case le16(b[34:]) != 0:
		return nil, 0, newError(at+34, ErrZip, "%s is in another part of the archive", errtext.Quote(m.name))
	case method == stored && size != packed:
		return nil, 0, newError(at+20, ErrZip, "%s is stored without compression, but has %d bytes in the file instead of %d", errtext.Quote(m.name), packed, size)
	case offset > uint64(start) || uint64(start)-offset < sizeLocal:
		return nil, 0, newError(at+42, elements.ErrTruncated, "%s begins at byte %d, but must end before the directory at byte %d", errtext.Quote(m.name), offset, start)
	case packed > uint64(start)-offset-sizeLocal:
		return nil, 0, newError(at+20, elements.ErrTruncated, "%s has %d bytes, but only %d are left before the directory", errtext.Quote(m.name), packed, uint64(start)-offset-sizeLocal)
	case size > packed*maxDeflate: // packed is less than the file
		return nil, 0, newError(at+24, ErrZip, "%s has %d bytes, but %d deflated bytes become at most %d", errtext.Quote(m.name), size, packed, packed*maxDeflate)
	}
	return m, next, z.local(m, int(offset), start, raw, flags, packed)
}

// local compares the header before a member, at byte at, with the entry of the directory, and sets the bytes of the member.
func (z *archive) local(m *member, at, start int, raw []byte, flags uint16, packed uint64) *elements.Error {
	b := z.data[at:start]
	if string(b[:4]) != localMagic {
		return newError(at, ErrZip, "the header of %s is missing", errtext.Quote(m.name))
	}
	n, extra := int(le16(b[26:])), int(le16(b[28:]))
	begin := sizeLocal + n + extra
	if len(b) < begin || uint64(len(b)-begin) < packed {
		return newError(at+26, elements.ErrTruncated, "the header has %d bytes and %s has %d, but only %d are left", begin, errtext.Quote(m.name), packed, len(b))
	}
	crc, packedHere, size := uint64(le32(b[14:])), uint64(le32(b[18:])), uint64(le32(b[22:]))
	if fail := numbers(b[sizeLocal+n:begin], at+sizeLocal+n, &size, &packedHere); fail != nil {
		return fail
	}
	for _, field := range []struct {
		name       string
		at         int
		here, said uint64
		later      bool // may be 0 and follow the member instead
	}{
		{"flags", 6, uint64(le16(b[6:])), uint64(flags), false},
		{"method", 8, uint64(le16(b[8:])), uint64(m.method), false},
		{"checksum", 14, crc, uint64(m.crc), true},
		{"number of bytes in the file", 18, packedHere, packed, true},
		{"number of bytes", 22, size, m.size, true},
	} {
		if field.here != field.said && !(field.later && flags&flagDescriptor != 0 && field.here == 0) {
			return newError(at+field.at, ErrZip, "the %s of %s is %d, but %d in the directory", field.name, errtext.Quote(m.name), field.here, field.said)
		}
	}
	if here := b[sizeLocal : sizeLocal+n]; !bytes.Equal(here, raw) {
		return newError(at+sizeLocal, ErrZip, "the name is %s, but %s in the directory", errtext.Quote(here), errtext.Quote(raw))
	}
	end := begin + int(packed)
	m.at, m.bytes = at+begin, b[begin:end:end]
	if flags&flagDescriptor != 0 {
		size := sizeDescriptor(b[end:], m, packed)
		if size == 0 {
			return newError(at+end, ErrZip, "the sizes and the checksum are missing after the bytes of %s", errtext.Quote(m.name))
		}
		end += size
	}
	z.spans = append(z.spans, span{at, at + end})
	return nil
}

// sizeDescriptor returns the size of the member's descriptor at the beginning of data, or 0 if there is none with the
// numbers of the directory.
func sizeDescriptor(data []byte, m *member, packed uint64) int {
	for _, mark := range []string{descriptorMark, ""} {
		d := binary.LittleEndian.AppendUint32([]byte(mark), m.crc)
		long := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(slices.Clone(d), packed), m.size)
		if bytes.HasPrefix(data, long) {
			return len(long)
		}
		short := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(d, uint32(packed)), uint32(m.size))
		if max(packed, m.size) <= math.MaxUint32 && bytes.HasPrefix(data, short) {
			return len(short)
		}
	}
	return 0
}

// numbers parses the extra field of a member at byte at. It sets the fields that are 2^32-1 to the numbers of zip64.
func numbers(extra []byte, at int, fields ...*uint64) *elements.Error {
	var missing []*uint64
	for _, field := range fields {
		if *field == math.MaxUint32 {
			missing = append(missing, field)
		}
	}
	seen := false
	for rest := extra; len(rest) > 0; {
		here := at + len(extra) - len(rest)
		if len(rest) < 4 || len(rest)-4 < int(le16(rest[2:])) {
			return newError(here, ErrZip, "an extra field is longer than its space")
		}
		id, field := le16(rest), rest[4:4+int(le16(rest[2:]))]
		rest = rest[4+len(field):]
		switch id {
		case idUnicodePath:
			return newError(here, elements.ErrName, "an extra field gives a member a second name")
		case idZip64:
			if seen || len(field) != 8*len(missing) && len(field) != 8*len(fields) {
				return newError(here, ErrZip, "a zip64 field has %d bytes, but must have 8 for each of %d numbers", len(field), len(missing))
			}
			seen = true
			which := missing
			if len(field) == 8*len(fields) {
				which = fields
			}
			for i, number := range which {
				n := le64(field[8*i:])
				if *number != math.MaxUint32 && *number != n {
					return newError(here, ErrZip, "a zip64 field has %d, but the record before it has %d", n, *number)
				}
				*number = n
			}
		}
	}
	return nil
}

// checkName returns an error at byte at unless name is a valid name of a member: a relative path without "..", in
// UTF-8.
func checkName(name []byte, at int, flags uint16) *elements.Error {
	ascii := bytes.IndexFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
	if !payload.IsRelativePath(string(name)) || !ascii && flags&flagUTF8 == 0 {
		return newError(at, elements.ErrName, "the name %s of a member must be a relative path in UTF-8 without \"..\", NUL and backslashes", errtext.Quote(name))
	}
	return nil
}

// overlap returns an error if two members have bytes in common.
func (z *archive) overlap() *elements.Error {
	slices.SortFunc(z.spans, func(a, b span) int { return a.begin - b.begin })
	for i := 1; i < len(z.spans); i++ {
		if z.spans[i].begin < z.spans[i-1].end {
			return newError(z.spans[i].begin, ErrZip, "a member begins before the member at byte %d ends", z.spans[i-1].begin)
		}
	}
	return nil
}

// view reads the header of a member, and describes its array.
func (m *member) view(in *inflater) (v View, fail *elements.Error) {
	head := m.bytes
	if m.method == deflated {
		if head, fail = in.head(m); fail != nil {
			return v, fail
		}
	}
	name, isArray := strings.CutSuffix(m.name, ".npy")
	if !isArray && !bytes.HasPrefix(head, []byte(magic)) {
		return View{Name: name, Err: newError(m.at, ErrMagic, "the member %s", errtext.Quote(m.name))}, nil
	}
	if m.size > math.MaxInt64 {
		return v, newError(m.at, elements.ErrTruncated, "%s has %d bytes, more than a file can have", errtext.Quote(m.name), m.size)
	}
	if v, fail = parse(head, int64(m.size)); fail != nil {
		if m.method == deflated {
			fail.Where = fmt.Sprintf("in %s, byte %d when it is inflated: %s", errtext.Quote(m.name), fail.Offset, fail.Where)
			fail.Offset = int64(m.at)
		} else {
			fail.Where = fmt.Sprintf("in %s: %s", errtext.Quote(m.name), fail.Where)
			fail.After(int64(m.at))
		}
		if errors.Is(fail, elements.ErrDType) {
			return View{Name: name, Err: fail}, nil
		}
		return v, fail
	}
	m.head = int(v.Offset)
	v.Name, v.Compressed, v.member = name, m.method == deflated, m
	v.Offset = int64(m.at)
	if !v.Compressed {
		v.Offset += int64(m.head)
		v.Data = m.bytes[m.head:]
	}
	return v, nil
}

// An inflater inflates the heads of members one after the other, in the same memory.
type inflater struct {
	memory []byte
	reader io.ReadCloser
	left   int // how many bytes may still be inflated for heads: a few deflated bytes can become many
}

// head returns the first bytes of a deflated member: an npy file to the end of its header, if it is one.
func (in *inflater) head(m *member) ([]byte, *elements.Error) {
	source := bytes.NewReader(m.bytes)
	if in.reader == nil {
		in.reader = flate.NewReader(source)
	} else if err := in.reader.(flate.Resetter).Reset(source, nil); err != nil {
		return nil, errDeflate(m, err)
	}
	n := int(min(m.size, 12))
	in.memory = slices.Grow(in.memory[:0], maxHead)[:n]
	if _, err := io.ReadFull(in.reader, in.memory); err != nil {
		return nil, errDeflate(m, err)
	}
	start, size, fail := sizeHeader(in.memory)
	if fail != nil || uint64(start)+uint64(size) > m.size {
		return in.memory, nil // parse returns the error
	}
	if in.left -= start + int(size); in.left < 0 {
		return nil, newError(m.at, elements.ErrHeader, "the inflated headers of the members up to %s have more than four times the bytes of the file", errtext.Quote(m.name))
	}
	in.memory = in.memory[:max(n, start+int(size))]
	if _, err := io.ReadFull(in.reader, in.memory[n:]); err != nil {
		return nil, errDeflate(m, err)
	}
	return in.memory, nil
}

func errDeflate(m *member, err error) *elements.Error {
	return newError(m.at, ErrZip, "the deflated bytes of %s: %v", errtext.Quote(m.name), err)
}

// read copies the elements to memory of v.Size bytes, and inflates them if they are deflated. It compares the checksum of a member.
//
// Errors: [ErrZip] for bytes that are not deflated, [ErrChecksum].
func (v *View) read(to []byte) error {
	m := v.member
	if m == nil {
		copy(to, v.Data)
		return nil
	}
	crc := crc32.NewIEEE()
	if m.method == stored {
		copy(to, v.Data)
		crc.Write(m.bytes[:m.head])
	} else if err := m.inflate(to, crc); err != nil {
		return errDeflate(m, err)
	}
	crc.Write(to)
	if sum := crc.Sum32(); sum != m.crc {
		return newError(m.at, ErrChecksum, "%s has the checksum %08x, but %08x in the directory", errtext.Quote(m.name), sum, m.crc)
	}
	return nil
}

// inflate inflates the bytes before the elements into head, and the elements into to.
func (m *member) inflate(to []byte, head io.Writer) error {
	source := bytes.NewReader(m.bytes)
	r := flate.NewReader(source)
	if _, err := io.CopyN(head, r, int64(m.head)); err != nil {
		return err
	}
	if _, err := io.ReadFull(r, to); err != nil {
		return err
	}
	if n, err := io.ReadFull(r, make([]byte, 1)); n > 0 || err != io.EOF {
		return fmt.Errorf("they inflate to more than %d bytes", m.size)
	}
	if source.Len() > 0 {
		return fmt.Errorf("they end %d bytes earlier than the member", source.Len())
	}
	return nil
}

func le16(b []byte) uint16 { return binary.LittleEndian.Uint16(b) }
func le32(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }
func le64(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// Python's zipfile uses zip64 for numbers from these on.
const (
	mostNumber = math.MaxInt32
	mostCount  = math.MaxUint16
)

// A written is a member of a zip file to write, in NumPy's form: stored, with the date 1 January 1980.
type written struct {
	name         string // with ".npy"
	size, offset uint64
	crc          uint32
}

// appendNumbers appends the part that is common to the header and the directory entry of a member.
func (m *written) appendNumbers(dst []byte, packed uint32, size uint32, extra int) []byte {
	flags := uint16(0)
	if strings.IndexFunc(m.name, func(r rune) bool { return r >= utf8.RuneSelf }) >= 0 {
		flags = flagUTF8
	}
	dst = append(dst, 45, 0)
	dst = binary.LittleEndian.AppendUint16(dst, flags)
	dst = append(dst, stored, 0, 0, 0, 1<<5|1, 0)
	dst = binary.LittleEndian.AppendUint32(dst, m.crc)
	dst = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(dst, packed), size)
	return binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(dst, uint16(len(m.name))), uint16(extra))
}

// appendZip64 appends the extra field of zip64.
func appendZip64(dst []byte, numbers ...uint64) []byte {
	dst = append(dst, idZip64, 0, byte(8*len(numbers)), 0)
	for _, n := range numbers {
		dst = binary.LittleEndian.AppendUint64(dst, n)
	}
	return dst
}

// appendLocal appends the header before the member.
func (m *written) appendLocal(dst []byte) []byte {
	dst = m.appendNumbers(append(dst, localMagic...), math.MaxUint32, math.MaxUint32, 20)
	return appendZip64(append(dst, m.name...), m.size, m.size)
}

// appendEntry appends the entry of the directory.
func (m *written) appendEntry(dst []byte) []byte {
	var large []uint64
	size, offset := uint32(m.size), uint32(m.offset)
	if m.size > mostNumber {
		large, size = append(large, m.size, m.size), math.MaxUint32
	}
	if m.offset > mostNumber {
		large, offset = append(large, m.offset), math.MaxUint32
	}
	extra := 0
	if large != nil {
		extra = 4 + 8*len(large)
	}
	dst = append(append(dst, entryMagic...), 45, 3) // made on Unix
	dst = m.appendNumbers(dst, size, size, extra)
	dst = append(dst, 0, 0, 0, 0, 0, 0)                    // comment, part, kind
	dst = binary.LittleEndian.AppendUint32(dst, 0o600<<16) // mode
	dst = append(binary.LittleEndian.AppendUint32(dst, offset), m.name...)
	if large != nil {
		dst = appendZip64(dst, large...)
	}
	return dst
}

// appendEnd appends the end of a directory of count entries and size bytes, which begins at byte start of the file.
func appendEnd(dst []byte, count, size, start uint64) []byte {
	le := binary.LittleEndian
	if count > mostCount || start > mostNumber || size > mostNumber {
		dst = le.AppendUint64(append(dst, end64Magic...), sizeEnd64-12)
		dst = append(dst, 45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0)
		for _, n := range []uint64{count, count, size, start} {
			dst = le.AppendUint64(dst, n)
		}
		dst = append(append(dst, locatorMagic...), 0, 0, 0, 0)
		dst = append(le.AppendUint64(dst, start+size), 1, 0, 0, 0)
	}
	count, size, start = min(count, math.MaxUint16), min(size, math.MaxUint32), min(start, math.MaxUint32)
	dst = append(append(dst, endMagic...), 0, 0, 0, 0)
	dst = le.AppendUint16(le.AppendUint16(dst, uint16(count)), uint16(count))
	return append(le.AppendUint32(le.AppendUint32(dst, uint32(size)), uint32(start)), 0, 0)
}
