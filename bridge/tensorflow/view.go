package tensorflow

import (
	"encoding/binary"
	"errors"
	"math"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/internal/payload"
	"github.com/dlbridge/dlbridge/dlpack"
)

// A View describes the tensor of a TensorProto. It aliases the message where possible.
type View struct {
	DType DType
	Shape []int64
	// Data has the elements of a type with a fixed size: little-endian, row-major, without gaps, at any address.
	// Elements of less than a byte take a byte each; only the low bits count.
	Data []byte
	// Aliases reports whether Data lies in the message. Otherwise the form of the elements in the message differs from
	// their form in memory, and Data has its own memory.
	Aliases bool
	// Elements has the elements of strings, resources and variants, and is nil for all other types. The values of
	// resources and variants are encoded ResourceHandleProto and VariantTensorDataProto messages.
	Elements *elements.Elements
}

// A DecodeOption changes how a TensorProto is decoded.
type DecodeOption func(decoding) decoding

type decoding struct {
	limit    int64 // in bytes
	lenient  bool
	integers bool
	writable bool
	align    int
	sink     elements.Sink // receives the elements; nil if they are put in the View
}

func decodingOf(options []DecodeOption) decoding {
	d := decoding{limit: defaultLimit}
	for _, option := range options {
		if option != nil { // a nil option changes nothing
			d = option(d)
		}
	}
	return d
}

// defaultLimit is the limit in bytes without the option [Limit].
const defaultLimit = 64 << 20

// Limit sets how many bytes of memory a tensor may take if its message has fewer values than elements. The last value
// then stands for all missing elements, or zero if there is no value. So a few bytes may stand for any number of
// elements. The limit does not apply to a message with a value for each element, because its size bounds the memory.
// The default is 64 MiB.
//
// An element of [elements.Elements] counts as 24 bytes for its slice; for a quantised number, the bytes of the number
// are added. The bytes of strings, resources and variants lie in the message and do not count. If the limit allows a
// tensor but there is too little memory, the error is [dlpack.ErrMemory]. The README of package bridge has the rule for
// all decoders.
func Limit(bytes int64) DecodeOption {
	return func(d decoding) decoding { d.limit = bytes; return d }
}

// Lenient accepts the messages that TensorFlow's C++ reader accepts. It ignores values after the last element and the
// content of a tensor without elements. It uses the low bits of integers that are out of range. For an unknown rank it
// uses the given dimensions. Varints of more than 64 bits remain an error; TensorFlow's reader drops their high bits.
func Lenient() DecodeOption {
	return func(d decoding) decoding { d.lenient = true; return d }
}

// DecodeView decodes a TensorProto (tensor.proto). If a message has both tensor_content and values in a field, it uses
// tensor_content. It ignores values in the fields of other types.
//
// Errors: an [*elements.Error] with [ErrWire], [ErrText], [elements.ErrDType], [ErrRank], [layout.ErrNegative],
// [layout.ErrOverflow], [elements.ErrSize], [ErrCount], [dlpack.ErrValue] or [ErrLimit].
func DecodeView(data []byte, options ...DecodeOption) (View, error) {
	return DecodeViewTo(nil, data, options...)
}

// DecodeViewTo is [DecodeView] with two exceptions. If Data does not alias the message, it lies in memory of the sink.
// Elements of variable size go to the sink, and v.Elements then has no Values.
//
// Errors: those of [DecodeView] and of the sink.
func DecodeViewTo(sink elements.Sink, data []byte, options ...DecodeOption) (v View, err error) {
	d := decodingOf(options)
	d.sink = sink
	var p tensorProto
	size, err := p.view(data, &d, &v)
	if err == nil && size > 0 {
		if sink == nil {
			v.Data = memory(size)
		} else {
			v.Data, err = sink.Memory(size)
		}
		if err == nil {
			err = p.put(v.Data, &d)
		}
	}
	if err != nil {
		return View{}, err
	}
	v.Shape = p.shape.clone()
	return v, nil
}

// A tensorProto has the fields of a TensorProto as they were read. Fields whose names end in At are indices in data.
type tensorProto struct {
	data      []byte // the message
	dtype     DType
	dtypeAt   int
	shape     shapeProto
	content   []byte
	contentAt int
	float8    []byte
	float8At  int
	// first is the first record of values in any field except float8_val, which is not a repeated field. more reports
	// whether there are further records of values, in the same field or another.
	first record
	more  bool

	// The fields that view sets for put.
	count  int64 // number of elements
	size   int64 // size in bytes of an element, 0 for elements of variable size
	run    run   // the values, for elements of a fixed size
	number int64 // how many of the values are elements
}

// read reads the fields of a message into p.
func (p *tensorProto) read(data []byte) error {
	p.data = data
	r := reader{data: data}
	var f record
	for r.next(&f) {
		switch f.num {
		case 1:
			if f.typ == protowire.VarintType {
				p.dtype, p.dtypeAt = DType(f.number()), f.at
			}
		case 2:
			if f.typ == protowire.BytesType {
				if err := p.shape.read(f.sub()); err != nil {
					return err
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
				if err := checkValues(&f); err != nil {
					return err
				}
				p.more = p.first.num != 0
				if !p.more {
					p.first = f
				}
			}
		}
	}
	return f.err
}

// numberTypes has the wire type of a single value in each field of values.
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

// isValues reports whether a record has values of any field except float8_val: several in a packed record, or one value
// in the wire type of its field. A record of another wire type is treated as an unknown field.
func isValues(f *record) bool {
	return f.num >= floatField && f.num < float8Field &&
		(f.typ == protowire.BytesType || f.typ == numberTypes[f.num])
}

// hasVarints reports whether the values of a field are varints.
func hasVarints(field protowire.Number) bool {
	return field >= floatField && field < float8Field && numberTypes[field] == protowire.VarintType
}

// checkValues returns an error for a packed record that does not consist of whole numbers of its field.
func checkValues(f *record) error {
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
		return newError(f.at, ErrWire, "field %d has %d bytes, which are not a whole number of packed values", f.num, len(f.value))
	}
	return nil
}

// A run describes the values of a field, which may lie in several records of the message.
type run struct {
	field   protowire.Number
	bytes   []byte // the values, unless several is set
	at      int    // index in the message of the first value; the end of the message if there is none
	size    int    // size in bytes of all values
	several bool   // whether there may be several records; only tensorProto.each finds them
	number  int64  // number of values, in a field of varints
}

// values returns the run of the given field.
func (p *tensorProto) values(field protowire.Number) run {
	r := run{field: field, at: len(p.data)}
	varints := hasVarints(field)
	switch {
	case field == float8Field:
		r.bytes, r.at = p.float8, p.float8At
	case p.more:
		r.several = true
		found := false
		p.each(field, func(f *record) {
			if !found {
				r.at, found = f.start, true
			}
			r.size += len(f.value)
			if varints {
				n, _ := countVarints(f.value)
				r.number += int64(n)
			}
		})
		return r
	case p.first.num == field:
		r.bytes, r.at = p.first.value, p.first.start
	}
	r.size = len(r.bytes)
	if varints {
		n, _ := countVarints(r.bytes)
		r.number = int64(n)
	}
	return r
}

// each calls yield with each record of values of a field. The message must have been read without an error.
func (p *tensorProto) each(field protowire.Number, yield func(*record)) {
	r := reader{data: p.data}
	var f record
	for r.next(&f) {
		if f.num == field && isValues(&f) {
			yield(&f)
		}
	}
}

// view decodes a message into v, which must be zero. It does not set v.Shape: the caller takes the shape from p, so
// that p can stay on the stack. If the form of the elements in the message differs from their form in memory, view
// returns the size of the memory into which put then writes them; otherwise size is 0.
func (p *tensorProto) view(data []byte, d *decoding, v *View) (size int, err error) {
	if err := p.read(data); err != nil {
		if e, ok := errors.AsType[*elements.Error](err); ok && e.Err == ErrWire {
			e.Where = "not a TensorProto: " + e.Where
		}
		return 0, err
	}
	if len(data) == 0 {
		return 0, newError(0, ErrWire, "not a TensorProto: empty message")
	}
	if !p.dtype.valid() {
		return 0, newError(p.dtypeAt, elements.ErrDType, "dtype = %d is not a type of TensorFlow", int32(p.dtype))
	}
	if p.shape.unknownRank && !d.lenient {
		return 0, newError(p.shape.at, ErrRank, "tensor_shape.unknown_rank is set, but a tensor needs a known rank")
	}
	v.DType = p.dtype
	count, dim, err := countOf(p.shape.dims())
	if err != nil {
		return 0, newError(p.shape.at, err, "tensor_shape.dim[%d].size = %d", dim, p.shape.dims()[dim])
	}
	p.count = count
	kind := &kinds[p.dtype]
	p.size = int64(kind.storage.ItemSize())
	switch {
	case p.count == 0 && d.lenient:
		if p.size == 0 {
			v.Elements, _, err = p.collect(d)
		}
	case len(p.content) > 0 && p.size == 0:
		v.Elements, err = p.splitContent(d)
	case len(p.content) > 0:
		err = v.takeContent(p)
	case p.size == 0:
		v.Elements, err = p.takeStrings(d)
	default:
		size, err = v.takeValues(p, d)
	}
	return size, err
}

// takeContent takes elements of a fixed size from tensor_content.
func (v *View) takeContent(p *tensorProto) error {
	n := int64(len(p.content))
	if n%p.size != 0 || n/p.size != p.count {
		return newError(p.contentAt, elements.ErrSize, "tensor_content has %d bytes, but %d elements of %v need %d each", n, p.count, v.DType, p.size)
	}
	if v.DType == Bool {
		if i, where := payload.FindNonBool(p.content); where != "" {
			return newError(p.contentAt+i, dlpack.ErrValue, "%s", where)
		}
	}
	v.Data, v.Aliases = p.content, true
	return nil
}

// takeValues takes elements of a fixed size from their field. If their form there differs from their form in memory, it
// returns the size of the memory into which put then writes them; otherwise size is 0.
func (v *View) takeValues(p *tensorProto, d *decoding) (size int, err error) {
	p.run = p.values(kinds[v.DType].field)
	field, at, n := p.run.field, p.run.at, p.run.number
	raw := !hasVarints(field)
	if raw {
		if n = int64(p.run.size) / p.size; n*p.size != int64(p.run.size) {
			return 0, newError(at, ErrCount, "field %d has %d bytes, but each element of %v needs %d", field, p.run.size, v.DType, p.size)
		}
	}
	if p.number, err = p.enough(n, at, d); err != nil {
		return 0, err
	}
	if raw && p.number == p.count && !p.run.several {
		end := p.number * p.size
		v.Data, v.Aliases = p.run.bytes[:end:end], p.count > 0
		return 0, nil
	}
	return int(p.count * p.size), nil
}

// perElement is the memory that an element of [elements.Elements] takes in addition to its bytes: a slice in Go, and a
// dlb_bytes in C. Python also needs a place in a list.
const perElement = int64(unsafe.Sizeof([]byte{}))

// enough returns how many of n values are elements; the first value is at byte at. It returns an error for more values
// than elements unless d is lenient. For fewer values it returns an error if the elements would take more memory than
// [Limit] allows, or more than is available.
func (p *tensorProto) enough(n int64, at int, d *decoding) (int64, error) {
	kind := &kinds[p.dtype]
	if n > p.count {
		if d.lenient {
			return p.count, nil
		}
		return 0, newError(at, ErrCount, "field %d has %d values, but the shape has %d elements", kind.field, n, p.count)
	}
	size := p.size
	if kind.dlpack == none && !(d.integers && size > 0) {
		size += perElement
	}
	if n < p.count && p.count > d.limit/size {
		return 0, newError(at, ErrLimit, "%d elements of %v, repeated from %d values, need more than %d bytes; Limit allows more", p.count, p.dtype, n, d.limit)
	}
	if n < p.count && d.sink == nil {
		if err := dlpack.RequireMemory(p.count * size); err != nil {
			return 0, newError(at, dlpack.ErrMemory, "%d elements of %v, repeated from %d values, need %d bytes", p.count, p.dtype, n, p.count*size)
		}
	}
	return n, nil
}

// put writes the elements to data, which must be zeroed memory of the size that view has returned. If the message has
// fewer values than elements, put repeats the last value; if it has no values, data stays zero.
func (p *tensorProto) put(data []byte, d *decoding) (err error) {
	r := &p.run
	size := int(p.size)
	end := int(p.number) * size
	switch {
	case !hasVarints(r.field) && !r.several:
		copy(data, r.bytes[:end])
	case !hasVarints(r.field):
		rest := data[:end]
		p.each(r.field, func(f *record) { rest = rest[copy(rest, f.value):] })
	case !r.several:
		_, err = p.putVarints(data[:end], 0, r.bytes, r.at, d)
	default:
		i := 0
		p.each(r.field, func(f *record) {
			if err == nil {
				i, err = p.putVarints(data[:end], i, f.value, f.start, d)
			}
		})
	}
	if err == nil {
		repeat(data, int(p.number), size)
	}
	return err
}

// repeat copies element n-1 to all elements after it. size is the size of an element. For n = 0 it changes nothing.
func repeat(data []byte, n, size int) {
	if n == 0 {
		return
	}
	from, filled := (n-1)*size, n*size
	for filled < len(data) {
		filled += copy(data[filled:], data[from:filled])
	}
}

// putVarints writes the varints in rest, a record of values at byte at of the message, to the elements of out from
// index i on, and returns the index of the next element.
func (p *tensorProto) putVarints(out []byte, i int, rest []byte, at int, d *decoding) (int, error) {
	whole := p.run.field == int64Field || p.run.field == uint32Field || p.run.field == uint64Field || p.run.field == boolField
	boolean := p.run.field == boolField
	bounds := integerOf(kinds[p.dtype].storage)
	size := int(p.size)
	end := at + len(rest)
	for n := len(out) / size; i < n && len(rest) > 0; i++ {
		x, next := uint64(rest[0]), 1
		if x >= 0x80 {
			if x, next = protowire.ConsumeVarint(rest); next < 0 { // another thread has changed the message since it was checked
				return i, newError(end-len(rest), ErrWire, "element %d is not a varint", i)
			}
		}
		if !whole { // an int32 field: protocol buffers truncate 64 bits to 32
			signed := int64(int32(x))
			if (signed < bounds.low || signed > bounds.high) && !d.lenient {
				return i, newError(end-len(rest), dlpack.ErrValue, "element %d is %d, which does not fit in %v", i, signed, p.dtype)
			}
			x &= 1<<bounds.bits - 1
		} else if boolean && x != 0 {
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
	return i, nil
}

// memory returns size bytes of new memory for elements, aligned as TensorFlow requires.
func memory(size int) []byte { return payload.Aligned(0, size, alignment)[:size] }

func newElements(dtype DType, shape []int64, count int64) *elements.Elements {
	return &elements.Elements{Type: dtype.String(), Shape: shape, Values: make([][]byte, count)}
}

// collect returns new elements of the type and shape of p, and a collector for their values.
func (p *tensorProto) collect(d *decoding) (*elements.Elements, payload.Collector, error) {
	e := &elements.Elements{Type: p.dtype.String(), Shape: p.shape.clone()}
	c, err := payload.NewCollector(e, p.count, false, d.sink)
	if err != nil {
		return nil, c, newError(0, err, "%d elements of %v", p.count, p.dtype)
	}
	return e, c, nil
}

// takeStrings takes elements of variable size from their field.
func (p *tensorProto) takeStrings(d *decoding) (*elements.Elements, error) {
	field := kinds[p.dtype].field
	n := int64(0)
	at := len(p.data)
	p.each(field, func(f *record) {
		if n == 0 {
			at = f.start
		}
		n++
	})
	n, err := p.enough(n, at, d)
	if err != nil {
		return nil, err
	}
	e, c, err := p.collect(d)
	if err != nil {
		return nil, err
	}
	i, last := int64(0), []byte{}
	p.each(field, func(f *record) {
		if i < n {
			last = f.value
			c.Add(last, "")
			i++
		}
	})
	for ; i < p.count; i++ {
		c.Add(last, "")
	}
	c.End()
	return e, nil
}

// splitContent takes elements of variable size from tensor_content: first a varint with the length of each element,
// then the bytes of all elements.
func (p *tensorProto) splitContent(d *decoding) (*elements.Elements, error) {
	if p.count > int64(len(p.content)) {
		return nil, newError(p.contentAt, elements.ErrSize, "tensor_content has %d bytes, too few for %d elements of %v", len(p.content), p.count, p.dtype)
	}
	at := 0
	total := uint64(0)
	for i := range p.count {
		size, n := protowire.ConsumeVarint(p.content[at:])
		if n < 0 {
			return nil, newError(p.contentAt+at, elements.ErrSize, "the length of element %d is not a varint in tensor_content", i)
		}
		at += n
		if total += size; size > math.MaxInt64 || total > uint64(len(p.content)) {
			return nil, newError(p.contentAt+at, elements.ErrSize, "element %d has %d bytes, but tensor_content has %d", i, size, len(p.content))
		}
	}
	if total != uint64(len(p.content)-at) {
		return nil, newError(p.contentAt+at, elements.ErrSize, "the elements of %v need %d bytes, but tensor_content has %d after their lengths", p.dtype, total, len(p.content)-at)
	}
	e, c, err := p.collect(d)
	if err != nil {
		return nil, err
	}
	for lengths, i := p.content, int64(0); i < p.count; i++ {
		size, n := protowire.ConsumeVarint(lengths)
		if n < 0 || size > uint64(len(p.content)-at) { // another thread has changed the message since it was checked
			return nil, newError(p.contentAt+len(p.content)-len(lengths), elements.ErrSize, "the length of element %d has changed", i)
		}
		lengths = lengths[n:]
		end := at + int(size)
		c.Add(p.content[at:end:end], "")
		at = end
	}
	c.End()
	return e, nil
}

// AsElements returns the tensor as elements, whatever its type is. If v.Elements is nil, it allocates 24 bytes for each
// element. [Limit] has counted these bytes only for quantised numbers. The result is nil for a nil View.
func (v *View) AsElements() *elements.Elements {
	if v == nil {
		return nil
	}
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

// alignment is the alignment in bytes that TensorFlow requires for the first element of a tensor. [Export] refuses
// tensors without it. In memory that this package allocates, the first element has at least this alignment; with [Pad]
// the first byte of the buffer has it instead. The exception is a result of [AppendTensor] whose dst overlaps the
// tensor.
const alignment = 64
