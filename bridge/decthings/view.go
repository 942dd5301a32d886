package decthings

import (
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
	"unsafe"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/internal/errtext"
	"github.com/dlbridge/dlbridge/bridge/internal/payload"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// A View describes an encoded tensor. It aliases the input and owns nothing.
type View struct {
	Type  Type
	Shape []int64
	// Data has the elements of numbers and booleans: little-endian, row-major, at any address.
	Data []byte
	// Elements has the elements of all other types, and is nil for numbers and booleans.
	Elements *elements.Elements
}

// DecodeView decodes a buffer that has exactly one tensor.
//
// Errors: those of [View.DecodeFirst], and [ErrTrailing].
func DecodeView(data []byte, d Dialect) (View, error) {
	return DecodeViewTo(nil, data, d)
}

// whole returns [ErrTrailing] if a tensor of n bytes is shorter than the size bytes of its buffer.
func whole(n, size int) error {
	if n < size {
		return newError(n, ErrTrailing, "%d bytes follow the tensor; DecodeAll decodes several", size-n)
	}
	return nil
}

// DecodeFirst decodes the first tensor in data and returns its size in bytes. It reuses the memory of v.Shape. After an
// error the fields of v have no meaning.
//
// Errors: an [*elements.Error] with [ErrTruncated], [ErrType], [ErrVarint], [layout.ErrOverflow],
// [dlpack.ErrValue], [ErrSection] or [ErrFormat]; or [ErrDialect]; [elements.ErrNil] for a nil View.
func (v *View) DecodeFirst(data []byte, d Dialect) (n int, err error) {
	return v.DecodeFirstTo(nil, data, d)
}

// DecodeViewTo is [DecodeView], except that elements of variable size go to the sink. The Values and Formats of v.Elements are
// then nil.
//
// Errors: those of [DecodeView] and of the sink.
func DecodeViewTo(sink elements.Sink, data []byte, d Dialect) (v View, err error) {
	n, err := v.DecodeFirstTo(sink, data, d)
	if err == nil {
		err = whole(n, len(data))
	}
	if err != nil {
		return View{}, err
	}
	return v, nil
}

// DecodeFirstTo is [View.DecodeFirst], except that elements of variable size go to the sink. The Values and Formats of
// v.Elements are then nil.
//
// Errors: those of [View.DecodeFirst] and of the sink.
func (v *View) DecodeFirstTo(sink elements.Sink, data []byte, d Dialect) (n int, err error) {
	if v == nil {
		return 0, errNilView
	}
	if err := d.check(); err != nil {
		return 0, err
	}
	return v.decode(data, d, sink)
}

var errNilView = fmt.Errorf("decthings: the View is %w", elements.ErrNil)

func (d Dialect) check() error {
	if int(d) >= len(dialects) {
		return fmt.Errorf("decthings: %v is not one of 0 to %d: %w", d, len(dialects)-1, ErrDialect)
	}
	return nil
}

// decode is [View.DecodeFirstTo] for a valid dialect.
func (v *View) decode(data []byte, d Dialect, sink elements.Sink) (int, error) {
	at, count, fail := v.header(data)
	if fail != nil {
		return 0, fail
	}
	v.Data, v.Elements = nil, nil
	dt := v.Type.DataType()
	if dt == 0 {
		return v.elements(data, at, count, d, sink)
	}
	size := int64(dt.ItemSize())
	if count > int64(len(data)-at)/size {
		return 0, newError(at, ErrTruncated, "%v%v needs %d elements of %d bytes, but only %d bytes are left", v.Type, errtext.Shape(v.Shape), count, size, len(data)-at)
	}
	end := at + int(count*size)
	v.Data = data[at:end:end]
	if v.Type == Boolean {
		if i, where := payload.FindNonBool(v.Data); where != "" {
			return 0, newError(at+i, dlpack.ErrValue, "%s", where)
		}
	}
	return end, nil
}

// header decodes the header into v, and returns the index after it and the number of elements.
func (v *View) header(data []byte) (at int, count int64, fail *elements.Error) {
	if len(data) < 2 {
		return 0, 0, newError(len(data), ErrTruncated, "%d bytes are too few for a type and a rank", len(data))
	}
	v.Type, v.Shape = Type(data[0]), v.Shape[:0]
	if !v.Type.valid() {
		return 0, 0, newError(0, ErrType, "%v is not one of %d to %d", v.Type, F32, Video)
	}
	at = 2
	for i := range int(data[1]) {
		n, next, cause := decodeVarint(data, at)
		if cause == nil && n > math.MaxInt64 {
			cause = layout.ErrOverflow
		}
		if cause != nil {
			return 0, 0, newError(at, cause, "shape[%d]", i)
		}
		v.Shape = append(v.Shape, int64(n))
		at = next
	}
	count, err := layout.Count(v.Shape)
	if err != nil {
		return 0, 0, newError(2, layout.ErrOverflow, "number of elements of shape %v", errtext.Shape(v.Shape))
	}
	return at, count, nil
}

// elements decodes count elements of variable size from data[at:], and passes them to the sink if there is one. It
// returns the index after them.
func (v *View) elements(data []byte, at int, count int64, d Dialect, sink elements.Sink) (int, error) {
	past := ErrTruncated // the error for an element that ends after the section or the input
	if d != Doc {
		n, next, cause := decodeVarint(data, at)
		if cause == nil && n > uint64(len(data)-next) {
			cause = ErrTruncated
		}
		if cause != nil {
			return 0, newError(at, cause, "the length of the section, with %d bytes left%s", len(data)-at, d.hint())
		}
		at, data, past = next, data[:next+int(n)], ErrSection
	}
	if count > int64(len(data)-at) { // each element takes at least a byte
		return 0, newError(at, past, "%v%v needs %d elements, but only %d bytes are left%s", v.Type, errtext.Shape(v.Shape), count, len(data)-at, d.hint())
	}
	e := &elements.Elements{Type: v.Type.String(), Shape: slices.Clone(v.Shape)}
	if e.Shape == nil {
		e.Shape = []int64{}
	}
	media := v.Type.media()
	if count > int64(len(data)-at)/d.least(media) {
		sink = payload.Discard // the input is too short for count elements: find the error without memory for them
	}
	c, err := payload.NewCollector(e, count, media, sink)
	if err != nil {
		return 0, newError(at, err, "%d elements of %v", count, v.Type)
	}
	format := ""
	for i := range count {
		n, next, cause := decodeVarint(data, at)
		if cause == ErrTruncated || cause == nil && n > uint64(len(data)-next) {
			cause = past
		}
		if cause != nil {
			return 0, newError(at, cause, "the length of element %d, with %d bytes left%s", i, len(data)-at, d.hint())
		}
		end := next + int(n)
		value := data[next:end:end]
		if media {
			if format, value, cause = d.splitFormat(value, format, sink != nil); cause != nil {
				return 0, newError(next, cause, "the format of element %d%s", i, d.hint())
			}
		} else if v.Type == String && !utf8.Valid(value) {
			return 0, newError(next, dlpack.ErrValue, "element %d is not UTF-8%s", i, d.hint())
		}
		c.Add(value, format)
		at = end
	}
	if d != Doc && at < len(data) {
		return 0, newError(at, ErrSection, "%d bytes follow the last element%s", len(data)-at, d.hint())
	}
	c.End()
	v.Elements = e
	return at, nil
}

// hint returns the end of an error text that names the dialect, because the wrong dialect is a frequent cause of errors in elements.
func (d Dialect) hint() string {
	return fmt.Sprintf(", in dialect %v; the option In selects another", d)
}

// least returns the fewest bytes that an element takes, including its length.
func (d Dialect) least(media bool) int64 {
	if !media {
		return 1
	}
	return int64(1 + d.sizeFormat(""))
}

// plainFormat is the fixed size in bytes of a format in the dialects other than Rs015.
const plainFormat = 3

// splitFormat splits a media element into its format and its content. before is the format of the previous element; if
// the format is the same, splitFormat returns that string. Otherwise it returns a new string, or one that aliases the
// element if alias is set.
func (d Dialect) splitFormat(element []byte, before string, alias bool) (format string, content []byte, cause error) {
	n := plainFormat
	if d == Rs015 && len(element) > 0 {
		n, element = int(element[0]), element[1:]
	} else if d == Rs015 {
		return "", nil, ErrFormat
	}
	if len(element) < n {
		return "", nil, ErrFormat
	}
	if before != string(element[:n]) {
		if alias {
			before = unsafe.String(unsafe.SliceData(element), n)
		} else {
			before = string(element[:n])
		}
	}
	return before, element[n:], d.checkFormat(before)
}

// checkFormat returns an error if the dialect cannot represent a media format.
func (d Dialect) checkFormat(format string) error {
	switch {
	case d == Rs015 && len(format) > math.MaxUint8:
		return fmt.Errorf("it has more than 255 bytes: %w", ErrFormat)
	case d != Rs015 && len(format) != plainFormat:
		return fmt.Errorf("it has %d bytes, but in this dialect a format must have 3, such as \"png\"; only rs015 allows other lengths: %w", len(format), ErrFormat)
	}
	for i := range len(format) {
		if d == Doc && format[i] >= utf8.RuneSelf {
			return dlpack.ErrValue
		}
	}
	if !utf8.ValidString(format) {
		return dlpack.ErrValue
	}
	return nil
}

// Append appends the binary form of the tensor: the inverse of [DecodeView]. If it allocates memory, it aligns the
// payload to 64 bytes. The memory between the length and the capacity of dst must not overlap the elements.
//
// Errors: [ErrType], [ErrRank], [dlpack.ErrValue], [elements.ErrSize] for Data of another length than the
// shape requires, [elements.ErrNil] for a nil View, and those of [AppendElements] and [layout.Count]; dst is then returned unchanged.
func (v *View) Append(dst []byte, d Dialect) ([]byte, error) {
	if v == nil {
		return dst, errNilView
	}
	if err := d.check(); err != nil {
		return dst, err
	}
	dt := v.Type.DataType()
	if dt == 0 {
		if v.Elements == nil || v.Elements.Type != v.Type.String() || !slices.Equal(v.Elements.Shape, v.Shape) {
			return dst, fmt.Errorf("decthings: the View is %v%v, but its Elements are nil or have another type or shape: %w", v.Type, errtext.Shape(v.Shape), ErrType)
		}
		return AppendElements(dst, v.Elements, d)
	}
	head, count, err := sizeHeader(v.Shape)
	if err != nil {
		return dst, err
	}
	if size := int64(dt.ItemSize()); int64(len(v.Data))%size != 0 || int64(len(v.Data))/size != count {
		return dst, fmt.Errorf("decthings: the data has %d bytes, but %v%v needs %d elements of %d bytes: %w", len(v.Data), v.Type, errtext.Shape(v.Shape), count, size, elements.ErrSize)
	}
	if v.Type == Boolean {
		if _, where := payload.FindNonBool(v.Data); where != "" {
			return dst, fmt.Errorf("decthings: %s: %w", where, dlpack.ErrValue)
		}
	}
	out, err := room(dst, head, int64(len(v.Data)))
	if err != nil {
		return dst, err
	}
	return append(appendHeader(out, v.Type, v.Shape), v.Data...), nil
}

// AppendHeader appends the header of a tensor of numbers or booleans without its elements. The caller writes or sends
// the elements after the header, little-endian and row-major, directly from their memory.
//
// Errors: [ErrType], [ErrRank], and those of [layout.Count]; dst is then returned unchanged.
func AppendHeader(dst []byte, t Type, shape []int64) ([]byte, error) {
	if t.DataType() == 0 {
		return dst, fmt.Errorf("decthings: %v has elements of variable size; AppendElements encodes them: %w", t, ErrType)
	}
	if _, _, err := sizeHeader(shape); err != nil {
		return dst, err
	}
	return appendHeader(dst, t, shape), nil
}

// sizeHeader returns the size in bytes of the header of a tensor of the given shape, and the number of elements.
func sizeHeader(shape []int64) (size int, count int64, err error) {
	if len(shape) > math.MaxUint8 {
		return 0, 0, fmt.Errorf("decthings: rank = %d: %w", len(shape), ErrRank)
	}
	if count, err = layout.Count(shape); err != nil {
		return 0, 0, fmt.Errorf("decthings: shape %v: %w", errtext.Shape(shape), err)
	}
	return sizeDims(shape), count, nil
}

// sizeDims returns the size in bytes of the header for a valid shape.
func sizeDims(shape []int64) int {
	size := 2
	for _, dim := range shape {
		size += sizeVarint(uint64(dim))
	}
	return size
}

func appendHeader(dst []byte, t Type, shape []int64) []byte {
	dst = append(dst, byte(t), byte(len(shape)))
	for _, dim := range shape {
		dst = appendVarint(dst, uint64(dim))
	}
	return dst
}

// AppendElements appends the binary form of a tensor of strings, binaries or media. The memory between the length and the
// capacity of dst must not overlap the elements.
//
// Errors: [ErrType], [ErrDialect], [ErrRank], [ErrFormat] for a format that the dialect cannot represent,
// [dlpack.ErrValue] for text that is not UTF-8, or a format that is not ASCII in [Doc], [dlpack.ErrMemory], and those
// of [elements.Elements.Validate]; dst is then returned unchanged.
func AppendElements(dst []byte, e *elements.Elements, d Dialect) ([]byte, error) {
	m, err := measure(e, d)
	if err != nil {
		return dst, err
	}
	out, err := room(dst, m.head, int64(m.section))
	if err != nil {
		return dst, err
	}
	out = appendHeader(out, m.t, e.Shape)
	if d != Doc {
		out = appendVarint(out, uint64(m.section))
	}
	for i, value := range e.Values {
		if e.Formats == nil {
			out = appendVarint(out, uint64(len(value)))
		} else {
			format := e.Formats[i]
			out = appendVarint(out, uint64(d.sizeFormat(format)+len(value)))
			if d == Rs015 {
				out = append(out, byte(len(format)))
			}
			out = append(out, format...)
		}
		out = append(out, value...)
	}
	return out, nil
}

// SizeElements returns how many bytes [AppendElements] appends. Errors: those of [AppendElements].
func SizeElements(e *elements.Elements, d Dialect) (int, error) {
	m, err := measure(e, d)
	return m.head + m.section, err
}

// measures has the type and the sizes in bytes of elements to encode.
type measures struct {
	t       Type
	head    int // the header, with the length of the section if the dialect writes it
	section int // all elements, with their lengths and formats
}

// measure checks elements before they are encoded, and returns the sizes of the result.
func measure(e *elements.Elements, d Dialect) (m measures, err error) {
	if err := d.check(); err != nil {
		return m, err
	}
	if e == nil {
		return m, fmt.Errorf("decthings: %w", e.Validate())
	}
	if m.t, err = ParseType(e.Type); err != nil {
		return m, err
	}
	if m.t.DataType() != 0 {
		return m, fmt.Errorf("decthings: elements of %v are numbers; AppendTensor encodes them: %w", m.t, ErrType)
	}
	if err := e.Validate(); err != nil {
		return m, fmt.Errorf("decthings: %w", err)
	}
	if m.t.media() != (e.Formats != nil) && len(e.Values) > 0 {
		return m, fmt.Errorf("decthings: there are %d formats, but %d elements of %v: %w", len(e.Formats), len(e.Values), m.t, ErrFormat)
	}
	head, _, err := sizeHeader(e.Shape)
	if err != nil {
		return m, err
	}
	section := 0
	for i, value := range e.Values {
		n := len(value)
		if m.t.media() {
			if err := d.checkFormat(e.Formats[i]); err != nil {
				return m, fmt.Errorf("decthings: element %d: format %.16q in dialect %v: %w", i, e.Formats[i], d, err)
			}
			n += d.sizeFormat(e.Formats[i])
		} else if m.t == String && !utf8.Valid(value) {
			return m, fmt.Errorf("decthings: element %d is not UTF-8: %w", i, dlpack.ErrValue)
		}
		section += sizeVarint(uint64(n)) + n
		if section > payload.Addressable {
			return m, fmt.Errorf("decthings: the elements %v are too large: %w", e, dlpack.ErrMemory)
		}
	}
	if d != Doc {
		head += sizeVarint(uint64(section))
	}
	m.head, m.section = head, section
	return m, nil
}

// sizeFormat returns how many bytes a format takes in an element.
func (d Dialect) sizeFormat(format string) int {
	if d == Rs015 {
		return 1 + len(format)
	}
	return plainFormat
}

// alignment is the alignment in bytes of payloads in memory that this package allocates.
const alignment = 64

// room returns dst with capacity for a header of head bytes and a payload of size bytes. If it allocates memory, the
// payload is aligned there.
//
// Errors: [dlpack.ErrMemory]; dst is then returned unchanged.
func room(dst []byte, head int, size int64) ([]byte, error) {
	return payload.Room("decthings", dst, head+int(min(size, payload.Addressable)), len(dst)+head, alignment)
}
