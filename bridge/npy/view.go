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

// magic is what an npy file begins with, before its version.
const magic = "\x93NUMPY"

const (
	alignment = 64       // of the elements in a file
	maxHeader = 64 << 10 // the most bytes that a header may have
	maxHead   = 12 + maxHeader
	maxRank   = 64 // that of NumPy
)

// A File describes the arrays of a file. It refers to the bytes of the file, and so do its descriptions.
type File struct {
	// Tensors has a description of each array, in the order of the file.
	Tensors []Description

	data []byte
}

// A Description describes an array of a file: its type, its shape, and where its elements are.
type Description struct {
	// Type is the type in NumPy's words, such as "<f4".
	Type string
	// DType is the data type of an element. Where Type says no more than a size, such as "<V2", which is what NumPy writes for bfloat16 and
	// other types of ml_dtypes, it is uint8, and the last dimension of Shape has the bytes of an element; [Description.As] gives it the
	// type that it had.
	DType dlpack.DataType
	// Shape has the size of each dimension.
	Shape []int64
	// Fortran reports whether the elements lie in column-major order, so that the first dimension is the fastest.
	Fortran bool
	// BigEndian reports whether the bytes of each element are in the order that DLPack does not have. Such an array is copied.
	BigEndian bool
	// Offset is the index of the first element in the file.
	Offset int64
	// Size is the number of bytes of all elements.
	Size int64
	// Data has the elements as they lie in the file.
	Data []byte

	raw int // the last dimension of Shape if it has the bytes of an element, otherwise 0
}

// Parse checks an npy file and describes its array. It reads the header only, so that data can be the mapping of a large file.
//
// Errors: an [*elements.Error] with [ErrMagic], [ErrHeader], [ErrTruncated], [ErrTrailing], [ErrRank], [elements.ErrDType] for an array of
// objects, texts, dates, records or other types that DLPack lacks, [layout.ErrNegative] or [layout.ErrOverflow].
func Parse(data []byte) (*File, error) {
	d, fail := parse(data, int64(len(data)))
	if fail != nil {
		return nil, fail
	}
	d.Data = data[d.Offset:]
	return &File{Tensors: []Description{d}, data: data}, nil
}

// parse describes the array of an npy file of size bytes, which begins with head: the first [maxHead] bytes at least, or all.
func parse(head []byte, size int64) (d Description, fail *elements.Error) {
	start, n, fail := sizeHeader(head)
	if fail != nil {
		return d, fail
	}
	if n > size-int64(start) {
		return d, newError(8, ErrTruncated, "a header of %d bytes, %d bytes are left", n, size-int64(start))
	}
	at := start + int(n)
	h := header{text: head[:at], at: start}
	if fail := h.parse(&d); fail != nil {
		return d, fail
	}
	d.Offset = int64(at)
	if left := size - d.Offset; d.Size > left {
		return d, newError(int(min(size, math.MaxInt)), ErrTruncated, "%s%s takes %d bytes, %d bytes are left", d.Type, errtext.Shape(d.Shape), d.Size, left)
	} else if d.Size < left {
		return d, newError(at+int(d.Size), ErrTrailing, "%d bytes after the last element of %s%s", left-d.Size, d.Type, errtext.Shape(d.Shape))
	}
	return d, nil
}

// sizeHeader returns where the header of an npy file begins, and how many bytes it has, which are at most [maxHeader].
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
			return 0, 0, newError(6, ErrMagic, "version %d.%d, which is not 1.0, 2.0 or 3.0", version[0], version[1])
		}
	}
	if len(head) < start {
		return 0, 0, newError(len(head), ErrTruncated, "%d bytes have no size of a header", len(head))
	}
	if start == 10 {
		size = int64(binary.LittleEndian.Uint16(head[8:]))
	} else {
		size = int64(binary.LittleEndian.Uint32(head[8:]))
	}
	if size > maxHeader {
		return 0, 0, newError(8, ErrHeader, "a header of %d bytes, of which there may be %d", size, maxHeader)
	}
	return start, size, nil
}

// header parses the dictionary in a header. text ends with the header, and at is the index of the next byte.
type header struct {
	text  []byte
	at    int
	shape int // where the shape begins
}

func (h *header) parse(d *Description) *elements.Error {
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
				return h.expected(", or }")
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
			return newError(where, ErrHeader, "the key %.40q stands there twice", key)
		}
		if h.skip(); !h.take(':') {
			return h.expected(":")
		}
		h.skip()
		switch key {
		case "descr":
			fail = h.descr(d)
		case "fortran_order":
			fail = h.bool(&d.Fortran)
		case "shape":
			h.shape = h.at
			fail = h.sizes(d)
		default:
			fail = newError(where, ErrHeader, "the key %.40q is not descr, fortran_order or shape", key)
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
		return newError(h.at, ErrHeader, "%q after the dictionary, where spaces and a newline may be", h.text[h.at])
	}
	if len(seen) < 3 {
		return newError(end, ErrHeader, "the dictionary lacks a key: it needs descr, fortran_order and shape")
	}
	return d.measure(h.shape)
}

// measure sets d.Size. at is where an error is reported.
func (d *Description) measure(at int) *elements.Error {
	if d.raw > 0 {
		d.Shape = append(d.Shape, int64(d.raw))
	}
	size, fits := int64(d.DType.ItemSize()), true
	empty := false
	for _, n := range d.Shape { // also those beside a 0, which would give strides that overflow
		empty = empty || n == 0
		if size, fits = layout.Mul(size, max(n, 1)); !fits {
			return newError(at, layout.ErrOverflow, "number of bytes of %s%s", d.Type, errtext.Shape(d.Shape))
		}
	}
	d.Size = size
	if empty {
		d.Size = 0
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

// take goes behind the next byte if it is c, and reports whether it is.
func (h *header) take(c byte) bool {
	if h.at == len(h.text) || h.text[h.at] != c {
		return false
	}
	h.at++
	return true
}

func (h *header) expected(what string) *elements.Error {
	if h.at == len(h.text) {
		return newError(h.at, ErrHeader, "the header ends, where %s is expected", what)
	}
	return newError(h.at, ErrHeader, "%q, where %s is expected", h.text[h.at], what)
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
		return "", newError(h.at, ErrHeader, "a string without an end")
	}
	if i := bytes.IndexAny(rest[:n], "\\\n"); i >= 0 {
		return "", newError(h.at+1+i, ErrHeader, "%q in a string, which NumPy does not write", rest[i])
	}
	h.at += n + 2
	return string(rest[:n]), nil
}

func (h *header) descr(d *Description) *elements.Error {
	where := h.at
	if c := h.peek(); c == '[' || c == '(' {
		return newError(where, elements.ErrDType, "a structured array, whose elements are records of several fields")
	}
	text, fail := h.string()
	if fail != nil {
		return fail
	}
	e, err := elementOf(text)
	if err != nil {
		return &elements.Error{Format: "npy", Offset: int64(where), Where: "descr", Err: err}
	}
	d.Type, d.DType, d.BigEndian, d.raw = text, e.dtype, e.bigEndian, e.raw
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

func (h *header) sizes(d *Description) *elements.Error {
	if !h.take('(') {
		return h.expected("(")
	}
	d.Shape = []int64{}
	for comma := true; ; {
		h.skip()
		if h.take(')') {
			if len(d.Shape) == 1 && !comma {
				return newError(h.shape, ErrHeader, "a number in parentheses, which is no tuple without a comma")
			}
			return nil
		}
		if !comma {
			return h.expected(", or )")
		}
		if len(d.Shape) == maxRank {
			return newError(h.at, ErrRank, "more than %d dimensions", maxRank)
		}
		n, fail := h.size(len(d.Shape))
		if fail != nil {
			return fail
		}
		d.Shape = append(d.Shape, n)
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
		return 0, newError(start, ErrHeader, "shape[%d] = %.40s, a number with a zero before it", dim, text)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, newError(start, layout.ErrOverflow, "shape[%d] = %.40s", dim, text)
	}
	return n, nil
}

// Strides returns the strides in elements, or nil for an array in row-major order.
func (d *Description) Strides() []int64 {
	if !d.Fortran {
		return nil
	}
	shape := d.Shape
	if d.raw > 0 {
		shape = shape[:len(shape)-1]
	}
	strides, err := layout.AppendColumnMajor(nil, shape)
	if err != nil { // Parse has checked the shape
		return nil
	}
	if d.raw > 0 {
		for i := range strides {
			strides[i] *= int64(d.raw)
		}
		strides = append(strides, 1)
	}
	return strides
}

// As returns the description with another data type, for an array of a type that NumPy has no name for: Type is then "<V1", "<V2" or the like,
// and As removes the last dimension, which has the bytes of an element. Types of less than 8 bits take a byte for each element.
//
// Errors: [elements.ErrDType] for an array whose type the file says, and for a data type of another size.
func (d Description) As(dt dlpack.DataType) (Description, error) {
	if err := dt.Validate(); err != nil {
		return d, fmt.Errorf("npy: %w", err)
	}
	if d.raw == 0 || d.raw != dt.ItemSize() || dt.IsSubByte() && dt.Lanes() > 1 {
		return d, fmt.Errorf("npy: elements of the type %q cannot be read as %v: %w", d.Type, dt, elements.ErrDType)
	}
	d.DType, d.Shape, d.raw = dt, d.Shape[:len(d.Shape)-1:len(d.Shape)-1], 0
	return d, nil
}

// IsAligned reports whether the elements lie at a multiple of their size in the file, for complex numbers of half of it. A mapping of the file
// begins at a multiple of every size.
func (d *Description) IsAligned() bool {
	return d.Size == 0 || d.Offset%int64(payload.Alignment(d.DType)) == 0
}

// AppendHeader appends the header of an npy file, as NumPy writes it: a multiple of 64 bytes. The caller writes the elements after it,
// little-endian and, unless fortran is set, in row-major order. Types that only ml_dtypes has are written as bytes, such as "<V2"; those of less
// than 8 bits have a byte for each element.
//
// Errors: [elements.ErrDType], [ErrRank] for more than 64 dimensions, and those of [layout.Count]; dst is then returned unchanged.
func AppendHeader(dst []byte, dt dlpack.DataType, shape []int64, fortran bool) ([]byte, error) {
	text, err := typeOf(dt)
	if err != nil {
		return dst, err
	}
	if len(shape) > maxRank {
		return dst, fmt.Errorf("npy: rank = %d, NumPy has at most %d: %w", len(shape), maxRank, ErrRank)
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
	spaces += alignment - (len(dst)-start+spaces+1)%alignment // at least one: so does NumPy
	dst = append(append(dst, bytes.Repeat([]byte{' '}, spaces)...), '\n')
	binary.LittleEndian.PutUint16(dst[start+8:], uint16(len(dst)-start-10))
	return dst, nil
}
