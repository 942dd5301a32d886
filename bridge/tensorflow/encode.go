package tensorflow

import (
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
		return e, fmt.Errorf("tensorflow: padding to %d, which is no power of two up to 4096: %w", e.pad, elements.ErrSize)
	}
	if e.compress && !(e.ratio > 0) {
		return e, fmt.Errorf("tensorflow: compression ratio %v: %w", e.ratio, dlpack.ErrValue)
	}
	return e, nil
}

// Fields writes values in the field of their type, as AsProtoField of TensorFlow does, and not in
// tensor_content. Strings, resources and variants have it as their default, because TensorFlow's Python
// reads them in no other form; see [Content].
func Fields() EncodeOption {
	return func(e encoding) encoding { e.fields, e.content = true, false; return e }
}

// Content writes tensor_content, as AsProtoTensorContent of TensorFlow does: the default for all elements
// of a fixed size. TensorFlow's C++ reads it for strings, resources and variants too.
func Content() EncodeOption {
	return func(e encoding) encoding { e.fields, e.content = false, true; return e }
}

// Compress leaves out values that repeat the last one, where the tensor has at least least elements and
// becomes smaller by ratio, as CompressTensorProtoInPlace of TensorFlow does, which has 64 and 2 as its
// defaults. Only zeros are left out altogether; what TensorFlow loses there, the sign of negative ones, is
// kept. Types that TensorFlow does not compress, those below a byte and float8, are compressed by the same
// rule; elements of variable size stay as they are.
func Compress(least int64, ratio float64) EncodeOption {
	return func(e encoding) encoding { e.compress, e.least, e.ratio = true, least, ratio; return e }
}

// Pad places tensor_content, or packed values that are written as they lie in memory, at a multiple of n
// bytes, a power of two up to 4096, from the beginning of the buffer: who reads the buffer into memory that
// is aligned to n bytes, or maps a file, can use them in place. TensorFlow computes on 64-byte boundaries
// only.
//
// The padding is the field version_number with its default, 0, as often and in as many bytes as needed:
// TensorFlow never looks at it, and every reader of protocol buffers takes the message for the very same.
// The bytes are then not the ones that TensorFlow writes.
func Pad(n int) EncodeOption { return func(e encoding) encoding { e.pad = n; return e } }

// As writes elements as those of another type that lie in memory as they do: integers as quantised ones. Strings,
// resources and variants are written as what they are and nothing else.
func As(dtype DType) EncodeOption { return func(e encoding) encoding { e.dtype = dtype; return e } }

// Append appends the tensor as a TensorProto: the inverse of [DecodeView]. Without options the bytes are those that TensorFlow
// writes. If it allocates memory, the elements are aligned to 64 bytes there. The memory between the length and the capacity of
// dst must not overlap the elements.
//
// Errors: [elements.ErrDType], [ErrRank], [layout.ErrNegative], [layout.ErrOverflow], [elements.ErrSize], [dlpack.ErrValue] for a
// bool that is neither 0 nor 1, [elements.ErrNil] for a nil View, and those of [AppendElements]; dst is then returned unchanged.
func (v *View) Append(dst []byte, options ...EncodeOption) ([]byte, error) {
	if v == nil {
		return dst, fmt.Errorf("tensorflow: View: %w", elements.ErrNil)
	}
	if v.DType.Storage() == 0 && v.DType.valid() {
		if v.Elements == nil || v.Elements.Type != v.DType.String() || !slices.Equal(v.Elements.Shape, v.Shape) {
			return dst, fmt.Errorf("tensorflow: %v%v without its elements: %w", v.DType, errtext.Shape(v.Shape), elements.ErrDType)
		}
		return AppendElements(dst, v.Elements, options...)
	}
	e, err := encodingOf(options)
	if err != nil {
		return dst, err
	}
	n, err := numbersOf(v.DType, v.Shape, v.Data, &e)
	if err != nil {
		return dst, err
	}
	return n.append(dst)
}

// AppendHeader appends the TensorProto of a tensor of elements with a fixed size up to the content of tensor_content. The elements
// follow it, little-endian and row-major, so that a program can send them from where they are. It ignores all options except
// [Pad].
//
// Errors: [elements.ErrDType], [ErrRank], [layout.ErrNegative], [layout.ErrOverflow]; dst is then returned unchanged.
func AppendHeader(dst []byte, dtype DType, shape []int64, options ...EncodeOption) ([]byte, error) {
	e, err := encodingOf(options)
	if err != nil {
		return dst, err
	}
	h, err := headerOf(dtype, shape)
	if err == nil && h.bytes < 0 {
		err = fmt.Errorf("tensorflow: %v has elements of variable size: %w", dtype, elements.ErrDType)
	}
	if err != nil {
		return dst, err
	}
	return h.append(dst, contentField, int(h.bytes), e.pad), nil
}

// AppendElements appends a tensor of strings, resources, variants or quantised numbers: the inverse of
// [View.AsElements]. The memory between the length and the capacity of dst must not overlap the elements.
//
// Errors: [elements.ErrDType] for a type that TensorFlow does not have, that [dlpack.Tensor] is for, or that [As] cannot write
// the elements as, [elements.ErrSize] for
// a quantised number of another size than its type, [ErrRank], [dlpack.ErrMemory], and those of
// [elements.Elements.Validate]; dst is then returned unchanged.
func AppendElements(dst []byte, elems *elements.Elements, options ...EncodeOption) ([]byte, error) {
	e, dtype, err := elementsOf(elems, options)
	if err != nil {
		return dst, err
	}
	if dtype.Storage() != 0 {
		out := dst
		err := quantised(dtype, elems, &e, func(n *numbers) (err error) {
			out, err = n.append(dst)
			return err
		})
		return out, err
	}
	s, err := textsOf(dtype, elems, &e)
	if err != nil {
		return dst, err
	}
	return s.append(dst)
}

// SizeElements returns how many bytes [AppendElements] appends to an empty slice. Errors: those of [AppendElements].
func SizeElements(elems *elements.Elements, options ...EncodeOption) (int, error) {
	e, dtype, err := elementsOf(elems, options)
	if err != nil {
		return 0, err
	}
	if dtype.Storage() != 0 {
		size := 0
		err := quantised(dtype, elems, &e, func(n *numbers) error {
			size = n.total(0)
			return nil
		})
		return size, err
	}
	s, err := textsOf(dtype, elems, &e)
	if err != nil {
		return 0, err
	}
	return s.total(0), nil
}

func elementsOf(elems *elements.Elements, options []EncodeOption) (e encoding, dtype DType, err error) {
	if e, err = encodingOf(options); err != nil {
		return e, 0, err
	}
	if elems == nil {
		return e, 0, fmt.Errorf("tensorflow: %w", elems.Validate())
	}
	if dtype, err = ParseDType(elems.Type); err != nil {
		return e, 0, err
	}
	if dtype.DataType() != 0 {
		return e, 0, fmt.Errorf("tensorflow: elements of %v are numbers, and written as a tensor: %w", dtype, elements.ErrDType)
	}
	return e, dtype, check(dtype, elems)
}

func check(dtype DType, elems *elements.Elements) error {
	if err := elems.Validate(); err != nil {
		return fmt.Errorf("tensorflow: %w", err)
	}
	if elems.Formats != nil {
		return fmt.Errorf("tensorflow: elements of %v with formats: %w", dtype, elements.ErrDType)
	}
	return nil
}

// quantised calls use with elements of a fixed size, put together in memory that lasts for the call.
func quantised(dtype DType, elems *elements.Elements, e *encoding, use func(n *numbers) error) error {
	size := dtype.Storage().ItemSize()
	data, free, err := payload.Scratch(int64(len(elems.Values)) * int64(size))
	if err != nil {
		return fmt.Errorf("tensorflow: %w", err)
	}
	defer free()
	for i, value := range elems.Values {
		if len(value) != size {
			return fmt.Errorf("tensorflow: element %d of %v has %d bytes: %w", i, dtype, len(value), elements.ErrSize)
		}
		copy(data[i*size:], value)
	}
	n, err := numbersOf(dtype, elems.Shape, data, e)
	if err != nil {
		return err
	}
	return use(&n)
}

// texts are elements of variable size to be encoded.
type texts struct {
	header
	values  [][]byte
	content bool
	lengths int // bytes that the lengths of all take
	bytes   int // of all
	pad     int
}

func textsOf(dtype DType, elems *elements.Elements, e *encoding) (s texts, err error) {
	if e.dtype != 0 && e.dtype != dtype {
		return s, fmt.Errorf("tensorflow: elements of %v as %v, which only numbers can be written as: %w", dtype, e.dtype, elements.ErrDType)
	}
	s = texts{values: elems.Values, content: e.content, pad: e.pad}
	if s.header, err = headerOf(dtype, elems.Shape); err != nil {
		return s, err
	}
	for _, value := range s.values {
		s.lengths += protowire.SizeVarint(uint64(len(value)))
		if s.bytes += len(value); s.bytes > payload.Addressable {
			return s, fmt.Errorf("tensorflow: %v are too large: %w", elems, dlpack.ErrMemory)
		}
	}
	return s, nil
}

// head is the size of what stands before the elements, behind n bytes.
func (s *texts) head(n int) int {
	if s.content {
		return s.size(n, contentField, s.lengths+s.bytes, s.pad)
	}
	return s.size(n, 0, 0, 0) + len(s.values) // a tag for each
}

func (s *texts) total(n int) int { return s.head(n) + s.lengths + s.bytes }

func (s *texts) append(dst []byte) ([]byte, error) {
	dst, err := room(dst, s.head(len(dst)), s.lengths+s.bytes, s.pad)
	if err != nil {
		return dst, err
	}
	if !s.content {
		dst = s.header.append(dst, 0, 0, 0)
		for _, value := range s.values {
			dst = protowire.AppendBytes(protowire.AppendTag(dst, kinds[s.dtype].field, protowire.BytesType), value)
		}
		return dst, nil
	}
	dst = s.header.append(dst, contentField, s.lengths+s.bytes, s.pad)
	for _, value := range s.values {
		dst = protowire.AppendVarint(dst, uint64(len(value)))
	}
	for _, value := range s.values {
		dst = append(dst, value...)
	}
	return dst, nil
}

// A header is the part of a TensorProto before its values.
type header struct {
	dtype DType
	shape []int64
	dims  int   // bytes that the shape takes
	count int64 // elements
	bytes int64 // of elements of a fixed size; -1 for others
}

func headerOf(dtype DType, shape []int64) (h header, err error) {
	if !dtype.valid() {
		return h, fmt.Errorf("tensorflow: %v: %w", dtype, elements.ErrDType)
	}
	if len(shape) > layout.MaxRank {
		return h, fmt.Errorf("tensorflow: rank %d is more than %d: %w", len(shape), layout.MaxRank, ErrRank)
	}
	h = header{dtype: dtype, shape: shape, dims: sizeDims(shape), bytes: -1}
	var d int
	if h.count, d, err = countOf(shape); err != nil {
		return h, fmt.Errorf("tensorflow: tensor_shape.dim[%d].size = %d: %w", d, shape[d], err)
	}
	if dt := kinds[dtype].storage; dt != 0 {
		if h.bytes, err = dt.NumBytes(h.count, true); err != nil || h.bytes > payload.Addressable {
			return h, fmt.Errorf("tensorflow: %v%v is too large: %w", dtype, errtext.Shape(shape), dlpack.ErrMemory)
		}
	}
	return h, nil
}

// size returns how many bytes append appends to n bytes.
func (h *header) size(n int, field protowire.Number, size, pad int) int {
	head := 2 + 1 + protowire.SizeVarint(uint64(h.dims)) + h.dims
	if size == 0 {
		return head
	}
	lead := protowire.SizeTag(field) + protowire.SizeVarint(uint64(size))
	return head + padding(n+head+lead, pad) + lead
}

// append appends type and shape, and, unless there are none, the beginning of a field of size bytes.
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

// The sizes of version_number, the field that pads: a tag, and a varint of one to ten bytes.
const leastPadding, mostPadding = 2, 11

// padding returns how many bytes to add to n for a multiple of align. It is never 1, because the shortest padding has two bytes.
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

// room returns dst with capacity for a header and elements. If it allocates memory, the elements are aligned there; with padding,
// which aligns them from the beginning of the buffer, the beginning is.
//
// Errors: [dlpack.ErrMemory]; dst is then returned unchanged.
func room(dst []byte, head, size, pad int) ([]byte, error) {
	at := len(dst) + head
	if pad > 1 {
		at = 0
	}
	out, err := payload.Room(dst, head+size, at, max(pad, alignment))
	if err != nil {
		return dst, fmt.Errorf("tensorflow: %w", err)
	}
	return out, nil
}

// as returns the type that elements of the given type are written as.
func (e *encoding) as(dtype DType) (DType, error) {
	if e.dtype == 0 {
		return dtype, nil
	}
	if e.dtype.Storage() != dtype.Storage() {
		return 0, fmt.Errorf("tensorflow: %v as %v, which lies otherwise in memory: %w", dtype, e.dtype, elements.ErrDType)
	}
	return e.dtype, nil
}

// numbers are elements of a fixed size to be encoded.
type numbers struct {
	header
	field  protowire.Number // that has them
	values []byte           // those that are said, as they lie in memory
	bytes  int              // that they take in the field
	pad    int
}

func numbersOf(dtype DType, shape []int64, data []byte, e *encoding) (n numbers, err error) {
	if dtype, err = e.as(dtype); err != nil {
		return n, err
	}
	if n.header, err = headerOf(dtype, shape); err != nil {
		return n, err
	}
	if n.header.bytes != int64(len(data)) {
		return n, fmt.Errorf("tensorflow: %d bytes for %d elements of %v: %w", len(data), n.count, dtype, elements.ErrSize)
	}
	if dtype == Bool {
		if _, where := payload.FindNonBool(data); where != "" {
			return n, fmt.Errorf("tensorflow: %s: %w", where, dlpack.ErrValue)
		}
	}
	n.field, n.values = e.shorten(&n.header, data)
	if hasVarints(n.field) {
		each(dtype, n.values, func(x uint64) { n.bytes += protowire.SizeVarint(x) })
	} else {
		n.bytes, n.pad = len(n.values), e.pad
	}
	return n, nil
}

func (n *numbers) total(before int) int {
	return n.size(before, n.field, n.bytes, n.pad) + n.bytes
}

func (n *numbers) append(dst []byte) ([]byte, error) {
	dst, err := room(dst, n.size(len(dst), n.field, n.bytes, n.pad), n.bytes, n.pad)
	if err != nil {
		return dst, err
	}
	dst = n.header.append(dst, n.field, n.bytes, n.pad)
	if !hasVarints(n.field) {
		return append(dst, n.values...), nil
	}
	each(n.dtype, n.values, func(x uint64) { dst = protowire.AppendVarint(dst, x) })
	return dst, nil
}

// each calls yield with each element as a varint has it.
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

// valueSizes has, in bytes, what TensorFlow reckons a value takes in its field. The two of a complex number
// count in content that is compressed, and not in fields.
func valueSize(field protowire.Number) int64 {
	switch field {
	case doubleField, dcomplexField, int64Field, uint64Field:
		return 8
	case boolField, float8Field:
		return 1
	}
	return 4
}

// shorten returns the field for the elements, and those of them that the message must have.
func (e *encoding) shorten(h *header, data []byte) (protowire.Number, []byte) {
	field := contentField
	if e.fields {
		field = kinds[h.dtype].field
	}
	if !e.compress || h.count < e.least || h.count == 0 {
		return field, data
	}
	size := kinds[h.dtype].storage.ItemSize()
	from := len(data) - size // the first of the elements that are equal to the last
	for from > 0 && string(data[from-size:from]) == string(data[from:from+size]) {
		from -= size
	}
	if from == 0 && isZero(data[:size]) {
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

func fraction(n int64, ratio float64) int64 {
	return int64(min(float64(n)/ratio, math.MaxInt64/2))
}

func isZero(data []byte) bool {
	for _, b := range data {
		if b != 0 {
			return false
		}
	}
	return true
}
