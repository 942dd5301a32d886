package tensorflow

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/internal/errtext"
	"github.com/dlbridge/dlbridge/bridge/internal/payload"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// An EncodeOption changes how a tensor is encoded.
type EncodeOption func(encoding) encoding

type encoding struct {
	dtype   DType // 0 for the type of the elements
	fields  bool
	content bool
	pad     int

	compress bool
	least    int64
	ratio    float64
}

func encodingOf(options []EncodeOption) (encoding, error) {
	var e encoding
	for _, option := range options {
		if option != nil { // a nil option changes nothing
			e = option(e)
		}
	}
	if e.pad < 0 || e.pad > 4096 || e.pad&(e.pad-1) != 0 {
		return e, fmt.Errorf("tensorflow: the padding is %d, but must be a power of two up to 4096: %w", e.pad, elements.ErrSize)
	}
	if e.compress && !(e.ratio > 0) {
		return e, fmt.Errorf("tensorflow: the compression ratio is %v, but must be above 0: %w", e.ratio, dlpack.ErrValue)
	}
	return e, nil
}

// Fields writes values to the field of their type, as AsProtoField of TensorFlow does, and not to tensor_content. It is
// the default for strings, resources and variants, because TensorFlow's Python can read them only in this field. See
// [Content].
func Fields() EncodeOption {
	return func(e encoding) encoding { e.fields, e.content = true, false; return e }
}

// Content writes values to tensor_content, as AsProtoTensorContent of TensorFlow does. It is the default for all elements of a fixed
// size. TensorFlow's C++ can also read strings, resources and variants in tensor_content.
func Content() EncodeOption {
	return func(e encoding) encoding { e.fields, e.content = false, true; return e }
}

// Compress leaves out values that repeat the last value. It does so if the tensor has at least the given number of
// elements and the remaining values take at most 1/ratio of the size. It works like TensorFlow's
// CompressTensorProtoInPlace, whose defaults are 64 and 2, with two exceptions. TensorFlow treats negative zeros as
// zeros and loses their sign; Compress keeps it. TensorFlow does not compress float8 and types of less than a byte;
// Compress applies the same rule to them. Elements of variable size are not compressed.
func Compress(least int64, ratio float64) EncodeOption {
	return func(e encoding) encoding { e.compress, e.least, e.ratio = true, least, ratio; return e }
}

// Pad places the elements at a multiple of n bytes from the beginning of the buffer, if they are written in the same
// form as in memory: in tensor_content or in a packed field. n is a power of two up to 4096. A program that maps the
// buffer from a file, or reads it into memory that is aligned to n bytes, can then use the elements in place.
// TensorFlow requires 64 bytes.
//
// The padding is the field version_number with its default, 0, repeated as often and in as many bytes as needed.
// TensorFlow ignores the field, and every reader of protocol buffers reads the same message with it and without it. The
// bytes differ from those that TensorFlow writes.
func Pad(n int) EncodeOption { return func(e encoding) encoding { e.pad = n; return e } }

// As writes elements as elements of another type with the same form in memory, such as integers as quantised integers.
// Encoders return [elements.ErrDType] for any other type. Strings, resources and variants can be written only as their
// own type.
func As(dtype DType) EncodeOption { return func(e encoding) encoding { e.dtype = dtype; return e } }

// Append appends the tensor as a TensorProto: the inverse of [DecodeView]. Without options it appends the same bytes as
// TensorFlow writes. If it allocates memory, it aligns the elements to 64 bytes. The memory between the length and the
// capacity of dst must not overlap the elements.
//
// Errors: [elements.ErrDType], [ErrRank], [layout.ErrNegative], [layout.ErrOverflow], [elements.ErrSize], [dlpack.ErrValue] for a
// bool that is neither 0 nor 1, [dlpack.ErrOverflow] for a TensorProto of more than [MaxSize] bytes, [elements.ErrNil] for a nil
// View, and those of [AppendElements]; dst is then returned unchanged.
func (v *View) Append(dst []byte, options ...EncodeOption) ([]byte, error) {
	if v == nil {
		return dst, fmt.Errorf("tensorflow: the View is %w", elements.ErrNil)
	}
	if v.DType.Storage() == 0 && v.DType.valid() {
		if v.Elements == nil || v.Elements.Type != v.DType.String() || !slices.Equal(v.Elements.Shape, v.Shape) {
			return dst, fmt.Errorf("tensorflow: the View is %v%v, but its Elements are nil or have another type or shape: %w", v.DType, errtext.Shape(v.Shape), elements.ErrDType)
		}
		return AppendElements(dst, v.Elements, options...)
	}
	e, err := encodingOf(options)
	if err != nil {
		return dst, err
	}
	m, err := numbersOf(v.DType, v.Shape, v.Data, &e)
	if err != nil {
		return dst, err
	}
	return m.append(dst)
}

// AppendHeader appends the beginning of a TensorProto, up to the first byte of tensor_content, for a tensor of elements
// with a fixed size. The caller writes or sends the elements after the header, little-endian and row-major, directly
// from their memory. All options except [Pad] are ignored.
//
// Errors: [elements.ErrDType], [ErrRank], [layout.ErrNegative], [layout.ErrOverflow], and [dlpack.ErrOverflow] if the header and
// the elements have more than [MaxSize] bytes; dst is then returned unchanged.
func AppendHeader(dst []byte, dtype DType, shape []int64, options ...EncodeOption) ([]byte, error) {
	e, err := encodingOf(options)
	if err != nil {
		return dst, err
	}
	h, err := headerOf(dtype, shape)
	if err == nil && h.bytes < 0 {
		err = fmt.Errorf("tensorflow: %v has elements of variable size; AppendElements encodes them: %w", dtype, elements.ErrDType)
	}
	if err == nil {
		_, err = h.sizeContent(len(dst), &e)
	}
	if err != nil {
		return dst, err
	}
	return h.append(dst, contentField, int(h.bytes), e.pad), nil
}

// AppendElements appends a tensor of strings, resources, variants or quantised numbers: the inverse of
// [View.AsElements]. The memory between the length and the capacity of dst must not overlap the elements.
//
// Errors: [elements.ErrDType] for a type that TensorFlow does not have, for a type that [AppendTensor] encodes, and for
// a type that [As] cannot give to the elements; [elements.ErrSize] for a quantised number of another size than its
// type; [ErrRank]; [dlpack.ErrOverflow] for a TensorProto of more than [MaxSize] bytes; [dlpack.ErrMemory], and those
// of [elements.Elements.Validate]; dst is then returned unchanged.
func AppendElements(dst []byte, elems *elements.Elements, options ...EncodeOption) ([]byte, error) {
	m, free, err := elementsOf(elems, options)
	if err != nil {
		return dst, err
	}
	defer free()
	return m.append(dst)
}

// SizeElements returns how many bytes [AppendElements] appends to an empty slice. Errors: those of [AppendElements].
func SizeElements(elems *elements.Elements, options ...EncodeOption) (int, error) {
	m, free, err := elementsOf(elems, options)
	if err != nil {
		return 0, err
	}
	defer free()
	return m.size(0)
}

// elementsOf returns the message for elements. Unless there is an error, the caller calls free once and does not use the message
// afterwards.
func elementsOf(elems *elements.Elements, options []EncodeOption) (m message, free func(), err error) {
	e, err := encodingOf(options)
	if err != nil {
		return m, nil, err
	}
	if elems == nil {
		return m, nil, fmt.Errorf("tensorflow: %w", elems.Validate())
	}
	dtype, err := ParseDType(elems.Type)
	if err != nil {
		return m, nil, err
	}
	if dtype.DataType() != 0 {
		return m, nil, fmt.Errorf("tensorflow: elements of %v are numbers; AppendTensor encodes them: %w", dtype, elements.ErrDType)
	}
	if err := elems.Validate(); err != nil {
		return m, nil, fmt.Errorf("tensorflow: %w", err)
	}
	if elems.Formats != nil {
		return m, nil, fmt.Errorf("tensorflow: Formats is set, but elements of %v have no formats: %w", dtype, elements.ErrDType)
	}
	size := dtype.Storage().ItemSize()
	if size == 0 {
		m, err = textsOf(dtype, elems, &e)
		return m, func() {}, err
	}
	if err := e.checkLeast(dtype, int64(len(elems.Values))); err != nil {
		return m, nil, err
	}
	data, free, err := payload.Scratch(int64(len(elems.Values)) * int64(size))
	if err != nil {
		return m, nil, payload.WithFormat("tensorflow", err)
	}
	defer func() {
		if err != nil {
			free()
		}
	}()
	for i, value := range elems.Values {
		if len(value) != size {
			return m, free, fmt.Errorf("tensorflow: element %d of %v has %d bytes instead of %d: %w", i, dtype, len(value), size, elements.ErrSize)
		}
		copy(data[i*size:], value)
	}
	m, err = numbersOf(dtype, elems.Shape, data, &e)
	return m, free, err
}

// A message is a TensorProto to encode.
type message struct {
	header
	field   protowire.Number // the field of all values, or 0 for elements of variable size, which have a field each
	values  []byte           // the elements of a fixed size for which the message has a value, in their form in memory
	strings [][]byte         // the elements of variable size
	length  int              // size in bytes of the encoded values, or of strings including the varints of their lengths
	longest int              // size in bytes of the longest string
	pad     int              // see Pad
}

// textsOf returns the message for elements of variable size.
func textsOf(dtype DType, elems *elements.Elements, e *encoding) (m message, err error) {
	if e.dtype != 0 && e.dtype != dtype {
		return m, fmt.Errorf("tensorflow: elements of %v cannot be encoded as %v; only quantised numbers have another type with the same bytes: %w", dtype, e.dtype, elements.ErrDType)
	}
	m = message{strings: elems.Values, pad: e.pad}
	if e.content {
		m.field = contentField
	}
	if m.header, err = headerOf(dtype, elems.Shape); err != nil {
		return m, err
	}
	for _, value := range m.strings {
		if m.length += protowire.SizeBytes(len(value)); m.length > payload.Addressable { // the sum must not overflow
			return m, errTooLarge("TensorProto", m.length)
		}
		m.longest = max(m.longest, len(value))
	}
	return m, nil
}

// head returns the size in bytes of the message without the m.length bytes of the values, if it is appended to n bytes.
func (m *message) head(n int) int {
	if m.field == 0 {
		return m.header.size(n, 0, 0, 0) + len(m.strings) // each has a tag of one byte
	}
	return m.header.size(n, m.field, m.length, m.pad)
}

// size returns how many bytes append appends if dst has n bytes.
//
// Errors: [dlpack.ErrOverflow].
func (m *message) size(n int) (int, error) {
	longest := m.longest
	if m.field != 0 {
		longest = m.length
	}
	size := m.head(n) + m.length
	return size, checkSize("TensorProto", size, longest)
}

// append appends the message. On an error dst is returned unchanged.
func (m *message) append(dst []byte) ([]byte, error) {
	if _, err := m.size(len(dst)); err != nil {
		return dst, err
	}
	dst, err := room(dst, m.head(len(dst)), m.length, m.pad)
	if err != nil {
		return dst, err
	}
	if m.field == 0 {
		dst = m.header.append(dst, 0, 0, 0)
		for _, value := range m.strings {
			dst = protowire.AppendBytes(protowire.AppendTag(dst, kinds[m.dtype].field, protowire.BytesType), value)
		}
		return dst, nil
	}
	dst = m.header.append(dst, m.field, m.length, m.pad)
	if hasVarints(m.field) {
		each(m.dtype, m.values, func(x uint64) { dst = protowire.AppendVarint(dst, x) })
		return dst, nil
	}
	for _, value := range m.strings {
		dst = protowire.AppendVarint(dst, uint64(len(value)))
	}
	for _, value := range m.strings {
		dst = append(dst, value...)
	}
	return append(dst, m.values...), nil
}

// A header is the part of a TensorProto before its values.
type header struct {
	dtype DType
	shape []int64
	dims  int   // size in bytes of the encoded dimensions
	count int64 // number of elements
	bytes int64 // size in bytes of all elements in memory, or -1 if they are of variable size
}

// headerOf checks a type and a shape, and returns their header, which aliases shape.
func headerOf(dtype DType, shape []int64) (h header, err error) {
	if !dtype.valid() {
		return h, fmt.Errorf("tensorflow: %v is not a type of TensorFlow: %w", dtype, elements.ErrDType)
	}
	if len(shape) > layout.MaxPartialRank {
		return h, fmt.Errorf("tensorflow: rank %d is more than %d: %w", len(shape), layout.MaxPartialRank, ErrRank)
	}
	h = header{dtype: dtype, shape: shape, dims: sizeDims(shape), bytes: -1}
	var d int
	if h.count, d, err = countOf(shape); err != nil {
		return h, fmt.Errorf("tensorflow: tensor_shape.dim[%d].size = %d: %w", d, shape[d], err)
	}
	if dt := kinds[dtype].storage; dt != 0 {
		if h.bytes, err = dt.NumBytes(h.count, true); err != nil || h.bytes > payload.Addressable {
			return h, fmt.Errorf("tensorflow: %v%v has more than %d bytes: %w", dtype, errtext.Shape(shape), MaxSize, dlpack.ErrOverflow)
		}
	}
	return h, nil
}

// size returns how many bytes append appends if dst has n bytes.
func (h *header) size(n int, field protowire.Number, size, pad int) int {
	head := 2 + 1 + protowire.SizeVarint(uint64(h.dims)) + h.dims
	if size == 0 {
		return head
	}
	lead := protowire.SizeTag(field) + protowire.SizeVarint(uint64(size))
	return head + padding(n+head+lead, pad) + lead
}

// append appends type and shape. Unless size is 0, it also appends padding, and the tag and the length of a field with
// size bytes of content.
func (h *header) append(dst []byte, field protowire.Number, size, pad int) []byte {
	dst = append(dst, 1<<3|byte(protowire.VarintType), byte(h.dtype), 2<<3|byte(protowire.BytesType))
	dst = protowire.AppendVarint(dst, uint64(h.dims))
	dst = appendDims(dst, h.shape)
	if size == 0 {
		return dst
	}
	lead := protowire.SizeTag(field) + protowire.SizeVarint(uint64(size))
	dst = appendPadding(dst, padding(len(dst)+lead, pad))
	return protowire.AppendVarint(protowire.AppendTag(dst, field, protowire.BytesType), uint64(size))
}

// sizeContent returns the size in bytes of a message with all elements in tensor_content that is appended to n bytes.
//
// Errors: [dlpack.ErrOverflow].
func (h *header) sizeContent(n int, e *encoding) (int, error) {
	size := h.size(n, contentField, int(h.bytes), e.pad) + int(h.bytes)
	return size, checkSize("TensorProto", size, int(h.bytes))
}

// checkLeast returns an error if even the smallest encoding of count elements of a fixed size is too large. Callers
// must call it before they allocate memory for the elements.
//
// Errors: [dlpack.ErrOverflow].
func (e *encoding) checkLeast(dtype DType, count int64) error {
	if e.compress { // compression may leave out nearly all elements
		return nil
	}
	each := int64(kinds[dtype].storage.ItemSize())
	if e.fields && hasVarints(kinds[dtype].field) {
		each = 1
	}
	if count <= MaxSize/each {
		return nil
	}
	return errTooLarge("TensorProto", int(min(count, payload.Addressable/each)*each))
}

// MaxSize is the largest size in bytes of a TensorProto, or of any other message of protocol buffers. Readers such as
// TensorFlow accept no larger messages, and the encoders of this package return an error instead of a larger message.
const MaxSize = math.MaxInt32

// slop is the number of bytes by which a field must be smaller than [MaxSize]: kSlopBytes in the C++ code of protocol
// buffers.
const slop = 16

// checkSize returns an error if readers refuse a message of size bytes, whose largest field has field bytes. what names the message.
//
// Errors: [dlpack.ErrOverflow].
func checkSize(what string, size, field int) error {
	if size > MaxSize || field > MaxSize-slop {
		return errTooLarge(what, size)
	}
	return nil
}

func errTooLarge(what string, size int) error {
	return fmt.Errorf("tensorflow: the %s would have %d bytes, but readers of protocol buffers accept at most %d (%d in one field); split the tensor, or encode it as TENS: %w",
		what, size, MaxSize, MaxSize-slop, dlpack.ErrOverflow)
}

// The smallest and the largest size in bytes of the padding field version_number: a tag, and a varint of one to ten
// bytes.
const leastPadding, mostPadding = 2, 11

// padding returns how many bytes of padding make n a multiple of align. It is never 1, because the shortest padding has
// two bytes.
func padding(n, align int) int {
	if align <= 1 {
		return 0
	}
	pad := -n & (align - 1)
	if pad == 1 {
		pad += align
	}
	return pad
}

func appendPadding(dst []byte, n int) []byte {
	for n > 0 {
		size := min(n, mostPadding)
		if n-size == 1 {
			size--
		}
		dst = append(dst, 3<<3|byte(protowire.VarintType))
		for range size - leastPadding {
			dst = append(dst, 0x80)
		}
		dst = append(dst, 0)
		n -= size
	}
	return dst
}

// placement returns the index of the byte of new memory whose address must be aligned, and its alignment, for elements
// that begin at index at. With [Pad] it is the first byte, because Pad places the elements relative to the beginning of
// the buffer.
func placement(at, pad int) (index, align int) {
	if pad > 1 {
		at = 0
	}
	return at, max(pad, alignment)
}

// room returns dst with capacity for head bytes and then size bytes of elements. If it allocates memory, the elements
// are aligned there.
//
// Errors: [dlpack.ErrMemory]; dst is then returned unchanged.
func room(dst []byte, head, size, pad int) ([]byte, error) {
	index, align := placement(len(dst)+head, pad)
	return payload.Room("tensorflow", dst, head+size, index, align)
}

// as returns the type with which elements of the given type are written (see As).
func (e *encoding) as(dtype DType) (DType, error) {
	if e.dtype == 0 {
		return dtype, nil
	}
	if e.dtype.Storage() != dtype.Storage() {
		return 0, fmt.Errorf("tensorflow: elements of %v cannot be encoded as %v, whose elements have another form in memory: %w", dtype, e.dtype, elements.ErrDType)
	}
	return e.dtype, nil
}

// numbersOf returns the message for elements of a fixed size. data has the elements in their form in memory.
func numbersOf(dtype DType, shape []int64, data []byte, e *encoding) (m message, err error) {
	if dtype, err = e.as(dtype); err != nil {
		return m, err
	}
	if m.header, err = headerOf(dtype, shape); err != nil {
		return m, err
	}
	if m.bytes != int64(len(data)) {
		return m, fmt.Errorf("tensorflow: the data has %d bytes, but %d elements of %v need %d: %w", len(data), m.count, dtype, m.bytes, elements.ErrSize)
	}
	if dtype == Bool {
		if _, where := payload.FindNonBool(data); where != "" {
			return m, fmt.Errorf("tensorflow: %s: %w", where, dlpack.ErrValue)
		}
	}
	m.field, m.values = e.shorten(&m.header, data)
	if hasVarints(m.field) {
		each(dtype, m.values, func(x uint64) { m.length += protowire.SizeVarint(x) })
	} else {
		m.length, m.pad = len(m.values), e.pad
	}
	return m, nil
}

// each calls yield with each element of data, converted to the 64-bit integer that is written as its varint.
func each(dtype DType, data []byte, yield func(uint64)) {
	dt := kinds[dtype].storage
	signed := dt.Code() == dlpack.CodeInt
	size, unused := dt.ItemSize(), 64-int(dt.Bits())
	for ; len(data) > 0; data = data[size:] {
		var x uint64
		switch size {
		case 1:
			x = uint64(data[0])
		case 2:
			x = uint64(binary.LittleEndian.Uint16(data))
		case 4:
			x = uint64(binary.LittleEndian.Uint32(data))
		default:
			x = binary.LittleEndian.Uint64(data)
		}
		if x <<= unused; signed {
			x = uint64(int64(x) >> unused)
		} else {
			x >>= unused
		}
		yield(x)
	}
}

// valueSize returns TensorFlow's estimate of the size in bytes of a value in a field, which decides whether to
// compress. A complex number has two values.
func valueSize(field protowire.Number) int64 {
	switch field {
	case doubleField, dcomplexField, int64Field, uint64Field:
		return 8
	case boolField, float8Field:
		return 1
	}
	return 4
}

// shorten returns the field for the elements, and the elements for which the message must have a value. If it
// compresses them (see Compress), these are all elements up to the first of the equal elements at the end, or none if
// all elements are zero.
func (e *encoding) shorten(h *header, data []byte) (protowire.Number, []byte) {
	field := contentField
	if e.fields {
		field = kinds[h.dtype].field
	}
	if !e.compress || h.count < e.least || h.count == 0 {
		return field, data
	}
	size := kinds[h.dtype].storage.ItemSize()
	from := len(data) - size // the beginning of the first of the equal elements at the end
	for from > 0 && string(data[from-size:from]) == string(data[from:from+size]) {
		from -= size
	}
	if from == 0 && bytes.Count(data[:size], []byte{0}) == size {
		return field, nil
	}
	short := data[:from+size]
	typed := kinds[h.dtype].field
	inField := int64(len(short)/size) * valueSize(typed)
	if !e.fields {
		if h.dtype == Complex64 || h.dtype == Complex128 {
			inField *= 2
		}
		if inField > fraction(int64(len(data)), e.ratio) {
			return field, data
		}
		return typed, short
	}
	inContent := int64(len(data))
	if min(inField, inContent) > fraction(h.count*valueSize(typed), e.ratio) {
		return field, data
	}
	if inField > inContent {
		return contentField, data
	}
	return field, short
}

// fraction returns n/ratio as an integer.
func fraction(n int64, ratio float64) int64 {
	return int64(min(float64(n)/ratio, math.MaxInt64/2))
}
