package tensorflow

import (
	"encoding/binary"
	"math"
	"slices"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/dlbridge/dlbridge/bridge"
	"github.com/dlbridge/dlbridge/bridge/internal/payload"
)

// A View is a tensor as its TensorProto says it. What it aliases is the message's; it owns nothing.
type View struct {
	DType DType
	Shape []int64
	// Data has the elements of types with a fixed size: little-endian, row-major, without gaps, wherever
	// they are aligned. Elements below a byte have bytes of their own, of which only the low bits count.
	Data []byte
	// Aliases tells that Data lies in the message. It does where the message has the elements as they lie
	// in memory; otherwise they were put together in memory of their own.
	Aliases bool
	// Elements are those of strings, resources and variants, and nil for all other types. The values of
	// resources and variants are ResourceHandleProto and VariantTensorDataProto messages, unread.
	Elements *bridge.Elements
}

// A DecodeOption changes how a TensorProto is read.
type DecodeOption func(decoding) decoding

type decoding struct {
	limit    int64
	lenient  bool
	integers bool
	writable bool
	align    int
}

func decodingOf(options []DecodeOption) decoding {
	d := decoding{limit: DefaultLimit}
	for _, option := range options {
		d = option(d)
	}
	return d
}

// DefaultLimit is the [Limit] where none is given: 64 MiB.
const DefaultLimit = 64 << 20

// Limit is how many bytes a tensor may take in memory that says only some of its values: the last one then
// stands for all that follow, so that a few bytes can be said to be any number of elements. Where each
// element has its value, memory is bounded by the message, and no limit applies. Elements of variable size
// count as 24 bytes each. The default is [DefaultLimit].
func Limit(bytes int64) DecodeOption {
	return func(d decoding) decoding { d.limit = bytes; return d }
}

// Lenient takes what TensorFlow's C++ reader takes beyond the rules: values behind the last element, and
// content of a tensor without elements, are passed over; of integers out of range the low bits count; and
// an unknown rank is that of the dimensions that are given.
func Lenient() DecodeOption {
	return func(d decoding) decoding { d.lenient = true; return d }
}

// Parse reads a TensorProto (tensor.proto). Of a message that has both, tensor_content counts, and the
// field of the tensor's type is not looked at; those of other types never are.
//
// Errors: an [*Error] with [ErrWire], [ErrText], [ErrDType], [ErrRank], [layout.ErrNegative],
// [layout.ErrOverflow], [ErrSize], [ErrCount], [ErrValue] or [ErrLimit].
func Parse(data []byte, options ...DecodeOption) (View, error) {
	d := decodingOf(options)
	var p tensorProto
	v, fail := p.view(data, &d)
	if fail != nil {
		return View{}, fail
	}
	v.Shape = p.shape.clone()
	return v, nil
}

// A tensorProto is what the fields of a TensorProto have, before any of it is made sense of.
type tensorProto struct {
	data      []byte
	dtype     DType
	dtypeAt   int
	shape     shapeProto
	content   []byte
	contentAt int
	float8    []byte
	float8At  int
	// first is the first record of values, other than of float8_val, which is a single field. more tells
	// that there are others, of this or another type.
	first record
	more  bool
}

func (p *tensorProto) read(data []byte) *Error {
	p.data = data
	r := reader{data: data}
	var f record
	for {
		if fail := r.next(&f); fail != nil {
			return fail
		}
		switch f.num {
		case 0:
			return nil
		case 1:
			if f.typ == protowire.VarintType {
				p.dtype, p.dtypeAt = DType(f.number()), f.at
			}
		case 2:
			if f.typ == protowire.BytesType {
				if fail := p.shape.read(f.sub()); fail != nil {
					return fail
				}
			}
		case contentField:
			if f.typ == protowire.BytesType {
				p.content, p.contentAt = f.value, f.start
			}
		case float8Field:
			if f.typ == protowire.BytesType {
				p.float8, p.float8At = f.value, f.start
			}
		default:
			if isValues(&f) {
				if fail := checkValues(&f); fail != nil {
					return fail
				}
				p.more = p.first.num != 0
				if !p.more {
					p.first = f
				}
			}
		}
	}
}

// numberTypes has the wire type of one value of the fields of values.
var numberTypes = [float8Field]protowire.Type{
	floatField:    protowire.Fixed32Type,
	doubleField:   protowire.Fixed64Type,
	intField:      protowire.VarintType,
	stringField:   protowire.BytesType,
	scomplexField: protowire.Fixed32Type,
	int64Field:    protowire.VarintType,
	boolField:     protowire.VarintType,
	dcomplexField: protowire.Fixed64Type,
	halfField:     protowire.VarintType,
	resourceField: protowire.BytesType,
	variantField:  protowire.BytesType,
	uint32Field:   protowire.VarintType,
	uint64Field:   protowire.VarintType,
}

// isValues tells whether a record has values. Numbers come packed, or one by one: then the record is one of
// the number's own type. A field of yet another type is an unknown one.
func isValues(f *record) bool {
	return f.num >= floatField && f.num < float8Field &&
		(f.typ == protowire.BytesType || f.typ == numberTypes[f.num])
}

// hasVarints tells whether a field of values has varints.
func hasVarints(field protowire.Number) bool {
	return field >= floatField && field < float8Field && numberTypes[field] == protowire.VarintType
}

// checkValues refuses packed numbers that are none.
func checkValues(f *record) *Error {
	if f.typ != protowire.BytesType {
		return nil
	}
	ok := true
	switch numberTypes[f.num] {
	case protowire.Fixed32Type:
		ok = len(f.value)%4 == 0
	case protowire.Fixed64Type:
		ok = len(f.value)%8 == 0
	case protowire.VarintType:
		_, ok = countVarints(f.value)
	}
	if !ok {
		return fault(f.at, ErrWire, "field %d: %d bytes are no packed numbers", f.num, len(f.value))
	}
	return nil
}

// values are those of a field one behind the other, as in one packed field. They alias the message unless
// they had to be joined.
func (p *tensorProto) values(field protowire.Number) (run []byte, at int, joined bool) {
	switch {
	case field == float8Field:
		return p.float8, p.float8At, false
	case !p.more && p.first.num == field:
		return p.first.value, p.first.start, false
	case !p.more:
		return nil, len(p.data), false
	}
	at = len(p.data)
	p.each(field, func(f *record) {
		if run == nil {
			at = f.start
			run = f.value
			return
		}
		if !joined {
			run, joined = slices.Clip(run), true
		}
		run = append(run, f.value...)
	})
	return run, at, joined
}

// each calls yield with the records of a field of values, in a message that was read before.
func (p *tensorProto) each(field protowire.Number, yield func(*record)) {
	r := reader{data: p.data}
	var f record
	for r.next(&f) == nil && f.num != 0 {
		if f.num == field && isValues(&f) {
			yield(&f)
		}
	}
}

// view reads a message. The shape stays in p, which can then stay on the stack.
func (p *tensorProto) view(data []byte, d *decoding) (v View, fail *Error) {
	if fail := p.read(data); fail != nil {
		return v, fail
	}
	if !p.dtype.valid() {
		return v, fault(p.dtypeAt, ErrDType, "dtype = %d", int32(p.dtype))
	}
	if p.shape.unknownRank && !d.lenient {
		return v, fault(p.shape.at, ErrRank, "tensor_shape.unknown_rank in a tensor")
	}
	v.DType = p.dtype
	count, fail := countOf(p.shape.dims(), p.shape.at)
	if fail != nil {
		return v, fail
	}
	kind := &kinds[p.dtype]
	size := int64(kind.storage.ItemSize())
	switch {
	case count == 0 && d.lenient:
		if size == 0 {
			v.Elements = newElements(v.DType, p.shape.clone(), 0)
		}
	case len(p.content) > 0 && size == 0:
		fail = v.splitContent(p, count)
	case len(p.content) > 0:
		fail = v.takeContent(p, count, size)
	case size == 0:
		fail = v.takeStrings(p, count, d)
	case hasVarints(kind.field):
		fail = v.takeVarints(p, count, size, d)
	default:
		fail = v.takeRaw(p, count, size, d)
	}
	return v, fail
}

// takeContent takes elements of a fixed size in tensor_content.
func (v *View) takeContent(p *tensorProto, count, size int64) *Error {
	n := int64(len(p.content))
	if n%size != 0 || n/size != count {
		return fault(p.contentAt, ErrSize, "tensor_content has %d bytes, %d elements of %v take %d each", n, count, v.DType, size)
	}
	if v.DType == Bool {
		if i := payload.NotBool(p.content); i >= 0 {
			return fault(p.contentAt+i, ErrValue, "element %d is the bool %d", i, p.content[i])
		}
	}
	v.Data, v.Aliases = p.content, true
	return nil
}

// takeRaw takes values that stand in their field as they lie in memory.
func (v *View) takeRaw(p *tensorProto, count, size int64, d *decoding) *Error {
	field := kinds[v.DType].field
	run, at, joined := p.values(field)
	if int64(len(run))%size != 0 {
		return fault(at, ErrCount, "field %d: %d bytes, each element of %v takes %d", field, len(run), v.DType, size)
	}
	n, fail := v.enough(int64(len(run))/size, at, count, size, d)
	if fail != nil {
		return fail
	}
	run = run[: n*size : n*size]
	if n == count && !joined {
		v.Data, v.Aliases = run, count > 0
		return nil
	}
	v.Data = payload.Aligned(0, int(count*size), alignment)[:count*size]
	copy(v.Data, run)
	repeat(v.Data, int(n), int(size))
	return nil
}

// enough tells how many of n values are elements, and refuses too many, and too few where the elements take
// more than is allowed.
func (v *View) enough(n int64, at int, count, size int64, d *decoding) (int64, *Error) {
	if n > count {
		if d.lenient {
			return count, nil
		}
		return 0, fault(at, ErrCount, "field %d: %d values for %d elements", kinds[v.DType].field, n, count)
	}
	if n < count && count > d.limit/size {
		return 0, fault(at, ErrLimit, "%d elements of %v from %d values take more than %d bytes", count, v.DType, n, d.limit)
	}
	return n, nil
}

// repeat fills what is behind the first n elements with the last of them; without any it leaves zeros.
func repeat(data []byte, n, size int) {
	if n == 0 {
		return
	}
	from, filled := (n-1)*size, n*size
	for filled < len(data) {
		filled += copy(data[filled:], data[from:filled])
	}
}

// takeVarints takes integers and bools from their field.
func (v *View) takeVarints(p *tensorProto, count, size int64, d *decoding) *Error {
	field, dt := kinds[v.DType].field, kinds[v.DType].storage
	run, at, _ := p.values(field)
	many, _ := countVarints(run)
	n, fail := v.enough(int64(many), at, count, size, d)
	if fail != nil || count == 0 {
		return fail
	}
	v.Data = payload.Aligned(0, int(count*size), alignment)[:count*size]
	whole := field == int64Field || field == uint32Field || field == uint64Field || field == boolField
	bounds := integerOf(dt)
	out := v.Data
	for i, rest := int64(0), run; i < n; i++ {
		x, next := uint64(rest[0]), 1
		if x >= 0x80 {
			x, next = protowire.ConsumeVarint(rest)
		}
		if !whole { // of type int32: 64 bits are cut to 32, as protocol buffers say
			signed := int64(int32(x))
			if (signed < bounds.low || signed > bounds.high) && !d.lenient {
				return fault(at+len(run)-len(rest), ErrValue, "element %d is %d, which %v does not have", i, signed, v.DType)
			}
			x &= 1<<bounds.bits - 1
		} else if field == boolField && x != 0 {
			x = 1
		}
		rest = rest[next:]
		switch size {
		case 1:
			out[i] = byte(x)
		case 2:
			binary.LittleEndian.PutUint16(out[2*i:], uint16(x))
		case 4:
			binary.LittleEndian.PutUint32(out[4*i:], uint32(x))
		default:
			binary.LittleEndian.PutUint64(out[8*i:], x)
		}
	}
	repeat(v.Data, int(n), int(size))
	return nil
}

func newElements(dtype DType, shape []int64, count int64) *bridge.Elements {
	return &bridge.Elements{Type: dtype.String(), Shape: shape, Values: make([][]byte, count)}
}

// takeStrings takes elements of variable size from their field.
func (v *View) takeStrings(p *tensorProto, count int64, d *decoding) *Error {
	field := kinds[v.DType].field
	n := int64(0)
	at := len(p.data)
	p.each(field, func(f *record) {
		if n == 0 {
			at = f.start
		}
		n++
	})
	n, fail := v.enough(n, at, count, int64(unsafe.Sizeof([]byte{})), d)
	if fail != nil {
		return fail
	}
	v.Elements = newElements(v.DType, p.shape.clone(), count)
	values := v.Elements.Values
	i := int64(0)
	p.each(field, func(f *record) {
		if i < n {
			values[i] = f.value
			i++
		}
	})
	for i := range values {
		if int64(i) >= n && n > 0 {
			values[i] = values[n-1]
		} else if values[i] == nil {
			values[i] = []byte{}
		}
	}
	return nil
}

// splitContent takes elements of variable size from tensor_content: a varint with the length of each, then
// the bytes of all.
func (v *View) splitContent(p *tensorProto, count int64) *Error {
	if count > int64(len(p.content)) {
		return fault(p.contentAt, ErrSize, "tensor_content has %d bytes for %d elements of %v", len(p.content), count, v.DType)
	}
	v.Elements = newElements(v.DType, p.shape.clone(), count)
	at := 0
	total := uint64(0)
	for i := range v.Elements.Values {
		size, n := protowire.ConsumeVarint(p.content[at:])
		if n < 0 {
			return fault(p.contentAt+at, ErrSize, "length of element %d", i)
		}
		at += n
		if total += size; size > math.MaxInt64 || total > uint64(len(p.content)) {
			return fault(p.contentAt+at, ErrSize, "element %d has %d bytes, tensor_content has %d", i, size, len(p.content))
		}
		v.Elements.Values[i] = p.content[:size] // for its length; see below
	}
	if total != uint64(len(p.content)-at) {
		return fault(p.contentAt+at, ErrSize, "elements of %v have %d bytes, %d are left for them", v.DType, total, len(p.content)-at)
	}
	for i, value := range v.Elements.Values {
		end := at + len(value)
		v.Elements.Values[i] = p.content[at:end:end]
		at = end
	}
	return nil
}

// AsElements is the tensor as elements, whatever its type: the form of what DLPack has no type for.
func (v *View) AsElements() *bridge.Elements {
	if v.Elements != nil {
		return v.Elements
	}
	size := v.DType.Storage().ItemSize()
	if size == 0 {
		return newElements(v.DType, v.Shape, 0)
	}
	e := newElements(v.DType, v.Shape, int64(len(v.Data)/size))
	for i := range e.Values {
		e.Values[i] = v.Data[i*size : (i+1)*size : (i+1)*size]
	}
	return e
}

// alignment is that of elements in memory that is taken here. TensorFlow computes on no lesser.
const alignment = 64
