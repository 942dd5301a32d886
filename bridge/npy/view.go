package npy

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/internal/errtext"
	"github.com/dlbridge/dlbridge/bridge/internal/payload"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// magic is the beginning of an npy file, before its version.
const magic = "\x93NUMPY"

const (
	alignment = 64       // of the elements in a file
	maxHeader = 64 << 10 // the largest size of a header in bytes
	maxHead   = 12 + maxHeader
	maxRank   = 64 // NumPy's limit
)

// A File has the descriptions of all arrays of a file.
type File struct {
	// Tensors has a description of each array: one for an npy file, and one for each member of an npz file, in the
	// order of its directory.
	Tensors []View

	index map[string]int // into Tensors
}

// A View describes an array of a file: its type, its shape and the place of its elements. It aliases the file and owns
// nothing.
type View struct {
	// Name is the name of the member of an npz file, without ".npy". It is empty for the array of an npy file.
	Name string
	// Type is NumPy's type string, such as "<f4".
	Type string
	// DType is the data type of an element. For bfloat16 and other types of ml_dtypes, NumPy writes only a size, such as "<V2". DType is then
	// uint8, and the last dimension of Shape is the number of bytes of an element; [View.As] restores the type.
	DType dlpack.DataType
	// Shape has the size of each dimension.
	Shape []int64
	// Fortran reports whether the elements lie in column-major order, so that the first dimension is the fastest.
	Fortran bool
	// BigEndian reports whether the elements are big-endian, which DLPack cannot describe. A tensor of such an array is a copy.
	BigEndian bool
	// Compressed reports whether the elements are deflated in the file. A tensor of such an array is a copy.
	Compressed bool
	// Offset is the index of the first byte of the elements in the file, or of the deflated member if Compressed is set.
	Offset int64
	// Size is the number of bytes of all elements.
	Size int64
	// Data has the elements as they are in the file. It is nil if Compressed is set.
	Data []byte
	// Err says why a member of an npz file has no tensor: [elements.ErrDType] for a type that DLPack lacks, [ErrMagic] for a member that is
	// not an npy file. Only Name is set then.
	Err error

	member *member // of an npz file
	raw    int     // the last dimension of Shape if it counts the bytes of an element, otherwise 0
}

// Find returns the array with the given name. The array of an npy file has the empty name.
//
// Errors: [elements.ErrNoName]; [elements.ErrNil] for a nil File.
func (f *File) Find(name string) (*View, error) {
	if f == nil {
		return nil, fmt.Errorf("npy: the File is %w", elements.ErrNil)
	}
	i, err := payload.Find(name, f.index, func(i int) string { return f.Tensors[i].Name }, "npy")
	if err != nil {
		return nil, err
	}
	return &f.Tensors[i], nil
}

// DecodeFile checks an npy file and describes its array. It reads only the header, so data can be the mapping of a
// large file.
//
// Errors: an [*elements.Error] with [ErrMagic], [elements.ErrHeader], [elements.ErrTruncated], [ErrTrailing], [ErrRank], [elements.ErrDType] for an array of
// objects, texts, dates, records or other types that DLPack lacks, [layout.ErrNegative] or [layout.ErrOverflow].
func DecodeFile(data []byte) (*File, error) {
	v, fail := parse(data, int64(len(data)))
	if fail != nil {
		return nil, fail
	}
	v.Data = data[v.Offset:]
	return &File{Tensors: []View{v}, index: map[string]int{"": 0}}, nil
}

// parse describes the array of an npy file of size bytes. head has at least its first [maxHead] bytes, or the whole
// file.
func parse(head []byte, size int64) (v View, fail *elements.Error) {
	start, n, fail := sizeHeader(head)
	if fail != nil {
		return v, fail
	}
	if n > size-int64(start) {
		return v, newError(8, elements.ErrTruncated, "the header has %d bytes, but only %d are left", n, size-int64(start))
	}
	at := start + int(n)
	h := header{text: head[:at], at: start}
	if fail := h.parse(&v); fail != nil {
		return v, fail
	}
	v.Offset = int64(at)
	if left := size - v.Offset; v.Size > left {
		return v, newError(int(min(size, math.MaxInt)), elements.ErrTruncated, "%s%s needs %d bytes, but only %d are left", v.Type, errtext.Shape(v.Shape), v.Size, left)
	} else if v.Size < left {
		return v, newError(at+int(v.Size), ErrTrailing, "%d bytes follow the last element of %s%s", left-v.Size, v.Type, errtext.Shape(v.Shape))
	}
	return v, nil
}

// sizeHeader returns the index at which the header of an npy file begins, and its size in bytes, which is at most
// [maxHeader].
func sizeHeader(head []byte) (start int, size int64, fail *elements.Error) {
	if n := min(len(head), len(magic)); string(head[:n]) != magic[:n] {
		return 0, 0, newError(0, ErrMagic, "the file begins with %q", head[:n])
	}
	start = 10
	if len(head) > 7 {
		switch version := [2]byte(head[6:8]); version {
		case [2]byte{1, 0}:
		case [2]byte{2, 0}, [2]byte{3, 0}:
			start = 12
		default:
			return 0, 0, newError(6, ErrMagic, "the version is %v.%d, but must be 1.0, 2.0 or 3.0", version[0], version[1])
		}
	}
	if len(head) < start {
		return 0, 0, newError(len(head), elements.ErrTruncated, "%d bytes are too few for the size of a header", len(head))
	}
	if start == 10 {
		size = int64(binary.LittleEndian.Uint16(head[8:]))
	} else {
		size = int64(binary.LittleEndian.Uint32(head[8:]))
	}
	if size > maxHeader {
		return 0, 0, newError(8, elements.ErrHeader, "a header of %d bytes is larger than %d", size, maxHeader)
	}
	return start, size, nil
}

// header parses the dictionary in a header. text ends with the header, and at is the index of the next byte.
type header struct {
	text  []byte
	at    int
	shape int // index at which the shape begins
}

func (h *header) parse(v *View) *elements.Error {
	seen := map[string]bool{}
	if !h.take('{') {
		return h.expected("{")
	}
	for first := true; ; first = false {
		h.skip()
		if h.take('}') {
			break
		}
		if !first {
			if !h.take(',') {
				return h.expected("a comma or }")
			}
			if h.skip(); h.take('}') {
				break
			}
		}
		where := h.at
		key, fail := h.string()
		if fail != nil {
			return fail
		}
		if seen[key] {
			return newError(where, elements.ErrHeader, "the key %s occurs twice", errtext.Quote(key))
		}
		if h.skip(); !h.take(':') {
			return h.expected(":")
		}
		h.skip()
		switch key {
		case "descr":
			fail = h.descr(v)
		case "fortran_order":
			fail = h.bool(&v.Fortran)
		case "shape":
			h.shape = h.at
			fail = h.sizes(v)
		default:
			fail = newError(where, elements.ErrHeader, "the key %s is not descr, fortran_order or shape", errtext.Quote(key))
		}
		if fail != nil {
			return fail
		}
		seen[key] = true
	}
	end := h.at
	for h.at < len(h.text) && bytes.IndexByte([]byte(" \n"), h.text[h.at]) >= 0 {
		h.at++
	}
	if h.at < len(h.text) {
		return newError(h.at, elements.ErrHeader, "%q follows the dictionary, but only spaces and a newline may", h.text[h.at])
	}
	if len(seen) < 3 {
		return newError(end, elements.ErrHeader, "the dictionary lacks a key: it needs descr, fortran_order and shape")
	}
	return v.measure(h.shape)
}

// measure sets v.Size. at is the byte that an error names.
func (v *View) measure(at int) *elements.Error {
	if v.raw > 0 {
		v.Shape = append(v.Shape, int64(v.raw))
	}
	size, fits := int64(v.DType.ItemSize()), true
	empty := false
	for _, n := range v.Shape { // even beside a 0, because the strides could overflow
		empty = empty || n == 0
		if size, fits = layout.Mul(size, max(n, 1)); !fits {
			return newError(at, layout.ErrOverflow, "number of bytes of %s%s", v.Type, errtext.Shape(v.Shape))
		}
	}
	v.Size = size
	if empty {
		v.Size = 0
	}
	return nil
}

// skip goes to the next byte that is not a space.
func (h *header) skip() {
	for h.at < len(h.text) && h.text[h.at] == ' ' {
		h.at++
	}
}

// peek returns the next byte, or 0 at the end of the header.
func (h *header) peek() byte {
	if h.at == len(h.text) {
		return 0
	}
	return h.text[h.at]
}

// take skips the next byte if it is c, and reports whether it is.
func (h *header) take(c byte) bool {
	if h.at == len(h.text) || h.text[h.at] != c {
		return false
	}
	h.at++
	return true
}

func (h *header) expected(what string) *elements.Error {
	if h.at == len(h.text) {
		return newError(h.at, elements.ErrHeader, "the header ends, but %s is expected", what)
	}
	return newError(h.at, elements.ErrHeader, "%q instead of %s", h.text[h.at], what)
}

// string parses a string without escapes.
func (h *header) string() (string, *elements.Error) {
	quote := h.peek()
	if quote != '\'' && quote != '"' {
		return "", h.expected("a string")
	}
	rest := h.text[h.at+1:]
	n := bytes.IndexByte(rest, quote)
	if n < 0 {
		return "", newError(h.at, elements.ErrHeader, "a string does not end")
	}
	if i := bytes.IndexAny(rest[:n], "\\\n"); i >= 0 {
		return "", newError(h.at+1+i, elements.ErrHeader, "a string contains %q, which NumPy does not write", rest[i])
	}
	h.at += n + 2
	return string(rest[:n]), nil
}

func (h *header) descr(v *View) *elements.Error {
	where := h.at
	if c := h.peek(); c == '[' || c == '(' {
		return newError(where, elements.ErrDType, "the array is structured: its elements are records of several fields")
	}
	text, fail := h.string()
	if fail != nil {
		return fail
	}
	e, err := elementOf(text)
	if err != nil {
		return &elements.Error{Format: "npy", Offset: int64(where), Where: "descr", Err: err}
	}
	v.Type, v.DType, v.BigEndian, v.raw = text, e.dtype, e.bigEndian, e.raw
	return nil
}

func (h *header) bool(to *bool) *elements.Error {
	for text, value := range map[string]bool{"True": true, "False": false} {
		if bytes.HasPrefix(h.text[h.at:], []byte(text)) {
			h.at += len(text)
			*to = value
			return nil
		}
	}
	return h.expected("True or False")
}

func (h *header) sizes(v *View) *elements.Error {
	if !h.take('(') {
		return h.expected("(")
	}
	v.Shape = []int64{}
	for comma := true; ; {
		h.skip()
		if h.take(')') {
			if len(v.Shape) == 1 && !comma {
				return newError(h.shape, elements.ErrHeader, "the shape is a number in parentheses, but must be a tuple, such as (3,)")
			}
			return nil
		}
		if !comma {
			return h.expected("a comma or )")
		}
		if len(v.Shape) == maxRank {
			return newError(h.at, ErrRank, "more than %d dimensions", maxRank)
		}
		n, fail := h.size(len(v.Shape))
		if fail != nil {
			return fail
		}
		v.Shape = append(v.Shape, n)
		h.skip()
		comma = h.take(',')
	}
}

// size parses the size of a dimension.
func (h *header) size(dim int) (int64, *elements.Error) {
	start := h.at
	negative := h.take('-')
	digits := h.at
	for h.at < len(h.text) && '0' <= h.text[h.at] && h.text[h.at] <= '9' {
		h.at++
	}
	text := string(h.text[digits:h.at])
	switch {
	case text == "":
		return 0, h.expected("a number")
	case negative:
		return 0, newError(start, layout.ErrNegative, "shape[%d] = -%.40s", dim, text)
	case len(text) > 1 && text[0] == '0':
		return 0, newError(start, elements.ErrHeader, "shape[%d] = %.40s must not begin with a zero", dim, text)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, newError(start, layout.ErrOverflow, "shape[%d] = %.40s", dim, text)
	}
	return n, nil
}

// Strides returns the strides in elements, or nil for an array in row-major order.
func (v *View) Strides() []int64 {
	if !v.Fortran {
		return nil
	}
	shape := v.Shape
	if v.raw > 0 {
		shape = shape[:len(shape)-1]
	}
	strides, err := layout.AppendColumnMajor(nil, shape)
	if err != nil { // DecodeFile has checked the shape
		return nil
	}
	if v.raw > 0 {
		for i := range strides {
			strides[i] *= int64(v.raw)
		}
		strides = append(strides, 1)
	}
	return strides
}

// As returns the description with another data type. It is for arrays of a type without a NumPy name: Type is "<V1",
// "<V2" or similar. As removes the last dimension, which counts the bytes of an element. Types of less than 8 bits take
// a byte for each element.
//
// Errors: [elements.ErrDType] for an array whose type is named in the file, and for a data type of another size.
func (v View) As(dt dlpack.DataType) (View, error) {
	if err := dt.Validate(); err != nil {
		return v, fmt.Errorf("npy: %w", err)
	}
	if v.raw == 0 || v.raw != dt.ItemSize() || dt.IsSubByte() && dt.Lanes() > 1 {
		return v, fmt.Errorf("npy: elements of the type %q cannot be read as %v: %w", v.Type, dt, elements.ErrDType)
	}
	v.DType, v.Shape, v.raw = dt, v.Shape[:len(v.Shape)-1:len(v.Shape)-1], 0
	return v, nil
}

// Alignment returns the largest power of two, up to 4096, that divides Offset. The elements have this alignment in
// memory if the file begins at a multiple of 4096, like a mapping.
func (v *View) Alignment() int { return payload.FileAlignment(v.Offset) }

// AppendHeader appends the header of an npy file, as NumPy writes it. Its size is a multiple of 64 bytes. The caller
// writes the elements after it in little-endian form. They are in column-major order if fortran is set, and otherwise
// in row-major order. Types that only ml_dtypes has are written as bytes, such as "<V2". Elements of less than 8 bits
// take a byte each.
//
// Errors: [elements.ErrDType], [ErrRank] for more than 64 dimensions, and those of [layout.Count]; dst is then returned unchanged.
func AppendHeader(dst []byte, dt dlpack.DataType, shape []int64, fortran bool) ([]byte, error) {
	text, err := typeOf(dt)
	if err != nil {
		return dst, err
	}
	if len(shape) > maxRank {
		return dst, fmt.Errorf("npy: the rank is %d, but NumPy has at most %d: %w", len(shape), maxRank, ErrRank)
	}
	if _, err := layout.Count(shape); err != nil {
		return dst, fmt.Errorf("npy: shape %v: %w", errtext.Shape(shape), err)
	}
	start := len(dst)
	dst = append(dst, magic+"\x01\x00\x00\x00"...)
	order := "False"
	if fortran {
		order = "True"
	}
	dst = append(dst, "{'descr': '"+text+"', 'fortran_order': "+order+", 'shape': ("...)
	for i, n := range shape {
		if i > 0 {
			dst = append(dst, ' ')
		}
		dst = strconv.AppendInt(dst, n, 10)
		if i < len(shape)-1 || i == 0 {
			dst = append(dst, ',')
		}
	}
	dst = append(dst, "), }"...)
	spaces := 0
	if len(shape) > 0 { // room for the slowest dimension to grow in the file
		slowest := shape[0]
		if fortran {
			slowest = shape[len(shape)-1]
		}
		spaces = 21 - len(strconv.FormatInt(slowest, 10))
	}
	spaces += alignment - (len(dst)-start+spaces+1)%alignment // at least one, like NumPy
	dst = append(append(dst, bytes.Repeat([]byte{' '}, spaces)...), '\n')
	binary.LittleEndian.PutUint16(dst[start+8:], uint16(len(dst)-start-10))
	return dst, nil
}

// move makes v refer to data, another copy of its file in memory.
//
// Errors: [elements.ErrTruncated].
func (v *View) move(data []byte) error {
	begin, end := v.Offset, v.Offset+v.Size
	if m := v.member; m != nil {
		begin, end = int64(m.at), int64(m.at+len(m.bytes))
	}
	if end > int64(len(data)) {
		return newError(len(data), elements.ErrTruncated, "the file has %d bytes, but had at least %d when it was parsed", len(data), end)
	}
	if v.member == nil {
		v.Data = data[begin:end:end]
		return nil
	}
	m := *v.member
	m.bytes = data[begin:end:end]
	v.member = &m
	if !v.Compressed {
		v.Data = m.bytes[m.head:]
	}
	return nil
}
